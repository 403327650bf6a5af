"""How a fit is run: where, on how many processes, within which time, and who sees progress."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from foretell.errors import Option, UsageError
from foretell.executors import Executor, open_executor, single_threaded
from foretell.files.directory import JOURNAL, LOG, claimed, logged
from foretell.files.journal import Journal

#: Each job is a process that starts at once; a typing error must not bring the machine down.
_MOST_JOBS = 1024


@dataclass(frozen=True)
class Progress:
    """How far a search is, for a progress bar or a line of text."""

    n_done: int
    n_total: int
    best_error: float
    score_name: str
    left_s: float | None


@dataclass(frozen=True)
class Clock:
    """When the work started, and the time limit in seconds, if there is one."""

    started: float
    limit_s: float | None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def is_past(self, share: float) -> bool:
        """Whether more than this share of the time limit has passed; never without a limit."""
        return self.limit_s is not None and self.elapsed_s > share * self.limit_s


@dataclass(frozen=True)
class RunOptions:
    """How to run a fit. Nothing here changes the result, except a time limit that cuts the search.

    Attributes
    ----------
    n_jobs
        Worker processes; by default one, or every CPU of a cluster.
    on
        ``ray`` or the address of a Ray cluster; by default this machine.
    started
        When the time limit began to run, on the monotonic clock.
    """

    output: Path | None = None
    n_jobs: int | None = None
    time_limit_s: float | None = None
    progress: Callable[[Progress], None] | None = None
    on: str | None = None
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if self.n_jobs is not None and not 1 <= self.n_jobs <= _MOST_JOBS:
            raise UsageError(
                f"must be from 1 to {_MOST_JOBS}, not {self.n_jobs}", option=Option("n_jobs")
            )
        if self.time_limit_s is not None and not self.time_limit_s > 0:
            raise UsageError(
                f"must be a positive number of seconds, not {self.time_limit_s:g}",
                option=Option("time_limit_s"),
            )

    def executor(self, state: object, log: logging.Logger) -> Executor:
        """Open an executor whose tasks share a state."""
        return open_executor(state, self.n_jobs, self.on, log)

    @contextmanager
    def opened(self, prints: Mapping[str, str]) -> Iterator[tuple[Path, Journal, logging.Logger]]:
        """Claim the output directory, or a temporary one; also open its journal and its log.

        ``prints`` is what the journal depends on. Libraries use one thread meanwhile.
        """
        with ExitStack() as stack:
            enter = stack.enter_context
            output = self.output or Path(enter(tempfile.TemporaryDirectory(prefix="foretell-")))
            enter(claimed(output))
            journal = enter(Journal(output / JOURNAL, prints))
            log = enter(logged(output / LOG))
            enter(single_threaded())
            yield output, journal, log
