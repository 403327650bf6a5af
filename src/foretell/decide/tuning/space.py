"""Space files: the hyperparameters of a search, system settings, fixed values, start-up time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pydantic

from foretell.errors import UsageError, suggest
from foretell.files.complaints import refusal
from foretell.files.text_file import FileKind
from foretell.files.typed import read_typed
from foretell.spaces.values import Range, Scalar, Values, drawn, listed

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

SPACE_FILE = FileKind("space", "one hyperparameter under [hyperparameters]", (".toml",))
THREADS = "threads"
#: Parts into which a range is cut, of which one is left out to see what that saves.
_N_PARTS = 4


def _not_empty(values: Values) -> Values:
    if isinstance(values, list) and not values:
        raise refusal("empty", "has no values", at=(), remedy="list at least one, such as [16, 32]")
    return values


Choice = Annotated[Values, pydantic.AfterValidator(_not_empty)]


def _seconds(value: float) -> float:
    if not 0 <= value < float("inf"):
        raise refusal(
            "seconds", f"must be at least 0, not {value:g}", at=(), remedy="write seconds"
        )
    return value


class Space(pydantic.BaseModel):
    """What a search chooses from.

    Attributes
    ----------
    start_up_s
        What passes between a free slot and the first epoch of a trial in it: a new process,
        imports, reading data. Ray Tune needs seconds, a loop in one process nearly none.
    hyperparameters
        Values of each: a list, or a range (``from``, ``to``, ``spacing = "log"``).
    system
        Settings of the machine that all trials share, such as ``threads``: the one in use, or a
        list of which the first is in use and the others are compared with it.
    fixed
        What is the same in all trials, and a model of epoch times needs to know.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    start_up_s: Annotated[float, pydantic.AfterValidator(_seconds)] = 0.0
    hyperparameters: dict[str, Choice]
    system: dict[str, Choice] = {}
    fixed: dict[str, Scalar] = {}

    @pydantic.model_validator(mode="after")
    def _is_sound(self) -> Space:
        if not self.hyperparameters:
            raise refusal(
                "empty", "has no hyperparameter, and a search chooses at least one",
                at=("hyperparameters",), remedy="write one, such as batch_size = [16, 32, 64]",
            )  # fmt: skip
        tables = (self.hyperparameters, self.system, self.fixed)
        seen: set[str] = set()
        for name in (name for table in tables for name in table):
            if name in seen:
                raise refusal("twice", f"'{name}' is given twice; keep one of them", at=())
            seen.add(name)
        for name, values in self.system.items():
            if isinstance(values, Range) and values.is_continuous:
                raise refusal(
                    "range", f"'{name}' is a range without a step; list its values", at=("system",)
                )
        self._check_threads()
        return self

    def _check_threads(self) -> None:
        for table in ("hyperparameters", "fixed"):
            if THREADS in getattr(self, table):
                raise refusal(
                    "threads", "must be under [system]: they decide how many trials run at a time",
                    at=(table, THREADS), remedy="write [system] above it",
                )  # fmt: skip
        for n in listed(self.system.get(THREADS, 1)):
            if isinstance(n, bool) or not isinstance(n, int) or n < 1:
                raise refusal(
                    "threads", f"must be whole numbers from 1, not {n}", at=("system", THREADS),
                    remedy="write the threads of one trial, such as 2",
                )  # fmt: skip

    @property
    def threads(self) -> int:
        """The threads of one trial, 1 if none are given."""
        return int(listed(self.system.get(THREADS, 1))[0])

    @property
    def names(self) -> list[str]:
        """What a configuration of this space has."""
        return [*self.hyperparameters, *self.system, *self.fixed]

    def draw(self, n: int, random: np.random.Generator) -> pd.DataFrame:
        """Draw configurations as random search does; system settings are those in use."""
        import pandas as pd

        shares = random.random((n, len(self.hyperparameters)))
        columns: dict[str, list[Scalar]] = {
            name: [drawn(values, share) for share in shares[:, k]]
            for k, (name, values) in enumerate(self.hyperparameters.items())
        }
        columns |= {name: [listed(values)[0]] * n for name, values in self.system.items()}
        return pd.DataFrame(columns | {name: [value] * n for name, value in self.fixed.items()})

    def with_system(self, name: str, value: Scalar) -> Space:
        """Return this space with another value of a system setting in use."""
        return self.model_copy(update={"system": {**self.system, name: value}})

    def parts(self, names: Sequence[str]) -> list[Part]:
        """List what can be left out of the hyperparameters named: a value, or an end of a range."""
        found = []
        for name in names:
            values = self.hyperparameters.get(name)
            if isinstance(values, Range) and values.is_continuous and values.start < values.stop:
                found += _ends(name, values)
            elif values is not None and 2 <= len(listed(values)) <= 24:
                rests = {v: _others(values, v) for v in listed(values)}
                found += [Part(name, f"{name}={v}", rest) for v, rest in rests.items() if rest]
        return found

    def without(self, part: Part) -> Space:
        """Return the space that is left without a part."""
        return self.model_copy(
            update={"hyperparameters": {**self.hyperparameters, part.name: part.rest}}
        )


@dataclass(frozen=True)
class Part:
    """Values of one hyperparameter that could be left out, and what is then left."""

    name: str
    text: str
    rest: Values


def _others(values: Values, out: Scalar) -> list[Scalar]:
    return [v for v in listed(values) if v != out]


def _ends(name: str, values: Range) -> list[Part]:
    """Return the lowest and the highest part of a range."""
    low, high = values.at(1 / _N_PARTS), values.at(1 - 1 / _N_PARTS)
    if values.is_whole:
        low, high = round(low), round(high)
    low, high = float(f"{low:.3g}"), float(f"{high:.3g}")
    return [
        Part(name, f"{name} below {low:g}", values.model_copy(update={"start": low})),
        Part(name, f"{name} above {high:g}", values.model_copy(update={"stop": high})),
    ]


def read_space(source: Path | str | Mapping[str, Any] | Space) -> Space:
    """Read a space file, or a dict of its shape."""
    return read_typed(source, Space, SPACE_FILE)


def check_columns(space: Space, needed: Sequence[str], what: str) -> None:
    """Refuse a space that lacks columns that a model needs."""
    missing = [name for name in needed if name not in space.names]
    if missing:
        near = "".join(f" {suggest(name, space.names)}" for name in missing[:1])
        raise UsageError(
            f"{what} needs {' and '.join(missing)}, and the space does not give "
            f"{'it' if len(missing) == 1 else 'them'}; write {missing[0]} = ... under [fixed], "
            f"[system] or [hyperparameters].{near}"
        )
