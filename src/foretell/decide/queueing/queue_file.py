"""Class files: classes of jobs by priority, slots, the discipline, arrivals, sprints, running."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
from numpy.typing import NDArray

from foretell.decide.queueing.disciplines import DISCIPLINES
from foretell.decide.queueing.job_class import (
    STRICT,
    JobClass,
    Joules,
    Watts,
    bounded,
)  # fmt: skip
from foretell.errors import UsageError, suggest
from foretell.files.complaints import refusal
from foretell.files.text_file import FileKind
from foretell.files.typed import read_typed

CLASS_FILE = FileKind("class", "one [[class]]", (".toml",))
NO_SPRINT = "none"

MOST_SLOTS = 10_000
Slots = Annotated[
    int, bounded(1, MOST_SLOTS, remedy="write how many tasks run at the same time, such as 20")
]
Speedup = Annotated[
    float, bounded(1, remedy="write how many times faster a sprint is, such as 2.5")
]


class SprintTable(pydantic.BaseModel):
    """How jobs run faster for a while, and what that costs.

    Attributes
    ----------
    mechanism, settings
        What makes the engine faster, and further options of that.
    speedup
        How many times faster a job runs.
    base_w, sprint_w, idle_w
        The power of the engine while a job runs, while it sprints, and without a job (by default
        that of a job).
    budget_j, refill_w
        The joules above base that a full budget has, and how fast it fills again; without them,
        there is no limit.
    """

    model_config = STRICT

    mechanism: str = NO_SPRINT
    speedup: Speedup = 1.0
    base_w: Watts | None = None
    sprint_w: Watts | None = None
    idle_w: Watts | None = None
    budget_j: Joules | None = None
    refill_w: Watts | None = None
    settings: dict[str, Any] = {}

    @pydantic.model_validator(mode="after")
    def _is_sound(self) -> SprintTable:
        if self.base_w is not None and self.sprint_w is not None and self.sprint_w < self.base_w:
            raise ValueError(
                f"sprint_w is {self.sprint_w:g} and base_w is {self.base_w:g}, and a sprint never "
                "needs less power; exchange them"
            )
        if (self.budget_j is None) != (self.refill_w is None):
            have, lack = ("budget_j", "refill_w")[:: 1 if self.refill_w is None else -1]
            raise ValueError(f"{have} is given, and {lack} is missing; write both or none")
        if self.budget_j is not None and (self.base_w is None or self.sprint_w is None):
            raise ValueError(
                "budget_j counts joules above base, and base_w or sprint_w is missing; write both"
            )
        return self


class ArrivalsTable(pydantic.BaseModel):
    """How jobs arrive: at random with the rates of the classes, or by a Markov process.

    Attributes
    ----------
    kind
        ``poisson``, or ``mmap``: a process with states, whose matrices D0, D1, … DK (per second)
        are given by rows; Dk is that of the class k, counted from the lowest priority.
    """

    model_config = pydantic.ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, list[list[float]]] = pydantic.Field(init=False)

    kind: Literal["poisson", "mmap"] = "poisson"

    @pydantic.model_validator(mode="after")
    def _is_sound(self) -> ArrivalsTable:
        given = self.__pydantic_extra__
        for key in given:
            if not re.fullmatch(r"D\d+", key):
                raise refusal(
                    "unknown", f"unknown option '{key}'. {suggest(key, ['kind', 'D0', 'D1'])}",
                    at=(key,),
                )  # fmt: skip
        if self.kind == "poisson":
            if given:
                raise ValueError(f'{next(iter(given))} goes with kind = "mmap"; write that')
            return self
        if "D0" not in given or "D1" not in given:
            raise ValueError("kind is mmap, and needs D0 and one matrix per class: D1, D2, …")
        self._check_matrices()
        return self

    def _check_matrices(self) -> None:
        matrices = self.matrices()
        n = len(matrices[0])
        for i, matrix in enumerate(matrices):
            if matrix.ndim != 2 or matrix.shape != (n, n) or not np.isfinite(matrix).all():
                raise refusal(
                    "matrix", f"must have {n} rows of {n} finite numbers, as D0 has rows",
                    at=(f"D{i}",), remedy="write [[-1.0, 0.5], [0.2, -0.7]]",
                )  # fmt: skip
            off = matrix[~np.eye(n, dtype=bool)] if i == 0 else matrix
            if (off < 0).any():
                raise refusal(
                    "matrix", f"must have no rate below 0, and has {off.min():g}",
                    at=(f"D{i}",), remedy="only the diagonal of D0 is negative",
                )  # fmt: skip
        sums = np.sum(matrices, axis=0).sum(axis=1)
        worst = int(np.abs(sums).argmax())
        if abs(sums[worst]) > 1e-6 * max(1.0, float(np.abs(matrices[0]).max())):
            raise ValueError(
                f"the rows of all matrices together must sum to 0, and row {worst + 1} sums to "
                f"{sums[worst]:g}; correct the diagonal of D0"
            )
        _check_states(np.sum(matrices, axis=0), np.sum(matrices[1:], axis=(0, 2)))

    def matrices(self) -> list[NDArray[np.float64]]:
        """Return D0, D1, … DK; none for Poisson arrivals."""
        given = self.__pydantic_extra__
        found = []
        for i in range(len(given)):
            if f"D{i}" not in given:
                raise ValueError(f"D{i} is missing; number the matrices without a gap")
            rows = given[f"D{i}"]
            is_even = len({len(row) for row in rows}) == 1
            found.append(np.array(rows if is_even else [[np.nan]], dtype=float))
        return found

    def rates_per_s(self) -> list[float]:
        """Return the mean rate of each class, the lowest first; none for Poisson arrivals."""
        if self.kind == "poisson":
            return []
        matrices = self.matrices()
        stationary = long_run(matrices)
        return [float(stationary @ matrix.sum(axis=1)) for matrix in matrices[1:]]

    def with_rates(self, rates_per_s: Sequence[float]) -> list[NDArray[np.float64]]:
        """Return the matrices of the process that is so much faster or slower as a whole."""
        factor = sum(rates_per_s) / sum(self.rates_per_s() or rates_per_s)
        return [factor * matrix for matrix in self.matrices()]


def long_run(matrices: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return how likely each state of a Markov process is in the long run.

    >>> long_run([np.array([[-3.0, 1.0], [2.0, -2.0]]), np.array([[2.0, 0.0], [0.0, 0.0]])])
    array([0.66666667, 0.33333333])
    """
    generator = np.sum(matrices, axis=0)
    n = len(generator)
    equations = np.vstack([generator.T, np.ones(n)])
    found: NDArray[np.float64] = np.linalg.lstsq(
        equations, np.append(np.zeros(n), 1.0), rcond=None
    )[0]
    return found


