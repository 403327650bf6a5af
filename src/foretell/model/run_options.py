"""How a fit is run: where, on how many processes, within which time, and who hears of progress."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from foretell.errors import Option, UsageError
from foretell.executors import Executor, open_executor

#: Every job is a process that is started at once; a slip of the finger must not halt the machine.
_MOST_JOBS = 1024


@dataclass(frozen=True)
class Progress:
    """How far a search is, for a bar or a line."""

    n_done: int
    n_total: int
    best_error: float
    score_name: str
    left_s: float | None


@dataclass(frozen=True)
class Clock:
    """When the work started, and when the user wants it to end."""

    started: float
    limit_s: float | None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def is_past(self, share: float) -> bool:
        """Whether this share of the time limit is over; never without a limit."""
        return self.limit_s is not None and self.elapsed_s > share * self.limit_s


@dataclass(frozen=True)
class RunOptions:
    """How to run a campaign; none of it changes the result, but for a time limit that cuts.

    ``n_jobs`` is by default one, or every CPU of a cluster; ``on`` is ``ray`` or the address of a
    cluster, and otherwise this machine; ``started`` is when the time of the limit began, by the
    monotonic clock.
    """

    output: Path | None = None
    n_jobs: int | None = None
    time_limit_s: float | None = None
    progress: Callable[[Progress], None] | None = None
    on: str | None = None
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if self.n_jobs is not None and self.n_jobs < 1:
            raise UsageError(f"must be at least 1, not {self.n_jobs}", option=Option("n_jobs"))
        if self.n_jobs is not None and self.n_jobs > _MOST_JOBS:
            raise UsageError(
                f"must be at most {_MOST_JOBS}, not {self.n_jobs}", option=Option("n_jobs")
            )
        if self.time_limit_s is not None and not self.time_limit_s > 0:
            raise UsageError(
                f"must be a positive number of seconds, not {self.time_limit_s:g}",
                option=Option("time_limit_s"),
            )

    def executor(self, state: object, log: logging.Logger) -> Executor:
        """Open what runs tasks on a shared state."""
        return open_executor(state, self.n_jobs, self.on, log)
