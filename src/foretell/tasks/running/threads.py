"""Threads of workers: how soon they have Python's lock, and BLAS that starts none beside them."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from foretell.tasks.declare import active

#: How often someone who waits looks for signals.
_LOOK_S = 0.2
#: Tasks that compute for longer should not wait long for Python's lock when they end.
LONG_S = 50e-6
#: Tasks are long if at least this share of them is.
LONG_SHARE = 1 / 8


def let_others_release(lock: threading.Lock) -> None:
    """Let other threads run while a lock is taken that is held for moments, before taking it.

    A thread that blocks on a lock has to be woken each time it is released, while the thread that
    woke it goes on and takes it again. That would take longer than the work.
    """
    while lock.locked():
        time.sleep(0)


class Waiter:
    """Someone who waits until a number of tasks have ended, or until anything happens."""

    __slots__ = ("_lock", "n_left")

    def __init__(self, n_left: int) -> None:
        self.n_left = n_left
        self._lock = threading.Lock()
        self._lock.acquire()

    def tell(self) -> None:
        """Count one that has ended, or something that happened."""
        self.n_left -= 1
        if self.n_left == 0:
            self._lock.release()

    def wait(self) -> None:
        """Wait until none is left."""
        # A signal that comes just before a thread blocks does not wake it: look now and then.
        while not self._lock.acquire(timeout=_LOOK_S):
            pass


#: How often a thread gives Python's lock away while others wait for it, with short tasks about.
_SWITCH_S = 2e-4
_switching = threading.Lock()
_intervals: list[float] = []  # the interval before, once for each graph that shares the lock


def switching() -> threading.Lock:
    """Return the lock under which the interval changes."""
    return _switching


def patience_s(times_s: Sequence[float]) -> float:
    """Return how long a worker waits for Python's lock while tasks of some times are submitted."""
    n_long = sum(time_s > LONG_S for time_s in times_s)
    usual = sys.getswitchinterval()
    return min(_SWITCH_S, usual) if n_long >= LONG_SHARE * len(times_s) else usual


def share_lock() -> None:
    """Let workers have Python's lock soon: by default, submitting keeps it for 5 ms at a time."""
    # It makes empty tasks slower, so it is done only while tasks compute for a while.
    _intervals.append(sys.getswitchinterval())
    sys.setswitchinterval(min(_SWITCH_S, _intervals[0]))


def keep_lock() -> None:
    """Undo it; the last graph that shares the lock restores the interval."""
    if len(_intervals) == 1:
        sys.setswitchinterval(_intervals[0])
    del _intervals[-1:]  # none is left in a process that was forked meanwhile


def _begin_alone() -> None:
    """Forget the graph in a process forked beside it: its threads, with their locks, are gone."""
    global _switching
    active.graph = active.task = active.worker = None
    _switching = threading.Lock()
    if _intervals:
        sys.setswitchinterval(_intervals[0])
    _intervals.clear()


if hasattr(os, "register_at_fork"):  # Windows has none
    os.register_at_fork(after_in_child=_begin_alone)


# BLAS

#: The libraries found when so many modules were loaded: looking for them takes a millisecond.
_found: tuple[int, Any] = (-1, None)


def _libraries() -> Any:
    global _found
    from threadpoolctl import ThreadpoolController

    if _found[0] != len(sys.modules):
        controller = ThreadpoolController()
        _found = (len(sys.modules), controller)
    return _found[1]


def one_blas_thread() -> Any:
    """Keep BLAS to one thread: tasks use the cores."""
    controller = _libraries()
    if all(library.num_threads == 1 for library in controller.lib_controllers):
        return None
    return controller.limit(limits=1)


def one_openmp_thread() -> None:
    """Keep OpenMP to one thread in the thread that calls this: its limit is one of threads."""
    controller = _libraries()
    own = [lib for lib in controller.lib_controllers if lib.user_api == "openmp"]
    if any(library.num_threads > 1 for library in own):
        controller.limit(limits=1, user_api="openmp")
