"""What a workload is: one method that makes a run, and a watch that times its stages."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pydantic

from foretell.machines import Needs
from foretell.spaces.values import Scalar

#: What a workload may report besides its time, by column: numbers, or texts.
Numbers = Mapping[str, float | int | str]


class RunFailedError(Exception):
    """The job ran and did not do what it should; the text says why."""


class Options(pydantic.BaseModel):
    """The options of a workload: what is set beside ``use`` in the sweep's table."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


@dataclass
class Watch:
    """Times one run and its stages.

    Attributes
    ----------
    on_begin, on_end
        Called right before and right after the job, for meters outside of this process.
    scratch
        A folder for the files of this run; it is removed afterwards.
    wall_time_s
        How long the job took; None until it has ended.
    stages_s
        Seconds by stage; a stage entered twice adds up.
    child_peak_bytes
        The largest memory of one process, where the workload knows it better than samples do.
    """

    on_begin: Callable[[], None] = lambda: None
    on_end: Callable[[Watch], None] = lambda watch: None
    scratch: Path = Path()
    wall_time_s: float | None = None
    stages_s: dict[str, float] = field(default_factory=dict)
    child_peak_bytes: int = 0
    _has_begun: bool = False

    @contextmanager
    def job(self) -> Iterator[None]:
        """Time the job itself; what is done before and after is not measured."""
        if self._has_begun:
            raise RunFailedError("watch.job() was used twice; a run has one job")
        self._has_begun = True
        self.on_begin()
        started = time.perf_counter()
        try:
            yield
        finally:
            self.wall_time_s = time.perf_counter() - started
            self.on_end(self)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what is done inside; it becomes the column ``<name>_s``."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - started)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds to a stage that was timed elsewhere."""
        self.stages_s[name] = self.stages_s.get(name, 0.0) + seconds


class Workload(ABC):
    """One way to run a job.

    A workload of your own derives from this class and has one method, ``run``. In each
    process that makes runs, it is created again from the same options.

    Attributes
    ----------
    options_class
        What may be set beside ``use`` in the sweep's table.
    shares_process
        Whether many runs may use one process, one after the other. Otherwise each has its own, and
        nothing of one run can be seen by the next.
    is_job
        Whether that process is part of the job, or only starts the job.
    times_itself
        Whether ``run`` marks the job by ``watch.job()``; otherwise all of ``run`` is the job.
    is_spread
        Whether ``run`` itself asks a Ray cluster for what the job needs, on any of its nodes. On a
        cluster, RAY_ADDRESS is its address, and what ``needs`` returns is checked, not reserved.
    """

    options_class: ClassVar[type[Options]] = Options
    shares_process: ClassVar[bool] = False
    is_job: ClassVar[bool] = True
    times_itself: ClassVar[bool] = False
    is_spread: ClassVar[bool] = False

    def __init__(self, options: Any, folder: Path) -> None:
        self.options = options
        self.folder = folder

    @abstractmethod
    def run(self, configuration: Mapping[str, Any], watch: Watch) -> Numbers | None:
        """Make one run; return what else was measured. Raise RunFailedError if it went wrong."""

    def check(self, names: Sequence[str]) -> None:  # noqa: B027 - few workloads need it
        """Raise a UsageError if the parameters of a sweep do not fit."""

    def ignored(self, names: Sequence[str]) -> list[str]:
        """Return the parameters that make no difference to a run, as far as is known."""
        return []

    def derived(self, configuration: Mapping[str, Any]) -> dict[str, Scalar]:
        """Return more columns that follow from the parameters, and are known before the run.

        They count as parameters, so that models may learn from them. Raise a UsageError if such a
        run is impossible.
        """
        return {}

    def needs(self, configuration: Mapping[str, Any]) -> Needs:
        """Return what a run needs of a node: by default one CPU."""
        return Needs()
