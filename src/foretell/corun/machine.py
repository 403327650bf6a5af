"""What a machine has and how contention shows on it: measured once with bubbles, kept in a file."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydantic

from foretell._version import __version__
from foretell.corun.bubbles import LEVELS
from foretell.corun.facts import MachineFacts, machine_facts, usable_cpus
from foretell.corun.running.together import JobOrder, RunTogether, run_together
from foretell.decide.corun.jobs import Capacity
from foretell.errors import NothingUsableError, Option, UsageError
from foretell.files.directory import cache_folder, check_new, write_new, write_whole
from foretell.files.text_file import FileKind, read_text
from foretell.files.typed import validated
from foretell.wording import number

_KIND = FileKind("machine", "what a machine has", (".machine",))
_SECONDS = 2.0
_LEAST_LOSS = 0.02  # of a bubble's rate: less is noise
_MOST_OTHER, _ATTEMPTS = 0.1, 3  # as where sets are measured

Positive = pydantic.PositiveFloat


class Machine(pydantic.BaseModel):
    """What was measured of a machine.

    Attributes
    ----------
    facts
        Processor, cores and memory: they tell one machine from another.
    compute_rate
        How much of a fixed computation one core does per second.
    core_speed
        The speed of a core while all others compute, relative to one that is alone.
    thread_power
        How shares of CPU time grow with threads: 1 if each thread gets the same, 0 if each job
        does.
    stream_rate, bandwidth
        Bytes per second that one core, and that all cores together, copy in memory.
    disk
        The busy time per second that writers can share: that of one writer, times how much more
        two of them write.
    wake_s
        How long a thread that wakes up waits for a core while others keep all of them busy.
    sensitivities
        Of a probe of each kind: how many times longer it takes beside bubbles of levels 0 to 4.
    other_load
        Cores that others, or the host of a virtual machine, kept while bubbles wanted them.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    facts: MachineFacts
    compute_rate: Positive
    core_speed: Positive
    thread_power: pydantic.NonNegativeFloat
    stream_rate: Positive
    bandwidth: Positive
    disk: Positive
    wake_s: pydantic.NonNegativeFloat = 0.0
    sensitivities: dict[str, list[Positive]]
    other_load: pydantic.NonNegativeFloat
    foretell: str = __version__

    def capacity(self) -> Capacity:
        """Return what jobs share."""
        return Capacity(
            self.facts.n_usable,
            self.facts.most_memory,
            self.bandwidth,
            self.disk,
            self.thread_power,
            self.wake_s,
        )

    def notes(self) -> list[str]:
        """Return what to know about the figures."""
        if self.other_load <= _MOST_OTHER:
            return []
        return [
            f"while the machine was measured, others kept {self.other_load:.2f} cores that bubbles "
            "wanted, so its figures are too low; measure it again when it is idle"
        ]

    def __str__(self) -> str:
        levels = "".join(f"{f'level {level}':>10}" for level in LEVELS[1:])
        lines = [
            str(self.facts),
            f"memory bandwidth: {number(self.bandwidth / 1e9, 3)} GB/s, "
            f"of which one core uses {number(self.stream_rate / 1e9, 3)}",
            f"disk: {number(self.disk, 3)} s of busy time per second",
            f"a core runs at {100 * self.core_speed:.0f} % while the others compute; "
            f"CPU time is shared by threads to the power of {number(self.thread_power, 2)}",
            f"who wakes up while all cores are busy waits {number(1e6 * self.wake_s, 2)} µs",
            f"others kept {self.other_load:.2f} cores meanwhile",
            f"times longer beside bubbles{levels}",
        ]
        for kind, values in self.sensitivities.items():
            lines.append(f"  {kind:25}" + "".join(f"{v:10.2f}" for v in values[1:]))
        return "\n".join(lines)


def default_path() -> Path:
    """Return where the file of this machine is kept for this user."""
    return cache_folder() / "this.machine"


