"""Set files: programs to measure alone and together, and which co-runs to make."""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement
from pathlib import Path
from typing import Annotated, Any

import pydantic

from foretell.corun.calibration import PAIR, PINNED, SHIFTED, TRIPLE
from foretell.decide.corun.jobs import PINS
from foretell.files.text_file import FileKind
from foretell.files.typed import read_typed

SET_FILE = FileKind("set", "two [program.NAME]", (".toml",))
ALONE = "alone"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,40}")
_STRICT = pydantic.ConfigDict(extra="forbid", frozen=True)
Count = Annotated[int, pydantic.Field(ge=0, le=10_000)]
Share = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]


class Program(pydantic.BaseModel):
    """A program to measure: its command, which no shell runs."""

    model_config = _STRICT

    run: str

    @pydantic.field_validator("run")
    @classmethod
    def _has_words(cls, value: str) -> str:
        if not shlex.split(value):
            raise ValueError('the command is empty; write one, such as "python job.py"')
        return value

    @property
    def command(self) -> tuple[str, ...]:
        """The words of the command."""
        return tuple(shlex.split(self.run))


class CoRunSet(pydantic.BaseModel):
    """Programs, and which co-runs of them to make.

    Attributes
    ----------
    program
        Programs by name.
    alone
        How often each program runs alone.
    pairs
        How many pairs run together from the same moment; by default all, also of a program with
        itself.
    shifted, triples, pinned
        How many pairs with a later start, how many triples, and how many pairs in both layouts;
        drawn by the seed.
    max_disturbed, max_steal, attempts
        A run is repeated, up to this many attempts, if others kept more than this many cores busy
        while its jobs waited for one, or the host of a virtual machine did, or a limit on CPU time
        held them back for that share of the time.
    priority
        Whether jobs run before other processes; it needs root.
    """

    model_config = _STRICT

    program: Annotated[dict[str, Program], pydantic.Field(min_length=2, max_length=100)]
    alone: Annotated[int, pydantic.Field(ge=1, le=100)] = 3
    pairs: Count | None = None
    shifted: Count = 20
    triples: Count = 12
    pinned: Count = 12
    max_disturbed: Share = 0.1
    max_steal: Share = 0.05
    attempts: Annotated[int, pydantic.Field(ge=1, le=20)] = 3
    priority: bool = False
    seed: int = 0

    @pydantic.field_validator("program")
    @classmethod
    def _have_plain_names(cls, programs: dict[str, Program]) -> dict[str, Program]:
        """Check names, which become parts of the names of files."""
        for name in programs:
            if not NAME.fullmatch(name):
                raise ValueError(
                    f"a program cannot be called {name!r}; use letters, digits, dots, - and _"
                )
        return programs


@dataclass(frozen=True)
class Planned:
    """One run of one or several programs.

    Attributes
    ----------
    shift
        When the second program starts, as a share of how long the first one takes alone.
    pin
        The layout; empty if the system decides.
    """

    kind: str
    programs: tuple[str, ...]
    repeat: int = 0
    shift: float = 0.0
    pin: str = ""

    @property
    def key(self) -> str:
        """A name that tells runs apart, fit for a file."""
        extra = f"-{self.pin}" if self.pin else f"-{self.shift:.2f}" if self.shift else ""
        return f"{self.kind}-{'+'.join(self.programs)}{extra}-{self.repeat}"


def profile_name(program: str, repeat: int) -> str:
    """Return the name of the file of a run alone; names of programs have no plus sign."""
    return f"{program}.profile" if repeat == 0 else f"{program}+{repeat}.profile"


def read_set(source: Path | str | Mapping[str, Any] | CoRunSet) -> CoRunSet:
    """Read and check a set file, or a dict of its shape."""
    return read_typed(source, CoRunSet, SET_FILE)


@dataclass
class _Drawing:
    draw: random.Random = field(default_factory=random.Random)

    def some(self, of: list[tuple[str, ...]], n: int) -> list[tuple[str, ...]]:
        return self.draw.sample(of, min(n, len(of)))


def planned_runs(given: CoRunSet) -> list[Planned]:
    """Return all runs in the order to make them.

    Each program alone once, then the others mixed by the seed. Repeats alone come evenly between
    them: a machine that gets slower or faster meanwhile is the same for both in the median.
    """
    names = sorted(given.program)
    drawing = _Drawing(random.Random(given.seed))  # noqa: S311 - no secret
    alone = [Planned(ALONE, (name,)) for name in names]
    repeats = [Planned(ALONE, (name,), k) for k in range(1, given.alone) for name in names]
    pairs = list(combinations_with_replacement(names, 2))
    ordered = [pair for a, b in combinations(names, 2) for pair in ((a, b), (b, a))]
    triples: list[tuple[str, ...]] = list(combinations(names, 3))
    n_pairs = len(pairs) if given.pairs is None else given.pairs
    found = [Planned(PAIR, pair) for pair in drawing.some(list(pairs), n_pairs)]
    for pair in drawing.some(list(ordered), given.shifted):
        found.append(Planned(SHIFTED, pair, shift=round(drawing.draw.uniform(0.2, 0.8), 2)))
    found += [Planned(TRIPLE, triple) for triple in drawing.some(triples, given.triples)]
    for pair in drawing.some(list(combinations(names, 2)), given.pinned):
        found += [Planned(PINNED, pair, pin=pin) for pin in PINS]
    drawing.draw.shuffle(found)
    return [*alone, *_mixed_evenly(repeats, found)]


def _mixed_evenly(*lists: list[Planned]) -> list[Planned]:
    """Mix lists so that each keeps its order and is spread over the whole."""
    places = [((k + 0.5) / len(own), run) for own in lists for k, run in enumerate(own)]
    return [run for _, run in sorted(places, key=lambda place: place[0])]
