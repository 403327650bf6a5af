"""Sprints by a quota: the engine has a share of the cores, and in a sprint more of them.

The kernel keeps to it where a control group may be made, in version 2 or 1. Elsewhere processes are
bound to whole cores.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from foretell.adapters.dispatcher.sprints._base import Sprint, SprintError
from foretell.files.typed import validated
from foretell.measure.running.cpu_group import CpuGroup

Cores = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)]


class Options(pydantic.BaseModel):
    """How many cores the engine has.

    Attributes
    ----------
    base_cpus, sprint_cpus
        Cores outside of sprints and in them; by default all in a sprint.
    by
        What holds the engine to it: a control "group", "affinity" to whole cores, or "any" of them.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    base_cpus: Cores
    sprint_cpus: Cores | None = None
    by: Literal["any", "group", "affinity"] = "any"

    @pydantic.model_validator(mode="after")
    def _is_faster(self) -> Options:
        if self.sprint_cpus is not None and self.sprint_cpus < self.base_cpus:
            raise ValueError(
                f"sprint_cpus is {self.sprint_cpus:g} and base_cpus is {self.base_cpus:g}, and a "
                "sprint is never slower; exchange them"
            )
        return self


class Quota(Sprint):
    """Holds the processes of an engine to a number of cores.

    Attributes
    ----------
    by
        What holds them: "group" or "affinity".
    """

    is_holding = True

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self._options = validated(Options, settings, "sprint", "settings")
        self._name = f"foretell-{secrets.token_hex(6)}"
        self._places = [str(place) for place in CpuGroup.places(self._name)]
        self._group: CpuGroup | None = None
        self.by = "affinity" if self._options.by == "affinity" or not _may_group() else "group"

    def refusal(self) -> str | None:
        """Say why the wanted way is not possible here."""
        if self._options.by == "group" and self.by != "group":
            return 'no control group can be made here; write by = "any" to bind cores instead'
        if self.by == "affinity" and not hasattr(os, "sched_setaffinity"):
            return "this system has neither control groups nor affinity to cores"
        if self.by == "affinity" and _whole(self._options.base_cpus) == _whole(
            self._options.sprint_cpus
        ):
            return "no control group can be made here, and whole cores make no difference"
        return None

    def base(self) -> dict[str, Any]:
        """Return where the group may be, which is removed: another process may look elsewhere."""
        return {"groups": self._places}

    def open(self) -> None:
        """Make the group."""
        if self.by == "group":
            self._group = CpuGroup.make(self._name)
            if self._group is None:
                raise SprintError("the control group cannot be made")
            self._limit(self._options.base_cpus)

    def hold(self, pids: Sequence[int]) -> None:
        """Put processes under the quota."""
        if self._group is None:
            _bind(pids, self._options.base_cpus)
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                self._group.add(pid)

    def start(self, pids: Sequence[int]) -> None:
        """Give the engine more cores."""
        self._set(pids, self._options.sprint_cpus)

    def stop(self, pids: Sequence[int]) -> None:
        """Give the engine its usual share."""
        self._set(pids, self._options.base_cpus)

    def _set(self, pids: Sequence[int], cpus: float | None) -> None:
        if self._group is None:
            _bind(pids, cpus)
        else:
            self._limit(cpus)

    def _limit(self, cpus: float | None) -> None:
        assert self._group is not None
        try:
            self._group.set(cpus)
        except OSError as error:
            raise SprintError(f"the quota cannot be set: {error.strerror}") from None

    @classmethod
    def restore(cls, base: Mapping[str, Any]) -> None:
        """Remove the group; processes in it go on without a limit."""
        for place in map(Path, base["groups"]):
            if place.is_dir():
                CpuGroup(place, is_second=True).remove()


def _may_group() -> bool:
    group = CpuGroup.make()
    if group is None:
        return False
    group.remove()
    return True


def _whole(cpus: float | None) -> int:
    """Return how many whole cores stand for a share."""
    n = os.cpu_count() or 1
    return n if cpus is None else min(n, max(1, round(cpus)))


def _bind(pids: Sequence[int], cpus: float | None) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    chosen = allowed[: _whole(cpus)]
    for pid in pids:
        for thread in _threads(pid):
            with contextlib.suppress(ProcessLookupError):
                try:
                    os.sched_setaffinity(thread, chosen)
                except PermissionError as error:
                    raise SprintError(f"cores cannot be bound: {error.strerror}") from None


def _threads(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from (int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir())