def read_machine(path: Path | str) -> Machine:
    """Read the file of a machine."""
    text = read_text(Path(path), _KIND)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise UsageError(f"{path} does not describe a machine; foretell corun machine writes one")
    try:
        return validated(Machine, values)
    except UsageError as error:
        raise UsageError(f"{path}: {error.text}") from None


def known_machine() -> Machine | None:
    """Return what was measured of this machine; None if nothing was, or of another."""
    path = default_path()
    if not path.exists():
        return None
    found = read_machine(path)
    return found if found.facts.is_like(machine_facts()) else None


def chosen_machine(given: Machine | Path | str | None) -> Machine | None:
    """Return the machine that a user names; without one, what was measured of this one."""
    if given is None:
        return known_machine()
    return read_machine(given) if isinstance(given, str | Path) else given


def measure_machine(
    output: Path | str | None = None,
    *,
    seconds: float = _SECONDS,
    priority: bool = False,
    force: bool = False,
    progress: Callable[[str], None] = lambda what: None,
) -> Machine:
    """Measure what this machine has, and write it to a file.

    Bubbles that others disturb are run again. If others disturbed the whole measurement, it is
    written only to a file that is named.

    Parameters
    ----------
    output
        The file; by default that of this user, which profiles and predictions then use.
    seconds
        How long each of about twenty bubbles lasts.
    priority
        Whether bubbles run before other processes; it needs root.
    force
        Whether a file that is named and exists is written over.
    """
    if output is not None:
        check_new(Path(output), force=force)
    found = _Measuring(seconds, priority, progress).measure()
    keep_machine(found, output, force=force)
    return found


def keep_machine(found: Machine, output: Path | str | None = None, *, force: bool = False) -> None:
    """Write what was measured; a disturbed measurement does not become that of this user."""
    content = (found.model_dump_json(indent=1) + "\n").encode()
    if output is not None:
        write_new(Path(output), content, force=force)
    else:
        path = default_path()
        if notes := found.notes():
            raise NothingUsableError(
                f"{notes[0]}. Nothing was kept, as all predictions would use it",
                remedy=(
                    "measure with ",
                    Option("priority"),
                    " where others do not stop; to write it anyway, name a file: ",
                    Option("output", "this.machine"),
                ),
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)


def bubble(
    kind: str, level: int, seconds: float, *, n_processes: int = 1, cpus: tuple[int, ...] = ()
) -> JobOrder:
    """Return the job that presses on one resource."""
    words = (sys.executable, "-P", "-m", "foretell.corun.bubbles", kind, str(level), f"{seconds:g}")
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return JobOrder(f"{kind} bubble", (*words, str(n_processes)), cpus=cpus, env=one)


def bubble_rate(printed: str) -> float:
    """Return what a bubble says it did per second."""
    found = re.findall(r"^rate (\S+)$", printed, re.MULTILINE)
    rate = float(found[-1]) if found else math.nan
    if not rate > 0:
        raise NothingUsableError(f"a bubble did nothing: {printed.strip()[-300:]}")
    return rate


