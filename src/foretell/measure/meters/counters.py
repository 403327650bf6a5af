"""Hardware and kernel counters of the job, by `perf`, where the machine allows it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from functools import cache
from typing import Any

from foretell.measure.meters._base import Meter, Tree

#: Events of perf, and the columns they become.
_EVENTS = {
    "instructions": "n_instructions",
    "cycles": "n_cycles",
    "cache-misses": "n_cache_misses",
    "branch-misses": "n_branch_misses",
    "page-faults": "n_page_faults",
    "context-switches": "n_context_switches",
}
_WAIT_S = 5.0


class CountersMeter(Meter):
    """Counts of the runner and all processes it starts, in user mode where the kernel says so."""

    columns = tuple(_EVENTS.values())
    is_slow = True

    def missing(self) -> str | None:
        """Say what prevents perf from counting."""
        if shutil.which("perf") is None:
            return "there is no program 'perf'; install the package linux-perf or linux-tools"
        if not _granted():
            return (
                "perf may not count here; lower /proc/sys/kernel/perf_event_paranoid to 2, or "
                "run on a machine that offers counters"
            )
        return None

    def source(self) -> str:
        """Name the events."""
        return f"measured: perf stat, {', '.join(_granted())}"

    def start(self, tree: Tree) -> None:
        """Attach perf, and wait until it counts."""
        control_out, self._control = os.pipe()
        self._ack, ack_in = os.pipe()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - until stop
        log = self._output.fileno()
        words = [
            "perf", "stat", "--no-big-num", "-x", ";", "--log-fd", str(log), "-D", "-1",
            "--control", f"fd:{control_out},{ack_in}", "-e", ",".join(_granted()),
            "-p", str(tree.runner.pid),
        ]  # fmt: skip
        self._perf = subprocess.Popen(  # noqa: S603 - our own words
            words,
            pass_fds=(control_out, ack_in, log),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(control_out)
        os.close(ack_in)
        self._say("enable")

    def stop(self, tree: Tree) -> dict[str, float]:
        """Stop counting, and read the counts."""
        self._say("disable")
        self._perf.send_signal(signal.SIGINT)
        try:
            self._perf.wait(_WAIT_S)
        except subprocess.TimeoutExpired:
            self._perf.kill()
            self._perf.wait()
        for pipe in (self._control, self._ack):
            os.close(pipe)
        with self._output as output:
            output.seek(0)
            return _counts(output.read().decode(errors="replace"))

    def _say(self, word: str) -> None:
        """Send perf a command, and wait for its answer as long as it runs."""
        import select

        try:
            os.write(self._control, f"{word}\n".encode())
            if select.select([self._ack], [], [], _WAIT_S)[0]:
                os.read(self._ack, 64)
        except OSError:
            return  # it has ended; the counts will say so


@cache
def _granted() -> tuple[str, ...]:
    """Return the events that perf counts on this machine."""
    done: Any = subprocess.run(  # noqa: S603 - our own words
        ["perf", "stat", "-x", ";", "-e", ",".join(_EVENTS), "true"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
        timeout=_WAIT_S,
    )
    counted = _counts(done.stderr)
    return tuple(event for event, column in _EVENTS.items() if column in counted)


def _counts(text: str) -> dict[str, float]:
    """Read perf's table: value, unit, event with its mode, and more."""
    counts: dict[str, float] = {}
    for line in text.splitlines():
        fields = line.split(";")
        event = fields[2].split(":")[0] if len(fields) > 2 else ""
        if event in _EVENTS and fields[0].replace(".", "").isdigit():
            counts[_EVENTS[event]] = float(fields[0])
    return counts