def _check_states(generator: NDArray[np.float64], with_job: NDArray[np.float64]) -> None:
    """Refuse states that are never left, and those that are never reached again."""
    from scipy.sparse.csgraph import connected_components

    moves = np.where(np.eye(len(generator), dtype=bool), 0.0, generator) > 0
    stuck = np.flatnonzero(~moves.any(axis=1) & (with_job <= 0))
    if len(stuck):
        raise refusal(
            "states", f"has a state that is never left: row {stuck[0] + 1} of all matrices is 0",
            at=("D0",), remedy="write a rate out of that state, or remove the state",
        )  # fmt: skip
    n_groups, group_of = connected_components(moves, directed=True, connection="strong")
    if n_groups > 1:
        other = int(np.flatnonzero(group_of != group_of[0])[0]) + 1
        raise refusal(
            "states", "must lead from each state to each other one, and states 1 and "
            f"{other} are not connected in both directions",
            at=("D0",), remedy="write rates between them, or remove the states of one group",
        )  # fmt: skip


class RunTable(pydantic.BaseModel):
    """How `queue run` runs jobs; nothing else reads it.

    Attributes
    ----------
    engine, settings
        What runs jobs, and further options of that.
    spool, state
        The folder that jobs come from, and the one with the journal.
    retries
        How often a failed job is tried again before it is set aside.
    replan
        Whether drops and sprints are chosen again when jobs come or run otherwise than expected.
    """

    model_config = STRICT

    engine: str = "command"
    spool: str = "jobs"
    state: str = "state"
    retries: Annotated[int, pydantic.Field(ge=0, le=100)] = 2
    replan: bool = False
    settings: dict[str, Any] = {}


