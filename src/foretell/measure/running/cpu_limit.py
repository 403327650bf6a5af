"""A limit on the CPU time of a process and its children, as a container has: a share of cores."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from foretell.closeable import Closeable
from foretell.measure.meters._base import Tree
from foretell.measure.meters.cpu_time import cpu_seconds

_PERIOD_S, _TICK_S = 0.1, 0.01
_PERIOD_US = 100_000
_MOUNTS, _OWN = Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")


class CpuLimit(Closeable):
    """Lets a process and all its children use at most so many cores, in each tenth of a second.

    The kernel enforces it where a control group may be made, in version 1 or 2. Elsewhere the
    processes are stopped and continued by signals.

    Attributes
    ----------
    by
        What enforces the limit: "cgroup" or "signals".
    """

    def __init__(self, *, may_use_groups: bool = True) -> None:
        self._group = _Group.make() if may_use_groups else None
        self._pauses: _Pauses | None = None
        self.by = "signals" if self._group is None else "cgroup"

    @contextlib.contextmanager
    def held(self, pid: int, cpus: float, *, is_job: bool = True) -> Iterator[None]:
        """Limit a process, and all that it starts from now on, while the context lasts.

        Parameters
        ----------
        is_job
            Whether signals stop the process itself, or its children only.
        """
        self.hold(pid, cpus, is_job=is_job)
        try:
            yield
        finally:
            self.release()

    def hold(self, pid: int, cpus: float, *, is_job: bool = True) -> None:
        """Limit a process, and all that it starts from now on."""
        if self._group is not None:
            self._group.set(cpus)
            self._group.add(pid)
            return
        self._pauses = _Pauses(Tree(psutil.Process(pid), is_job), cpus)

    def release(self) -> None:
        """Limit it no more."""
        if self._group is not None:
            self._group.set(None)
        if self._pauses is not None:
            self._pauses.stop()
            self._pauses = None

    def close(self) -> None:
        """Remove the control group; processes that are still in it go on without a limit."""
        self.release()
        if self._group is not None:
            self._group.remove()


@dataclass(frozen=True)
class _Group:
    """A control group of our own below, or beside, the one that this process is in."""

    path: Path
    is_second: bool  # version of control groups

    @classmethod
    def make(cls) -> _Group | None:
        """Make a group; None where that is not allowed, or there are no control groups."""
        for parent, is_second in _parents():
            found = cls(parent / f"foretell-{secrets.token_hex(6)}", is_second)
            try:
                found.path.mkdir()
            except OSError:
                continue
            try:
                found.set(1.0)
                found.set(None)
            except OSError:  # the controller of CPU time is not passed on to groups here
                found.remove()
                continue
            return found
        return None

    def set(self, cpus: float | None) -> None:
        quota = None if cpus is None else max(1000, round(cpus * _PERIOD_US))
        if self.is_second:
            self._write("cpu.max", f"{'max' if quota is None else quota} {_PERIOD_US}")
        else:
            self._write("cpu.cfs_period_us", str(_PERIOD_US))
            self._write("cpu.cfs_quota_us", str(-1 if quota is None else quota))

    def add(self, pid: int) -> None:
        self._write("cgroup.procs", str(pid))

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            for pid in (self.path / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):
                    (self.path.parent / "cgroup.procs").write_text(pid)
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def _write(self, name: str, text: str) -> None:
        # Not write_text, which would make a file that the kernel did not.
        descriptor = os.open(self.path / name, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def _parents() -> Iterator[tuple[Path, bool]]:
    """Yield folders in which a group may be made, and whether they are of version 2."""
    try:
        mounts = [line.split() for line in _MOUNTS.read_text().splitlines()]
        own = [line.split(":", 2) for line in _OWN.read_text().splitlines()]
    except OSError:
        return
    for words in mounts:
        kind = words[words.index("-") + 1]
        controllers = words[-1].split(",")
        is_second = kind == "cgroup2"
        if not is_second and (kind != "cgroup" or "cpu" not in controllers):
            continue
        for _, names, path in own:
            if names == "" if is_second else "cpu" in names.split(","):
                here = Path(words[4]) / os.path.relpath(path, words[3])
                yield here, is_second
                if is_second:  # a group with processes has no groups below it, except the first
                    yield here.parent, is_second


class _Pauses:
    """Stops processes as soon as they have used their share of a period, until the next one."""

    def __init__(self, tree: Tree, cpus: float) -> None:
        self._tree, self._cpus = tree, cpus
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _work(self) -> None:
        began_s, before = time.monotonic(), cpu_seconds(self._tree)
        is_stopped = False
        while not self._is_over.wait(_TICK_S):
            # All of the past counts, so that what was used in excess of one period is made up for.
            allowed = self._cpus * (time.monotonic() - began_s + _PERIOD_S)
            used = cpu_seconds(self._tree) - before
            if used > allowed and not is_stopped:
                is_stopped = self._send(signal.SIGSTOP)
            elif is_stopped and used <= allowed - self._cpus * _PERIOD_S:
                is_stopped = not self._send(signal.SIGCONT)
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> bool:
        for process in self._tree.living():
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)
        return True
