"""What a meter is: it starts when the job begins, takes samples, and reports when it ends."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import psutil

if TYPE_CHECKING:
    from foretell.measure.sweep import Power

T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """What meters need to know of the sweep."""

    power: Power | None = None


@dataclass
class Tree:
    """The processes of one run.

    Attributes
    ----------
    is_job
        Whether the runner itself is part of the job.
    child_peak_bytes
        The largest memory of one process, as the kernel reported it to the runner.
    """

    runner: psutil.Process
    is_job: bool
    child_peak_bytes: int = 0

    def living(self) -> list[psutil.Process]:
        """Return the processes of the job that are alive now."""
        try:
            children = self.runner.children(recursive=True)
        except psutil.Error:
            return []
        return [self.runner, *children] if self.is_job else children

    def each(self, of: Callable[[psutil.Process], T]) -> dict[psutil.Process, T]:
        """Ask the runner and all processes of the job; those that end meanwhile are left out."""
        found = {}
        for process in {self.runner, *self.living()}:
            with contextlib.suppress(psutil.Error):
                found[process] = of(process)
        return found

    def total(self, of: Callable[[psutil.Process], float]) -> float:
        """Add something up over the processes of the job."""
        return sum(n for p, n in self.each(of).items() if self.is_job or p != self.runner)


class Meter(ABC):
    """Measures one thing of each run, from outside the job's processes.

    Attributes
    ----------
    columns
        What it measures, with its unit in the name.
    trace_columns
        What ``reading`` returns, for sweeps that keep traces.
    is_slow
        Whether it takes a while to start, which must not count for the others.
    """

    columns: ClassVar[Sequence[str]]
    trace_columns: ClassVar[Sequence[str]] = ()
    is_slow: ClassVar[bool] = False

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def missing(self) -> str | None:
        """Say why it cannot measure on this machine and what to do; None if it can."""
        return None

    def source(self) -> str:
        """Say where the numbers come from."""
        return "measured"

    @abstractmethod
    def start(self, tree: Tree) -> None:
        """Begin; the job starts as soon as all meters have."""

    def sample(self, tree: Tree) -> None:  # noqa: B027 - few meters need it
        """Look at the job while it runs; called every few hundredths of a second."""

    def reading(self, tree: Tree) -> dict[str, float]:
        """Return what a trace keeps of this moment: totals since the start, or amounts now."""
        return {}

    @abstractmethod
    def stop(self, tree: Tree) -> dict[str, float]:
        """Return what was measured, by column."""