class _Measuring:
    """Runs bubbles alone and together."""

    def __init__(self, seconds: float, priority: bool, progress: Callable[[str], None]) -> None:
        self._seconds, self._priority, self._progress = seconds, priority, progress
        self._facts = machine_facts()
        cores = usable_cpus()
        self._first, self._others = cores[:1], cores[1:] or cores[:1]
        self._n = len(cores)
        self._loads: list[float] = []

    def measure(self) -> Machine:
        compute, computed = self._one("cpu"), self._all("cpu")
        stream, bandwidth = self._one("memory"), self._all("memory")
        disk = self._disk()
        return Machine(
            facts=self._facts,
            compute_rate=compute,
            core_speed=min(computed / compute / self._n, 1.0),
            thread_power=self._thread_power(compute),
            stream_rate=stream,
            bandwidth=max(bandwidth, stream),
            disk=disk,
            wake_s=self._wake(),
            sensitivities={
                "cpu": self._sensitivity("cpu", compute),
                "memory": self._sensitivity("memory", stream),
                "disk": self._sensitivity("disk", self._one("disk")),
            },
            other_load=sum(self._loads) / len(self._loads),
        )

    def _run(self, *orders: JobOrder) -> list[float]:
        self._progress(" beside ".join(order.name for order in orders))
        attempts: list[RunTogether] = []
        while len(attempts) < _ATTEMPTS:
            attempts.append(run_together(orders, priority=self._priority))
            if _other(attempts[-1]) <= _MOST_OTHER:
                break
        done = min(attempts, key=_other)
        self._loads.append(_other(done))
        self._last = done
        for job in done.jobs:
            if job.failure:
                raise NothingUsableError(f"the {job.name} failed: {job.failure}")
        return [bubble_rate(job.printed) for job in done.jobs]

    def _bubble(self, kind: str, level: int = 4, **more: Any) -> JobOrder:
        return bubble(kind, level, self._seconds, **more)

    def _one(self, kind: str) -> float:
        return self._run(self._bubble(kind, cpus=self._first))[0]

    def _all(self, kind: str) -> float:
        return self._run(self._bubble(kind, n_processes=self._n))[0]

    def _disk(self) -> float:
        """Return the busy time that the disk has for several writers: two against one."""
        one = self._run(self._bubble("disk"))[0]
        job = self._last.jobs[0]
        busy = min(1.0, float(job.trace.columns["disk_busy_s"][-1]) / job.wall_s)
        two = sum(self._run(self._bubble("disk"), self._bubble("disk")))
        return max(1.0, two / one) * max(busy, 0.1)

    def _wake(self) -> float:
        """Return how long who wakes up waits: a writer to the disk beside bubbles on all cores."""
        alone = self._run(self._bubble("disk"))[0]
        job = self._last.jobs[0]
        per_s = float(job.trace.columns["n_switches"][-1]) / job.wall_s
        beside = self._run(self._bubble("disk"), self._bubble("cpu", n_processes=self._n))[0]
        return max(0.0, alone / beside - 1) / per_s if per_s > 0 else 0.0

    def _thread_power(self, compute: float) -> float:
        """Return how shares grow with threads: one thread beside a job that could use all cores."""
        if self._n == 1:
            return 1.0
        rates = self._run(self._bubble("cpu"), self._bubble("cpu", n_processes=self._n))
        share = min(rates[0] / compute, 1.0)
        weight = max(self._n / share - 1, 1.0)
        return min(math.log(weight) / math.log(self._n), 2.0)

    def _sensitivity(self, kind: str, alone: float) -> list[float]:
        """Return how many times longer a probe takes beside bubbles of each level."""
        found = [1.0]
        # Bubbles that compute have to meet the probe; those that copy must not take its core.
        cpus = self._first if kind == "cpu" else self._others
        for level in LEVELS[1:]:
            probe = self._bubble(kind, cpus=self._first)
            rate = self._run(probe, self._bubble(kind, level, cpus=cpus))[0]
            found.append(max(1.0, alone / rate))
        return found


def _other(done: RunTogether) -> float:
    """Return the cores that jobs wanted, and that others or the host kept."""
    return done.disturbed + done.steal


def inverted_bandwidth(machine: Machine, slowdown: float, bubble_rate_s: float) -> float:
    """Return the bandwidth that a job needs at full speed, from one run beside a full bubble.

    If the bubble copies as much as it does alone, there was room for both, and nothing is known
    but that: the job is taken to need none. Otherwise the memory was busy, so the job had what the
    bubble left, and at full speed it would need as many times more as it was slowed.
    """
    if bubble_rate_s >= (1 - _LEAST_LOSS) * machine.stream_rate:
        return 0.0
    return slowdown * max(0.0, machine.bandwidth - bubble_rate_s)
