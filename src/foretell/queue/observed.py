"""Jobs as the logs of an engine tell of them: when each ran, its stages and their tasks."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ObservedStage:
    """One stage of a job: its tasks, by the sums that give mean and variance of their times.

    Attributes
    ----------
    sum_s, sum_squares
        Of the times of tasks that succeeded.
    first_s, last_s
        When the first of them started and the last one ended.
    """

    n_tasks: int = 0
    sum_s: float = 0.0
    sum_squares: float = 0.0
    first_s: float = float("inf")
    last_s: float = float("-inf")
    read_bytes: int = 0

    def add(self, start_s: float, end_s: float, read_bytes: int = 0) -> None:
        """Count a task."""
        self.n_tasks += 1
        self.sum_s += end_s - start_s
        self.sum_squares += (end_s - start_s) ** 2
        self.first_s = min(self.first_s, start_s)
        self.last_s = max(self.last_s, end_s)
        self.read_bytes += read_bytes


@dataclass
class ObservedJob:
    """One job of a queue.

    Attributes
    ----------
    arrived_s
        When it was submitted, which may be long before it started.
    drop
        The share of its tasks that was dropped.
    is_done
        Whether it ended well.
    is_first
        Whether it was the first of its engine, which loads what the others find ready.
    """

    class_name: str
    arrived_s: float
    started_s: float
    ended_s: float | None = None
    drop: float = 0.0
    is_done: bool = True
    is_first: bool = False
    stages: list[ObservedStage] = field(default_factory=list)

    @property
    def time_s(self) -> float:
        """How long it was in the engine."""
        assert self.ended_s is not None
        return self.ended_s - self.started_s


@dataclass(frozen=True)
class Observed:
    """What logs tell.

    Attributes
    ----------
    slots
        How many tasks the engine could run at the same time.
    notes
        What could not be read, or was left out, and why.
    """

    slots: int
    jobs: list[ObservedJob]
    notes: list[str]
