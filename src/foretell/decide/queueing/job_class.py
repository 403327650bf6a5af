"""Classes of jobs, as class files describe them: how many arrive, how long one takes, limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import pydantic

from foretell.approximate import MOST_DROPPED
from foretell.errors import UsageError
from foretell.files.complaints import refusal, shown
from foretell.spaces.expressions import Expression
from foretell.spaces.values import Scalar

STRICT = pydantic.ConfigDict(extra="forbid", frozen=True)
_MOST_TASKS = 100_000


def bounded(
    low: float, high: float = math.inf, *, remedy: str, is_open: bool = False
) -> pydantic.AfterValidator:
    """Make a check of a number that says the rule, the value, and what to write instead."""
    least = f"more than {low:g}" if is_open else f"at least {low:g}"
    rule = least if math.isinf(high) else f"from {low:g} to {high:g}"

    def check(value: float) -> float:
        is_inside = (value > low if is_open else value >= low) and value <= high
        if not is_inside or math.isinf(value):
            raise refusal("bounds", f"must be {rule}, not {value:g}", at=(), remedy=remedy)
        return value

    return pydantic.AfterValidator(check)


Seconds = Annotated[float, bounded(0, remedy="write seconds, such as 8.0")]
Positive = Annotated[float, bounded(0, is_open=True, remedy="write seconds, such as 35.0")]
Rate = Annotated[
    float,
    bounded(0, is_open=True, remedy="write how many jobs arrive, such as rate_per_min = 0.33"),
]
Scv = Annotated[
    float, bounded(0, remedy="write the squared coefficient of variation: 0 for a constant")
]
Drop = Annotated[
    float, bounded(0, MOST_DROPPED, remedy="write the share of tasks to drop, such as 0.2 for 20 %")
]
Weight = Annotated[float, bounded(0, remedy="write how much its p95 counts, such as 1.0")]
ErrorLimit = Annotated[float, bounded(0, remedy="write a relative error, such as 0.15 for 15 %")]
TimeOut = Annotated[
    float,
    bounded(0, remedy="write after how many seconds a job sprints, or leave it out for never"),
]
Watts = Annotated[float, bounded(0, remedy="write watts, such as 180")]
Joules = Annotated[float, bounded(0, remedy="write joules, such as 22000")]


def _read_tasks(value: Any) -> Any:
    """Read a number of tasks, or a table of numbers and how probable each is."""
    counts = value if isinstance(value, Mapping) else {value: 1.0}
    read: dict[int, float] = {}
    for key, share in counts.items():
        n = int(key) if str(key).isdecimal() else 0
        if isinstance(key, bool) or not 1 <= n <= _MOST_TASKS:
            raise refusal(
                "tasks", f"must be a whole number from 1 to {_MOST_TASKS:,}, not {shown(key)}",
                at=(), remedy="write 50, or { 50 = 0.8, 30 = 0.2 }",
            )  # fmt: skip
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise refusal(
                "tasks", f"the probability of {n} tasks must be from 0 to 1, not {shown(share)}",
                at=(), remedy="write { 50 = 0.8, 30 = 0.2 }",
            )  # fmt: skip
        read[n] = float(share)
    if abs(sum(read.values()) - 1) > 1e-6:
        raise refusal(
            "tasks", f"the probabilities must sum to 1, not {sum(read.values()):.6g}", at=(),
            remedy="correct them, such as { 50 = 0.8, 30 = 0.2 }",
        )  # fmt: skip
    return read


Tasks = Annotated[dict[int, float], pydantic.BeforeValidator(_read_tasks)]


def _read_error(value: Any) -> Any:
    """Read a table of drop ratios and errors; TOML reads a key 0.1 as a table inside a table."""
    if not isinstance(value, Mapping):
        return value
    flat: dict[Any, Any] = {}
    for key, inner in value.items():
        parts = inner.items() if isinstance(inner, Mapping) else [("", inner)]
        flat.update({f"{key}.{part}" if part else key: error for part, error in parts})
    return flat


def _check_error(table: dict[float, float]) -> dict[float, float]:
    remedy = "write measured errors, such as { 0.1 = 0.085, 0.2 = 0.15 }"
    last = (0.0, 0.0)
    for ratio, error in sorted(table.items()):
        if not 0 < ratio <= MOST_DROPPED:
            raise refusal(
                "error", f"drop ratios must be more than 0 and at most {MOST_DROPPED}, "
                f"not {ratio:g}", at=(), remedy=remedy,
            )  # fmt: skip
        if not 0 <= error < math.inf:
            raise refusal(
                "error", f"the error at {ratio:g} must be at least 0, not {error:g}", at=(),
                remedy=remedy,
            )  # fmt: skip
        if error < last[1]:
            raise refusal(
                "error", "must not become smaller as more is dropped: it is "
                f"{last[1]:g} at {last[0]:g} and {error:g} at {ratio:g}", at=(),
                remedy="measure again, or keep the larger of the two",
            )  # fmt: skip
        last = (ratio, error)
    return dict(sorted(table.items()))


Errors = Annotated[
    dict[float, float],
    pydantic.BeforeValidator(_read_error),
    pydantic.AfterValidator(_check_error),
]


class Overhead(pydantic.BaseModel):
    """What a job takes before its tasks: a fixed part, and one that grows with the share kept."""

    model_config = STRICT

    fixed: Seconds = 0.0
    per_kept: Seconds = 0.0

    def at(self, kept: float) -> float:
        """Return the seconds when this share of the tasks is kept."""
        return float(self.fixed + self.per_kept * kept)


class StageTable(pydantic.BaseModel):
    """One stage of a job: tasks that run side by side, after all of the stage before.

    Attributes
    ----------
    scv
        The squared coefficient of variation of the time of a task.
    before_s
        How long the job takes between the stage before and this one.
    drop
        The share of its tasks that is dropped, instead of that of the class; 0 for a stage that
        must keep all.
    """

    model_config = STRICT

    tasks: Tasks
    task_s: Positive
    scv: Scv | None = None
    before_s: Seconds = 0.0
    drop: Drop | None = None


class ServiceTable(pydantic.BaseModel):
    """The time of a job by its mean and its squared coefficient of variation."""

    model_config = STRICT

    mean_s: Positive
    scv: Scv


#: What says how long a job takes, and the keys that go with each.
_KINDS = {
    "tasks": ("map_s", "map_scv", "shuffle_s", "reduce_tasks", "reduce_s", "reduce_scv"),
    "stages": (),
    "service": (),
    "model": ("configuration",),
    "runs": ("column", "only"),
}


class JobClass(pydantic.BaseModel):
    """Jobs of one priority.

    Attributes
    ----------
    rate_per_s
        How many arrive per second, whatever unit the file has.
    tasks, map_s, map_scv, overhead_s, shuffle_s, reduce_tasks, reduce_s, reduce_scv
        A job of tasks: how many, and how long each takes.
    stages
        How many equal map stages a job has; or each of them as a table.
    service
        The mean and the variation of the time of a job.
    model, configuration
        A foretell model, and what it is asked: its quantiles become the distribution of the time.
    runs, column, only
        A table of runs, the column of their times, and which of them to use.
    drop
        The share of tasks that is dropped.
    sprint_after_s
        After how long a job sprints; None for never.
    evict_s
        What the engine takes to make way when a job of the class is interrupted.
    max_error, mean_s, p95_s, weight, error
        Limits of a choice, how much the class counts in it, and errors measured at drop ratios.
    """

    model_config = STRICT

    name: Annotated[str, pydantic.Field(min_length=1, max_length=100)]
    per_s: Rate | None = pydantic.Field(None, alias="rate_per_s")
    per_min: Rate | None = pydantic.Field(None, alias="rate_per_min")
    per_h: Rate | None = pydantic.Field(None, alias="rate_per_h")
    tasks: Tasks | None = None
    map_s: Positive | None = None
    map_scv: Scv | None = None
    overhead_s: Seconds | Overhead = 0.0
    shuffle_s: Seconds = 0.0
    reduce_tasks: Tasks | None = None
    reduce_s: Positive | None = None
    reduce_scv: Scv | None = None
    stages: Annotated[int, pydantic.Field(ge=1, le=1000)] | list[StageTable] = 1
    service: ServiceTable | None = None
    model: str | None = None
    configuration: dict[str, Scalar] = {}
    runs: str | None = None
    column: str | None = None
    only: str | None = None
    drop: Drop = 0.0
    sprint_after_s: TimeOut | None = None
    evict_s: Seconds = 0.0
    max_error: ErrorLimit | None = None
    mean_s: Positive | None = None
    p95_s: Positive | None = None
    weight: Weight = 1.0
    error: Errors = {}
    _rate_per_s: float = pydantic.PrivateAttr(default=math.nan)

    @pydantic.field_validator("only")
    @classmethod
    def _is_expression(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                Expression(value)
            except UsageError as error:
                raise ValueError(str(error)) from None
        return value

    @pydantic.model_validator(mode="after")
    def _is_sound(self) -> JobClass:
        if len(self.given_rates) > 1:
            raise ValueError(f"{self.name} has {' and '.join(self.given_rates)}; keep one of them")
        kind = self.kind
        self._check_keys(kind)
        if kind == "tasks":
            self._check_tasks()
        if self.drop and not self.has_tasks:
            raise ValueError(
                f"{self.name} drops {self.drop:g} of its tasks, and none are described; "
                "write tasks and map_s instead of " + kind
            )
        return self

    @property
    def kind(self) -> str:
        """What says how long a job takes: tasks, stages, service, model or runs."""
        listed = isinstance(self.stages, list)
        found = [k for k in _KINDS if k != "stages" and getattr(self, k) is not None]
        found += ["stages"] if listed else []
        if len(found) == 1:
            return found[0]
        have = f"has {' and '.join(found)}" if found else "does not say how long a job takes"
        raise ValueError(
            f"{self.name} {have}; write one of tasks (with map_s), stages, service, model or runs"
        )

    def _check_keys(self, kind: str) -> None:
        for other, keys in _KINDS.items():
            extra = [key for key in keys if key in self.model_fields_set and other != kind]
            if extra:
                raise ValueError(
                    f"{extra[0]} goes with {other}, and {self.name} has {kind}; remove one of them"
                )
        if kind not in ("tasks", "stages") and "overhead_s" in self.model_fields_set:
            raise ValueError(
                f"overhead_s goes with tasks, and {self.name} has {kind}; remove one of them"
            )
        if kind != "tasks" and isinstance(self.stages, int) and self.stages != 1:
            raise ValueError(
                f"stages goes with tasks, and {self.name} has {kind}; remove one of them"
            )

    def _check_tasks(self) -> None:
        if self.map_s is None:
            raise ValueError(
                f"{self.name} has tasks, and map_s is missing; write how long one takes, such as "
                "map_s = 35.0"
            )
        if (self.reduce_tasks is None) != (self.reduce_s is None):
            have, lack = ("reduce_tasks", "reduce_s")[:: 1 if self.reduce_s is None else -1]
            raise ValueError(f"{self.name} has {have}, and {lack} is missing; write both or none")

    @property
    def has_tasks(self) -> bool:
        """Whether the job is described by its tasks, so that some can be dropped."""
        return self.kind in ("tasks", "stages")

    @property
    def assumes_scv(self) -> bool:
        """Whether the variation of some of its tasks is not given."""
        if isinstance(self.stages, list):
            return any(stage.scv is None for stage in self.stages)
        reduces = self.reduce_tasks is not None and self.reduce_scv is None
        return self.kind == "tasks" and (self.map_scv is None or reduces)

    @property
    def given_rates(self) -> dict[str, float]:
        """The rates in the file, by their keys."""
        rates = {
            "rate_per_s": self.per_s,
            "rate_per_min": self.per_min,
            "rate_per_h": self.per_h,
        }
        return {key: rate for key, rate in rates.items() if rate is not None}

    @property
    def rate_per_s(self) -> float:
        """How many jobs arrive per second."""
        per = {"rate_per_s": 1.0, "rate_per_min": 60.0, "rate_per_h": 3600.0}
        return next((r / per[key] for key, r in self.given_rates.items()), self._rate_per_s)

    @property
    def overhead(self) -> Overhead:
        """What a job takes before its tasks."""
        given = self.overhead_s
        return given if isinstance(given, Overhead) else Overhead(fixed=given)
