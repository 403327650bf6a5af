"""How a queue is: what waits and runs by class, how long jobs took, and the sprint budget."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from foretell.adapters.dispatcher.spool import count_files
from foretell.adapters.dispatcher.sprints.open import open_bucket
from foretell.adapters.dispatcher.store.ledger import RUNS, has_state, read_state
from foretell.adapters.dispatcher.store.records import QueueState
from foretell.adapters.dispatcher.store.runs import recent_responses
from foretell.decide.queueing.queue_file import Queue
from foretell.errors import Option, UsageError
from foretell.files.directory import LOCK, is_claimed
from foretell.wording import counted, number, short

_HEADER = ("class", "waiting", "in engine", "done", "failed", "canceled", "mean", "p95")


class Budget(Protocol):
    """A bucket of joules."""

    most_j: float

    @property
    def level_j(self) -> float:
        """The joules in it now."""


class Sprints(Protocol):
    """What sprints, and from which budget."""

    @property
    def is_sprinting(self) -> bool:
        """Whether a sprint is under way."""

    @property
    def bucket(self) -> Budget:
        """The budget."""


@dataclass(frozen=True)
class ClassStatus:
    """The jobs of one class; response times are those of the latest thousand that are done."""

    name: str
    waiting: int
    in_engine: int
    done: int
    failed: int
    canceled: int
    mean_s: float | None
    p95_s: float | None


@dataclass(frozen=True)
class Status:
    """A queue at one moment.

    Attributes
    ----------
    classes
        The highest priority first.
    running
        The job in the engine: its id, class, name, attempt, and when it started.
    budget_j, is_sprinting
        Joules for sprints, None where there is no limit or no sprint; and whether the job in the
        engine sprints, None where only the dispatcher knows.
    lost
        Why the engine cannot run anything now; empty if it can, None where only the dispatcher
        knows.
    in_spool
        How many files of the spool folder are not yet taken.
    is_dispatched
        Whether a dispatcher runs.
    """

    classes: Sequence[ClassStatus]
    running: Mapping[str, Any] | None
    budget_j: float | None = None
    is_sprinting: bool | None = False
    lost: str | None = ""
    in_spool: int = 0
    is_dispatched: bool = True

    @classmethod
    def of(
        cls,
        state: QueueState,
        class_names: Sequence[str],
        responses: Mapping[str, Collection[float]],
        sprints: Sprints | None = None,
        lost: str = "",
    ) -> Status:
        """Sum up the state of a queue."""
        waiting = state.waiting.lengths
        paused = [job.level for job in state.paused]
        found = []
        for level, name in enumerate(class_names):
            n_paused = paused.count(level)
            is_running = state.running is not None and state.running.level == level
            mean_s, p95_s = _summary(responses[name])
            found.append(
                ClassStatus(
                    name,
                    waiting[level] - n_paused,
                    n_paused + is_running,
                    state.n_ended[name, "done"],
                    state.n_ended[name, "failed"],
                    state.n_ended[name, "canceled"],
                    mean_s,
                    p95_s,
                )
            )
        job = state.running
        running = None if job is None else {
            "id": job.id, "class": job.class_name, "name": job.name, "attempt": job.attempt,
            "started_at": job.started_at,
        }  # fmt: skip
        level_j = math.inf if sprints is None else sprints.bucket.level_j
        return cls(
            found[::-1],
            running,
            None if math.isinf(level_j) else round(level_j, 3),
            sprints is not None and sprints.is_sprinting,
            lost,
        )

    @property
    def n_waiting(self) -> int:
        """How many jobs wait."""
        return sum(c.waiting for c in self.classes)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)

    def rows(self) -> list[tuple[str, ...]]:
        """Return a table of texts with a header."""
        return [_HEADER, *map(_row, self.classes)]

    def remarks(self) -> list[str]:
        """Say what runs, what the budget has, and what is wrong."""
        found = []
        if self.running is not None:
            job = self.running
            title = f"{short(job['name'] or job['id'])} ({job['class']}), attempt {job['attempt']}"
            if self.is_dispatched:
                found.append(f"In the engine: {title}.")
            else:
                found.append(f"In the engine when the last dispatcher ended: {title}; the next one "
                             "goes on with it.")  # fmt: skip
        if self.in_spool or not self.is_dispatched:
            counts = [f"{self.in_spool:,} in the spool folder"] if self.in_spool else []
            counts += [] if self.is_dispatched else ["no dispatcher runs"]
            text = "; ".join(counts)
            found.append(f"{text[0].upper()}{text[1:]}.")
        if self.budget_j is not None:
            state = ", sprinting now" if self.is_sprinting else ""
            found.append(f"Sprint budget: {number(max(0, round(self.budget_j)))} J{state}.")
        if self.lost:
            found.append(f"The engine is lost, and {counted(self.n_waiting, 'job')} kept: "
                         f"{self.lost}")  # fmt: skip
        return found

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        return "\n".join([*lines, *self.remarks()])


def read_status(queue: Queue, state: Path, spool: Path) -> Status:
    """Read how a queue is from its folders, without disturbing a dispatcher that works on it."""
    names = [c.name for c in queue.classes]
    is_begun = has_state(state)
    found = read_state(state, names) if is_begun else QueueState(names)
    in_spool = count_files(spool, found.jobs)
    if not is_begun and (_has_content(state) or not in_spool):
        raise UsageError(
            f"{state} is not the state of a queue: no dispatcher ran there yet, and no job waits "
            f"in {spool}; check the paths, or submit a job",
            option=Option("state"),
        )
    status = Status.of(found, names, recent_responses(state / RUNS, names))
    is_dispatched = is_claimed(state)
    return replace(
        status,
        in_spool=in_spool,
        is_dispatched=is_dispatched,
        lost=None if is_dispatched else "",
        **_sprint_of(queue, found, is_dispatched=is_dispatched),
    )


def _sprint_of(queue: Queue, state: QueueState, *, is_dispatched: bool) -> dict[str, Any]:
    """Return what the journal tells of the budget; without a limit it tells nothing of sprints."""
    if state.budget is None:
        has_sprints = is_dispatched and queue.sprint.speedup > 1
        return {"is_sprinting": None if has_sprints else False}
    level_j = open_bucket(queue.sprint, state.budget).level_j
    return {
        "budget_j": None if math.isinf(level_j) else round(level_j, 3),
        "is_sprinting": is_dispatched and bool(state.budget["is_sprinting"]),
    }


def _has_content(folder: Path) -> bool:
    try:
        return any(path.name != LOCK for path in folder.iterdir())
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _row(c: ClassStatus) -> tuple[str, ...]:
    counts = (c.waiting, c.in_engine, c.done, c.failed, c.canceled)
    times = ("–" if s is None else f"{number(s, 3)} s" for s in (c.mean_s, c.p95_s))
    return (short(c.name), *(f"{n:,}" for n in counts), *times)


def _summary(responses: Collection[float]) -> tuple[float | None, float | None]:
    """Return mean and 95 % quantile, the smallest value that is at least as large as 95 %."""
    if not responses:
        return None, None
    ordered = sorted(responses)
    p95 = ordered[math.ceil(0.95 * len(ordered)) - 1]
    return round(math.fsum(ordered) / len(ordered), 6), round(p95, 6)
