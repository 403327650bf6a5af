"""Processes of an engine, known by a mark in their environment: no reused id is mistaken for one.

A process hands its environment on to all that it starts, in whatever group or session. So the mark
finds the whole family of a job, and also what a dispatcher that was killed has left behind. What
starts with another environment is found by its session, as long as a marked process leads that, and
by its parents, as long as they live.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Mapping, Sequence

import psutil

#: Names the queue that a process works for.
QUEUE_MARK = "FORETELL_QUEUE"
#: Names the job that a process works for.
JOB_MARK = "FORETELL_JOB"
_PAUSE_S = 0.002
_PATIENCE_S = 10.0


def marked(marks: Mapping[str, str]) -> list[psutil.Process]:
    """Find the living processes of these marks; this process and its parents are none of them."""
    own = {os.getpid(), *(p.pid for p in psutil.Process().parents())}
    others = [p for p in psutil.process_iter() if p.pid not in own]
    found = [p for p in others if _has(p, marks)]
    pids = {p.pid for p in found}
    leaders = {pid for pid in pids if _session(pid) == pid}
    found += [p for p in others if p.pid not in pids and _session(p.pid) in leaders]
    return found + _descendants(found, others) if found else []


def _descendants(
    found: Sequence[psutil.Process], others: Sequence[psutil.Process]
) -> list[psutil.Process]:
    """Find what these processes have started, in whatever session and environment."""
    known = {p.pid for p in found}
    children: dict[int, list[psutil.Process]] = {}
    for process in others:
        if process.pid not in known:
            with contextlib.suppress(psutil.Error):
                children.setdefault(process.ppid(), []).append(process)
    more: list[psutil.Process] = []
    parents = list(found)
    while parents:
        new = children.pop(parents.pop().pid, [])
        more += new
        parents += new
    return more


def _has(process: psutil.Process, marks: Mapping[str, str]) -> bool:
    with contextlib.suppress(psutil.Error, OSError):
        environment = process.environ()
        return all(environment.get(name) == value for name, value in marks.items())
    return False


def _session(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return None


def signal_all(marks: Mapping[str, str], number: signal.Signals, spared: Collection[int]) -> int:
    """Send a signal to all marked processes but some; return to how many it was sent."""
    n = 0
    for process in marked(marks):
        if process.pid not in spared:
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)
                n += 1
    return n


def end_all(marks: Mapping[str, str], spared: Collection[int] = ()) -> int:
    """Kill all marked processes, those that they start meanwhile too; return how many.

    Those that are spared are waited for: they end by themselves when their children have, and are
    killed if they do not.
    """
    deadline = time.monotonic() + _PATIENCE_S
    n = signal_all(marks, signal.SIGKILL, spared)
    while living := marked(marks):
        if {p.pid for p in living} - set(spared):
            n += signal_all(marks, signal.SIGKILL, spared)
        if time.monotonic() > deadline:
            signal_all(marks, signal.SIGKILL, ())
        time.sleep(_PAUSE_S)
    return n
