"""A control group of the kernel that limits the CPU time of processes, in version 1 or 2."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PERIOD_US = 100_000
_MOUNTS, _OWN = Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")


@dataclass(frozen=True)
class CpuGroup:
    """A control group of our own below, or beside, the one that this process is in."""

    path: Path
    is_second: bool  # version of control groups

    @classmethod
    def make(cls, name: str | None = None) -> CpuGroup | None:
        """Make a group; None where that is not allowed, or there are no control groups."""
        name = f"foretell-{secrets.token_hex(6)}" if name is None else name
        for parent, is_second in _parents():
            found = cls(parent / name, is_second)
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

    @classmethod
    def places(cls, name: str) -> list[Path]:
        """Return where ``make`` may make a group of this name."""
        return [parent / name for parent, _ in _parents()]

    def set(self, cpus: float | None) -> None:
        """Let its processes use so many cores together; None for all."""
        quota = None if cpus is None else max(1000, round(cpus * _PERIOD_US))
        if self.is_second:
            self._write("cpu.max", f"{'max' if quota is None else quota} {_PERIOD_US}")
        else:
            self._write("cpu.cfs_period_us", str(_PERIOD_US))
            self._write("cpu.cfs_quota_us", str(-1 if quota is None else quota))

    def add(self, pid: int) -> None:
        """Put a process into it, and what that starts from now on."""
        self._write("cgroup.procs", str(pid))

    def remove(self) -> None:
        """Remove it; processes that are still in it go on without a limit."""
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