def _known_discipline(name: str) -> str:
    if name not in DISCIPLINES.names():
        known = DISCIPLINES.names()
        raise ValueError(f"unknown discipline '{name}'. {suggest(name, known)}")
    return name


class Queue(pydantic.BaseModel):
    """Classes of jobs for one engine, the lowest priority first.

    Attributes
    ----------
    slots
        How many tasks the engine runs at the same time.
    discipline
        What the engine does when a job of a higher class arrives.
    """

    model_config = STRICT

    slots: Slots = 1
    discipline: Annotated[str, pydantic.AfterValidator(_known_discipline)] = "non-preemptive"
    classes: Annotated[list[JobClass], pydantic.Field(min_length=1, max_length=100, alias="class")]
    arrivals: ArrivalsTable = ArrivalsTable()
    sprint: SprintTable = SprintTable()
    run: RunTable = RunTable()
    _folder: Path = pydantic.PrivateAttr(default=Path())

    @pydantic.model_validator(mode="after")
    def _is_sound(self) -> Queue:
        name, n = Counter(c.name for c in self.classes).most_common(1)[0]
        if n > 1:
            raise ValueError(f"{n} classes are called '{name}'; rename them")
        self._check_rates()
        for c in self.classes:
            if c.sprint_after_s is not None and self.sprint.speedup == 1:
                raise ValueError(
                    f"{c.name} sprints after {c.sprint_after_s:g} s, and no sprint is described; "
                    "write speedup = 2.5 under [sprint], or remove sprint_after_s"
                )
        if self.run.replan and self.discipline != "non-preemptive":
            raise ValueError(
                f"replan is true under [run], and plans are for jobs that are finished first, not "
                f"for '{self.discipline}'; write discipline = \"non-preemptive\", or no replan"
            )
        if "slots" not in self.model_fields_set and any(c.has_tasks for c in self.classes):
            raise ValueError(
                "slots is missing; write how many tasks run at the same time, such as slots = 20"
            )
        return self

    def _check_rates(self) -> None:
        rates = self.arrivals.rates_per_s()
        if rates and len(rates) != len(self.classes):
            raise ValueError(
                f"there are {len(self.classes)} classes and {len(rates)} matrices after D0 in "
                "[arrivals]; write one for each class"
            )
        for i, c in enumerate(self.classes):
            if rates and c.given_rates:
                raise ValueError(
                    f"{c.name} has {next(iter(c.given_rates))}, and [arrivals] has its rate; "
                    "remove one of them"
                )
            if not rates and not c.given_rates:
                raise ValueError(
                    f"{c.name} has no rate; write rate_per_s, rate_per_min or rate_per_h"
                )
            if rates:
                if rates[i] <= 0:
                    raise ValueError(f"no job of {c.name} arrives: all of D{i + 1} is 0")
                c._rate_per_s = rates[i]

    @property
    def folder(self) -> Path:
        """Where the files lie that are named by a relative path."""
        return self._folder

    def named(self, name: str) -> JobClass:
        """Return the class of that name, or raise a UsageError with the nearest one."""
        for c in self.classes:
            if c.name == name:
                return c
        known = [c.name for c in self.classes]
        raise UsageError(f"there is no class '{name}'. {suggest(name, known)}")


def read_queue(source: Path | str | Mapping[str, Any] | Queue) -> Queue:
    """Read a class file (TOML) or a dict of its shape; a UsageError says what is wrong.

    >>> queue = read_queue({"class": [
    ...     {"name": "low", "rate_per_min": 0.3, "service": {"mean_s": 148, "scv": 0.03}}]})
    >>> queue.classes[0].rate_per_s
    0.005
    """
    queue = read_typed(source, Queue, CLASS_FILE)
    if isinstance(source, str | Path):
        queue._folder = Path(source).parent
    return queue
