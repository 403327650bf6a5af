"""Sweep files: what to run, typed and checked.

A sweep names a workload, its parameters and their values, how to combine them, and how to run:
repeats, order, limits. Its fields are those of the TOML file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from foretell.errors import UsageError, suggest
from foretell.files.complaints import dotted, explain, shown
from foretell.files.text_file import FileKind, read_toml_file
from foretell.files.typed import validated
from foretell.machines import Needs, Resources, read_amount
from foretell.measure.meters import METERS
from foretell.measure.workloads import Workload, load_workload
from foretell.predictor import FORECAST_COLUMNS
from foretell.spaces.expressions import Expression
from foretell.spaces.values import Range, Scalar, Values, listed

SWEEP_FILE = FileKind("sweep", "a workload and its parameters", (".toml",))

Count = Annotated[int, pydantic.Field(ge=0)]
Positive = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]

#: Columns of tables of runs and of predictions, and a folder: parameters cannot have these names.
_RESERVED = (
    "scratch", "repeat", "status", "reason", "started_at", "n_attempts", "is_shared", "wall_time_s",
    "node", "n_lost", *FORECAST_COLUMNS,
)  # fmt: skip


def reserved_names() -> set[str]:
    """Return the names that foretell uses itself: its own columns, and those of all meters."""
    return {*_RESERVED, *(c for name in METERS.names() for c in METERS.get(name).columns)}


class Design(pydantic.BaseModel):
    """How the values of parameters become configurations.

    ``grid`` takes every combination, ``random`` draws each value independently, ``latin`` draws so
    that the range of every parameter is covered evenly.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    method: Literal["grid", "random", "latin"] = "grid"
    n: Annotated[int, pydantic.Field(ge=1, le=10_000_000)] | None = None


class Power(pydantic.BaseModel):
    """What the machine draws, in watts: doing nothing, and with all cores busy."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    idle_w: Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
    busy_w: Positive
    source: str = "given in the sweep"

    @pydantic.model_validator(mode="after")
    def _are_in_order(self) -> Power:
        if self.busy_w < self.idle_w:
            raise ValueError("busy_w is less than idle_w; exchange them")
        return self


class NeedsTable(pydantic.BaseModel):
    """What each run needs of a node: numbers, or expressions of its parameters."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    cpus: float | str = 1.0
    gpus: float | str = 0.0
    memory_mib: float | str = 0.0

    def of(self, configuration: Mapping[str, Any]) -> Needs:
        """Return what a run with these settings needs."""
        found = {}
        for name, given in self:
            value = Expression(given).value(configuration) if isinstance(given, str) else given
            found[name] = read_amount(value, f"needs.{name}")
        memory_bytes = round(found["memory_mib"] * 2**20)
        return Needs(Resources(found["cpus"], memory_bytes, found["gpus"]))


