"""Attempts that are under way: a thread waits for the end of each, and tells it at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from foretell.adapters.dispatcher.engines import Outcome, Running
from foretell.adapters.dispatcher.jobs import Job
from foretell.closeable import Closeable


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt of a job.

    Attributes
    ----------
    number
        Which attempt of the job it is.
    outcome, ended_at
        How it ended, and when by the performance counter.
    is_cut
        Whether the dispatcher itself ended it; then nobody waits for the message.
    """

    job_id: str
    number: int
    running: Running
    outcome: Outcome | None = None
    ended_at: float = 0.0
    is_cut: bool = False


class Attempts(Closeable):
    """The attempt that runs, and those that are paused.

    Parameters
    ----------
    tell
        Takes each attempt that ends by itself, from another thread.
    """

    def __init__(self, tell: Callable[[Attempt], None]) -> None:
        self._tell = tell
        self._attempts: dict[str, Attempt] = {}

    def follow(self, job: Job, running: Running) -> Attempt:
        """Wait for the end of an attempt, beside what else happens."""
        attempt = Attempt(job.id, job.attempt, running)
        self._attempts[job.id] = attempt
        threading.Thread(target=self._wait, args=(attempt,), daemon=True).start()
        return attempt

    def _wait(self, attempt: Attempt) -> None:
        try:
            attempt.outcome = attempt.running.wait()
        except Exception as error:  # whatever goes wrong, the dispatcher must hear of the end
            attempt.outcome = Outcome(False, f"{type(error).__name__}: {error}")
        attempt.ended_at = time.perf_counter()
        self._tell(attempt)

    def cut(self, job_id: str) -> Outcome | None:
        """End an attempt; return its outcome if it had ended by itself before."""
        attempt = self._attempts.pop(job_id)
        attempt.is_cut = True
        return attempt.running.kill()

    def forget(self, job_id: str) -> None:
        """Drop an attempt that ended."""
        del self._attempts[job_id]

    def ids(self) -> list[str]:
        """Return the jobs that are in the engine."""
        return list(self._attempts)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._attempts

    def __getitem__(self, job_id: str) -> Attempt:
        return self._attempts[job_id]

    def close(self) -> None:
        """End all of them."""
        for job_id in self.ids():
            self.cut(job_id)
