"""What an engine is: it runs one job at a time, and its outcomes survive the dispatcher."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from foretell.adapters.dispatcher.jobs import Job
from foretell.adapters.dispatcher.processes import QUEUE_MARK, end_all
from foretell.closeable import Closeable
from foretell.errors import ForetellError

_MOST_REASON = 300


class EngineLostError(ForetellError):
    """The engine cannot run anything now; that is no fault of the job, and the queue is kept."""


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended.

    Attributes
    ----------
    is_done
        Whether the job did what it should.
    reason
        Why it did not.
    ended_at
        When, by the wall clock; None for this moment.
    """

    is_done: bool
    reason: str = ""
    ended_at: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", " ".join(self.reason.split())[:_MOST_REASON])


@dataclass(frozen=True)
class Setting:
    """What an engine needs to know of the dispatcher.

    Attributes
    ----------
    queue_id
        The value of the mark that all its processes must carry in their environment.
    jobs
        The folder with a folder for each job.
    folder
        Where the class file is; relative paths of jobs start there.
    slots
        How many tasks run at the same time.
    options
        What [run.settings] says.
    """

    queue_id: str
    jobs: Path
    folder: Path = Path()
    slots: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def marks(self) -> dict[str, str]:
        """The environment by which processes of this queue are recognized."""
        return {QUEUE_MARK: self.queue_id}

    def folder_of(self, job: Job) -> Path:
        """Return the folder of a job: what it printed, and its result."""
        return (self.jobs / job.id).absolute()

    def result(self, job: Job) -> Path:
        """Return the file for the job's result, as JSON."""
        return self.folder_of(job) / "result.json"

    def output(self, job: Job) -> Path:
        """Return the file for what the latest attempt prints."""
        return self.folder_of(job) / "output.txt"

    def outcome(self, job: Job) -> Path:
        """Return the file that tells how the latest attempt ended; once it is there, it ended."""
        return self.folder_of(job) / f"outcome-{job.attempt}"


class Running(ABC):
    """An attempt that is under way."""

    @property
    @abstractmethod
    def pids(self) -> list[int]:
        """The processes that work for it, or for the engine as a whole."""

    @abstractmethod
    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        """Wait for the end; None if there is none until then. Called from one thread."""

    @abstractmethod
    def kill(self) -> Outcome | None:
        """End it and all that it started, and wait until that is gone.

        Returns its outcome if it had ended by itself before, and None if it was cut short.
        """

    def pause(self) -> None:
        """Stop all its processes where they are."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Let stopped processes go on."""
        raise NotImplementedError


class Engine(Closeable):
    """Runs jobs, one at a time.

    Attributes
    ----------
    can_pause
        Whether a running job can be stopped and go on later; then several may be under way.
    """

    can_pause: ClassVar[bool] = False

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @abstractmethod
    def check(self, run: list[str] | str) -> None:
        """Raise a UsageError if this engine cannot run that."""

    def is_ready(self) -> bool:
        """Whether a job would start at once; if not, it goes on getting ready meanwhile.

        Raises an EngineLostError if it cannot get ready.
        """
        return True

    @abstractmethod
    def start(self, job: Job, drop: float, seed: int) -> Running:
        """Start an attempt; the folder of the job is there.

        Raises an EngineLostError if the engine, and not the job, is why it cannot start.
        """

    @abstractmethod
    def recover(self, jobs: Sequence[Job]) -> dict[str, Outcome]:
        """End what a dispatcher that was killed left running; return the outcomes of what ended.

        Called once before the first start, with the jobs that were in the engine. A job that is
        not in the answer was cut short, and starts again.
        """
        end_all(self.setting.marks)
        return {}