class Sweep(pydantic.BaseModel):
    """A set of runs to measure."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    workload: dict[str, Any]
    parameters: dict[str, Values] = {}
    configurations: list[dict[str, Scalar]] = []
    design: Design = Design()
    only: list[str] = []
    exclude: list[str] = []
    derive: dict[str, str] = {}
    repeats: Annotated[int, pydantic.Field(ge=1, le=100_000)] = 1
    order: Literal["random", "written"] = "random"
    seed: Annotated[int, pydantic.Field(ge=0, lt=2**32)] = 0
    time_limit_s: Positive | None = None
    memory_limit_mib: Positive | None = None
    cpu_limit: Positive | str | None = None
    expected_s: Positive | None = None
    warm_up: Count = 0
    retries: Count = 0
    most_other_load: Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)] | None = None
    at_once: Annotated[int, pydantic.Field(ge=1, le=10_000)] = 1
    meters: list[str] | None = None
    power: Power | None = None
    needs: NeedsTable | None = None
    traces: bool = False

    @pydantic.field_validator("only", "exclude", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @property
    def names(self) -> list[str]:
        """The names of all parameters, in the order of the file."""
        of_configurations = (name for c in self.configurations for name in c)
        return list(dict.fromkeys([*self.parameters, *of_configurations]))

    def fingerprint(self) -> str:
        """Return a text that differs between sweeps whose runs must not mix."""
        # Without defaults, so that an option of a later version refuses no old journal.
        own = self.model_dump(
            mode="json",
            exclude={"expected_s", "needs", "traces"},
            exclude_defaults=True,
            by_alias=True,
        )
        return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()

    def make_workload(self, folder: Path) -> Workload:
        """Return the workload, ready to run; ``folder`` is where its own modules may lie."""
        workload = load_workload(self.workload, folder)
        workload.check(self.names)
        outside = self._outside_depends_on()  # jobs see needs in OMP_NUM_THREADS
        for name in workload.ignored(self.names):
            if self._varies(name) and name not in outside:
                raise UsageError(
                    f"parameters.{name}: varies, and no part of the workload uses it; write "
                    f"{{{name}}} where the program takes it, or repeats = n to run it n times"
                )
        return workload

    def needs_of(self, configuration: Mapping[str, Any], workload: Workload) -> Needs:
        """Return what the sweep says that a run needs, or what the workload says."""
        if self.needs is None or workload.is_spread:
            return workload.needs(configuration)
        return self.needs.of(configuration)

    def cpu_limit_of(self, configuration: Mapping[str, Any]) -> float | None:
        """Return how many cores a run may keep busy; None if as many as there are."""
        if not isinstance(self.cpu_limit, str):
            return self.cpu_limit
        cpus = read_amount(Expression(self.cpu_limit).value(configuration), "cpu_limit")
        if cpus <= 0:
            raise UsageError(f"cpu_limit: must be above 0, not {cpus:g}")
        return cpus

    def _outside_depends_on(self) -> set[str]:
        """Return the columns that the needs and the limit of a run depend on."""
        found: set[str] = set()
        given = [*(text for _, text in self.needs or ()), self.cpu_limit]
        texts = [text for text in given if isinstance(text, str)]
        while texts:
            new = set(Expression(texts.pop()).names) - found
            found |= new
            texts += [self.derive[name] for name in new if name in self.derive]
        return found

    def _varies(self, name: str) -> bool:
        given = self.parameters.get(name)
        if given is None:
            return len({repr(c[name]) for c in self.configurations}) > 1
        return (isinstance(given, Range) and given.is_continuous) or len(listed(given)) > 1


def read_sweep(source: Path | str | Mapping[str, Any]) -> Sweep:
    """Read a sweep from a TOML file or a dict of its shape; raise a UsageError on any fault."""
    if isinstance(source, Mapping):
        return _checked(dict(source), "sweep")
    return _checked(read_toml_file(Path(source), SWEEP_FILE), str(source))


def _checked(source: dict[str, Any], place: str) -> Sweep:
    try:
        sweep = Sweep.model_validate(source)
    except pydantic.ValidationError as error:
        raise UsageError(f"{place}, {_complaint(error, source)}") from None
    try:
        _check_names(sweep)
        _check_design(sweep)
    except UsageError as error:
        raise UsageError(f"{place}, {error}") from None
    return sweep


def _complaint(error: pydantic.ValidationError, source: dict[str, Any]) -> str:
    """Say what is wrong; of the values of a parameter, in one sentence for all allowed forms."""
    for details in error.errors(include_url=False):
        match details["loc"]:
            case ("parameters", name, *_):
                return f"parameters.{name}: {_wrong_values(source['parameters'][name])}"
    complaint = explain(error, source, Sweep)
    return f"{dotted(complaint.place)}: {complaint.text}"


def _wrong_values(value: Any) -> str:
    if isinstance(value, Mapping):
        try:
            validated(Range, value)
        except UsageError as error:
            return str(error)
    return (
        f"must be a value, a list of values or a range such as {{from = 1, to = 8, factor = 2}}, "
        f"not {shown(value)}"
    )


def _check_names(sweep: Sweep) -> None:
    if not sweep.names:
        raise UsageError("has no parameters; write them under [parameters]")
    for name in [*sweep.names, *sweep.derive]:
        if not name.isidentifier():
            raise UsageError(f"parameters: '{name}' must be a name of letters, digits and _")
        if name in reserved_names():
            raise UsageError(f"parameters: '{name}' is a name that foretell uses itself; rename it")
    for name in sweep.derive:
        if name in sweep.names:
            raise UsageError(f"derive: '{name}' is already a parameter; rename it")
    for place, expression in _expressions(sweep):
        _placed(place, Expression, expression)


def check_expressions(sweep: Sweep, derived: Collection[str]) -> None:
    """Raise a UsageError if expressions use unknown names, or derive a column of the workload."""
    for name in sweep.derive:
        if name in derived:
            raise UsageError(f"derive: '{name}' is already a column of the workload; rename it")
    given = [*sweep.names, *derived]
    for place, expression in _expressions(sweep):
        known = given if place.startswith("derive") else [*given, *sweep.derive]
        _placed(place, Expression(expression).check, known)


def _expressions(sweep: Sweep) -> list[tuple[str, str]]:
    """List all expressions of a sweep, with their places in the file."""
    found = [("only", text) for text in sweep.only] + [("exclude", text) for text in sweep.exclude]
    found += [(f"derive.{name}", text) for name, text in sweep.derive.items()]
    needs = [(f"needs.{name}", text) for name, text in sweep.needs or ()]
    given = [*needs, ("cpu_limit", sweep.cpu_limit)]
    return found + [(place, text) for place, text in given if isinstance(text, str)]


def _placed(place: str, check: Callable[[Any], object], value: Any) -> None:
    try:
        check(value)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def _check_design(sweep: Sweep) -> None:
    is_grid = sweep.design.method == "grid"
    if sweep.configurations and not is_grid:
        raise UsageError(
            "design: listed configurations cannot be drawn; remove [design] or [[configurations]]"
        )
    if is_grid and sweep.design.n is not None:
        raise UsageError("design.n: a grid has as many runs as combinations; remove n")
    if not is_grid and sweep.design.n is None:
        raise UsageError(f"design.n: a {sweep.design.method} sample needs a number of draws")
    for name, values in sweep.parameters.items():
        if isinstance(values, Range) and values.is_continuous:
            if is_grid:
                raise UsageError(
                    f"parameters.{name}: a range in a grid needs a step, a factor or n values"
                )
            continue
        found = listed(values)
        _check_finite(f"parameters.{name}", found)
        if not found:
            raise UsageError(f"parameters.{name}: must not be empty")
        if len(set(map(repr, found))) < len(found):
            raise UsageError(f"parameters.{name}: has a value twice; use repeats for that")
    _check_configurations(sweep)


def _check_configurations(sweep: Sweep) -> None:
    for i, configuration in enumerate(sweep.configurations):
        place = f"configurations[{i}]"
        for name, value in configuration.items():
            _check_finite(f"{place}.{name}", [value])
        twice = [name for name in configuration if name in sweep.parameters]
        if twice:
            raise UsageError(f"{place}: '{twice[0]}' is in [parameters], too; remove one")
        if configuration in sweep.configurations[:i]:
            raise UsageError(f"{place}: is listed twice; use repeats for that")
        missing = [n for n in sweep.names if n not in {**sweep.parameters, **configuration}]
        if missing:
            raise UsageError(
                f"configurations[{i}]: has no '{missing[0]}'. {suggest(missing[0], configuration)}"
            )


def _check_finite(place: str, values: Iterable[Scalar]) -> None:
    for value in values:
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{place}: must be a finite number, not {value}")
