"""How many cores programs other than a search of Ray keep busy, from epoch to epoch."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import NamedTuple

import psutil

from foretell.tune.hook.clock import busy_s


class _Mark(NamedTuple):
    """What was used up to one moment: by all processes, and by those of Ray."""

    at_s: float
    busy_s: float
    own_s: float


class _Used(NamedTuple):
    """The CPU time of a process, and that of the processes whose end it has waited for."""

    own_s: float
    waited_s: float


@dataclass
class Others:
    """Watches the machine from the process that runs a search; all that Ray started is its own."""

    _marks: dict[str, _Mark] = field(default_factory=dict)
    _used: dict[tuple[int, float], _Used] = field(default_factory=dict)
    _own_s: float = 0.0

    def since(self, trial: str, pid: int | None, seconds: float) -> float:
        """Return how many cores others used since the last epoch of a trial; 0 in its first.

        Parameters
        ----------
        pid
            The process of the trial, which is a child of that from which Ray starts all.
        seconds
            How long the epoch took; its result may have come late, together with others.
        """
        now = _Mark(time.perf_counter(), busy_s(), self._own_used_s(pid))
        before = self._marks.get(trial, now)
        self._marks[trial] = now
        others_s = (now.busy_s - before.busy_s) - (now.own_s - before.own_s)
        return round(max(others_s, 0.0) / max(now.at_s - before.at_s, seconds), 3)

    def _own_used_s(self, pid: int | None) -> float:
        """Add up the CPU time of the search; what processes used that ended stays in it.

        Some of these, such as loader workers, live for less than an epoch. What they used is only
        seen in the process that waited for their end, together with what was seen of them before.
        """
        used: dict[tuple[int, float], _Used] = {}
        for process in _family(pid):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                used[process.pid, process.create_time()] = _Used(
                    times.user + times.system, times.children_user + times.children_system
                )
        before, nothing = self._used, _Used(0.0, 0.0)
        own_s = sum(max(u.own_s - before.get(key, nothing).own_s, 0.0) for key, u in used.items())
        waited_s = sum(u.waited_s - before.get(key, nothing).waited_s for key, u in used.items())
        seen_s = sum(sum(before[key]) for key in before.keys() - used.keys())
        self._own_s += own_s + max(waited_s - seen_s, 0.0)
        self._used = used
        return self._own_s


def _family(pid: int | None) -> set[psutil.Process]:
    """Return this process, the one from which Ray starts trials, and all that they started."""
    roots = [psutil.Process()]
    with contextlib.suppress(psutil.Error):
        roots += [] if pid is None else [_starter(psutil.Process(pid))]
    found = set(roots)
    for root in roots:
        with contextlib.suppress(psutil.Error):
            found.update(root.children(recursive=True))
    return found


def _starter(trial: psutil.Process) -> psutil.Process:
    """Return the process that started a trial; the first of the machine starts all programs."""
    parent = trial.parent()
    return trial if parent is None or parent.pid <= 1 else parent
