"""Profiles: one run of a job alone, traced; its samples tell what it needs, phase by phase."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell._version import __version__
from foretell.corun.facts import MachineFacts, facts_of, machine_facts, usable_cpus
from foretell.corun.machine import (
    Machine,
    bubble,
    bubble_rate,
    inverted_bandwidth,
)
from foretell.corun.phases import OTHERS, SWITCHES, job_phases
from foretell.corun.running.child import PAUSE
from foretell.corun.running.together import JobOrder, JobRun, RunTogether, run_together
from foretell.decide.corun.jobs import JobNeeds
from foretell.errors import DatasetError, NothingUsableError, Option, UsageError
from foretell.files.content import read_content
from foretell.files.directory import write_new
from foretell.traces import Trace

Array = NDArray[np.float64]

LEAST_SAMPLES = 10
_MOST_BYTES = 2**24
_MOST_GAP = 3  # intervals
_LEAST_GAP_S = 0.5  # a busy machine may be late with a sample
_FINE_S = 0.005
_COLUMNS = ("cpu_time_s", "wait_time_s", "read_bytes", "written_bytes", "memory_bytes",
            "disk_busy_s", "disk_bytes")  # fmt: skip
MOST_OVERHEAD, MOST_DISTURBED, MOST_THROTTLED = 0.02, 0.1, 0.05


@dataclass(frozen=True, eq=False)
class Profile:
    """One run of a job alone.

    Attributes
    ----------
    wall_s
        How long it took.
    is_endless
        Whether it was stopped, and would have run on.
    bandwidth
        Bytes per second of memory bandwidth that it needs for each core it keeps busy; zero if
        that was not measured, or too little to see.
    facts
        The machine it ran on.
    compute_rate
        How fast a core of that machine is, if that was measured.
    disturbed, overhead
        Cores that others kept busy while it waited for one or that the host of a virtual machine
        kept, and CPU time of sampling as a share of its time.
    kernel_time_s
        CPU time of threads of the kernel, which write to disks for it.
    throttled
        The share of the time in which a limit on CPU time held it back.
    """

    name: str
    command: tuple[str, ...]
    trace: Trace
    wall_s: float
    is_endless: bool
    bandwidth: float
    facts: MachineFacts
    compute_rate: float | None
    disturbed: float
    overhead: float
    kernel_time_s: float = 0.0
    throttled: float = 0.0

    @property
    def memory_bytes(self) -> float:
        """The most memory it held; what its processes share counts in each, so up to all there is.

        It ran, and so it fits into the machine.
        """
        return min(float(np.max(self.trace.columns["memory_bytes"])), self.facts.most_memory)

    def needs(self, n_cores: int, *, speed: float = 1.0) -> JobNeeds:
        """Return what it needs, phase by phase, on a machine whose cores are faster or slower."""
        phases = job_phases(
            self.trace, self.wall_s, self.facts.n_usable, self.bandwidth, self.kernel_time_s
        )
        phases = [phase.on_cores(n_cores, speed) for phase in phases]
        return JobNeeds(self.name, tuple(phases), self.memory_bytes, self.is_endless)

    def notes(self) -> list[str]:
        """Return what to know about the profile."""
        found = []
        if self.overhead > MOST_OVERHEAD:
            found.append(
                f"sampling took {100 * self.overhead:.1f} % of a core; the job may be slower for it"
            )
        if self.disturbed > MOST_DISTURBED:
            found.append(
                f"others kept {self.disturbed:.2f} cores busy while '{self.name}' waited for one, "
                "so alone it would be faster, and use more cores; profile it again on an idle "
                "machine, or with priority"
            )
        if self.throttled > MOST_THROTTLED:
            found.append(
                f"a limit on CPU time held '{self.name}' back for {100 * self.throttled:.0f} % of "
                "its time, so without it it would be faster; profile it again with a higher one"
            )
        return found

    def to_bytes(self) -> bytes:
        """Return the content of a file; reading it executes nothing."""
        about = {
            "profile": 1,
            "name": self.name,
            "command": list(self.command),
            "wall_time_s": self.wall_s,
            "is_endless": self.is_endless,
            "bandwidth": self.bandwidth,
            "machine": self.facts.model_dump(),
            "compute_rate": self.compute_rate,
            "disturbed": self.disturbed,
            "overhead": self.overhead,
            "kernel_time_s": self.kernel_time_s,
            "throttled": self.throttled,
            "foretell": __version__,
        }
        return Trace(self.trace.times_s, self.trace.columns, about).to_bytes()

    def __str__(self) -> str:
        from foretell.corun.text import profile_text

        return profile_text(self)


def profile_job(
    command: Sequence[str],
    *,
    name: str | None = None,
    seconds: float | None = None,
    machine: Machine | None = None,
    bubbles: bool = False,
    priority: bool = False,
) -> Profile:
    """Run a job alone, and return its profile.

    Parameters
    ----------
    command
        The program and its arguments; no shell runs it.
    seconds
        Stop a job without end after this time.
    machine
        What was measured of this machine; bubbles need it.
    bubbles
        Run the job once more beside a bubble that copies in memory, to find the bandwidth it needs.
    priority
        Whether it runs before other processes; it needs root.
    """
    words = tuple(command)
    if not words:
        raise UsageError("a profile needs a command to run, such as: python train.py")
    if bubbles and machine is None:
        raise UsageError("bubbles need the file of this machine; foretell corun machine makes it")
    if machine is not None and not machine.facts.is_like(machine_facts()):
        raise UsageError(
            f"the file is of another machine ({machine.facts}) than this one ({machine_facts()}); "
            "foretell corun machine measures this one",
            option=Option("machine"),
        )
    order = JobOrder(name or Path(words[0]).name, words, limit_s=seconds)
    whole = run_alone(order, priority=priority)
    job = whole.jobs[0]
    if job.failure:
        raise NothingUsableError(
            f"'{shlex.join(words)}' failed, and a job that fails has no profile: {job.failure}"
        )
    if len(job.trace) < LEAST_SAMPLES:
        raise NothingUsableError(
            f"'{shlex.join(words)}' took {job.wall_s:.2f} s, and {len(job.trace)} samples were "
            f"taken; a profile needs {LEAST_SAMPLES}. Profile a longer job."
        )
    try:
        check_samples(job.trace, job.wall_s)
    except ValueError as error:
        raise NothingUsableError(f"the profile of '{order.name}' has no use: {error}") from None
    bandwidth = 0.0
    if bubbles and machine is not None:
        bandwidth = _bandwidth(order, job, machine, priority)
    return Profile(
        order.name, words, job.trace, job.wall_s, job.was_stopped, bandwidth, machine_facts(),
        None if machine is None else machine.compute_rate, whole.disturbed + whole.steal,
        whole.overhead, whole.kernel_time_s, whole.throttled,
    )  # fmt: skip


def run_alone(order: JobOrder, *, priority: bool = False) -> RunTogether:
    """Run a job alone; if it is over before there are enough samples, again with finer ones."""
    whole = run_together([order], priority=priority)
    if whole.jobs[0].failure or len(whole.jobs[0].trace) >= LEAST_SAMPLES:
        return whole
    return run_together([order], interval_s=_FINE_S, priority=priority)


def _bandwidth(order: JobOrder, alone: JobRun, machine: Machine, priority: bool) -> float:
    """Return the bandwidth per busy core: from a run beside a bubble on the cores left over."""
    used = alone.cpu_time_s / alone.wall_s
    cpus = usable_cpus()
    if len(cpus) - math.ceil(used - 0.25) < 1 or used < 0.05:
        return 0.0  # no core is left for a bubble, or the job hardly computes
    beside = bubble("memory", 4, 2 * alone.wall_s, cpus=cpus[-1:])
    done = run_together([order, beside], priority=priority)
    if failure := done.jobs[0].failure:
        raise NothingUsableError(f"'{order.name}' failed beside a bubble: {failure}")
    both = min(done.jobs[0].wall_s, done.jobs[1].wall_s) / done.jobs[1].wall_s
    rate = bubble_rate(done.jobs[1].printed)
    beside_job = (rate - (1 - both) * machine.stream_rate) / both
    slowdown = max(1.0, done.jobs[0].wall_s / alone.wall_s)
    return inverted_bandwidth(machine, slowdown, beside_job) / used


def write_profile(profile: Profile, path: Path | str, *, force: bool = False) -> None:
    """Write a profile to a file."""
    write_new(Path(path), profile.to_bytes(), force=force)


def read_profile(path: Path | str) -> Profile:
    """Read a profile; one that is damaged, has gaps or too few samples is refused."""
    try:
        return profile_of(Trace.from_bytes(read_content(Path(path), _MOST_BYTES)))
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}; check the path") from None
    except ValueError as error:
        raise DatasetError(
            f"{path} is not a profile of a job: {error}. foretell corun profile makes one."
        ) from None


def profile_of(trace: Trace) -> Profile:
    """Return the profile that a trace holds; raise a ValueError if it holds none."""
    about = trace.about
    if about.get("profile") != 1:
        raise ValueError("its header does not say that it is one")
    kernel_time_s = _number({"kernel_time_s": 0.0, **about}, "kernel_time_s", least=0.0)
    needed = (*_COLUMNS, *((OTHERS,) if kernel_time_s else ()))
    missing = [name for name in needed if name not in trace.columns]
    if missing:
        raise ValueError(f"it has no column '{missing[0]}'")
    wall_s = _number(about, "wall_time_s")
    check_samples(trace, wall_s)
    command, name = about.get("command"), about.get("name")
    if not (isinstance(command, list) and all(isinstance(word, str) for word in command)):
        raise ValueError("its command must be a list of texts")
    if not isinstance(name, str):
        raise ValueError("it does not say which job it is of")
    rate = about.get("compute_rate")
    return Profile(
        name, tuple(command), Trace(trace.times_s, trace.columns), wall_s,
        about.get("is_endless") is True, _number(about, "bandwidth", least=0.0),
        facts_of(about.get("machine")),
        None if rate is None else _number(about, "compute_rate"),
        _number(about, "disturbed", least=0.0), _number(about, "overhead", least=0.0),
        kernel_time_s, _number({"throttled": 0.0, **about}, "throttled", least=0.0),
    )  # fmt: skip


def _number(about: Mapping[str, Any], name: str, least: float = 1e-6) -> float:
    value = about.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and least <= float(str(value)) < 1e18:
        return float(str(value))
    raise ValueError(f"its {name} cannot be {str(value)[:40]}")


def check_samples(trace: Trace, wall_s: float) -> None:
    """Raise a ValueError if samples are too few, have gaps, or values that cannot be."""
    if len(trace) < LEAST_SAMPLES:
        raise ValueError(f"it has {len(trace)} samples, and {LEAST_SAMPLES} are needed")
    for name in (*_COLUMNS, *({PAUSE, OTHERS, SWITCHES} & trace.columns.keys())):
        values = trace.columns[name]
        if not np.isfinite(values).all() or (values < 0).any() or values.max() > 1e18:
            raise ValueError(f"its column '{name}' has values that cannot be")
    if trace.times_s[0] < 0 or trace.times_s[-1] > wall_s + _LEAST_GAP_S:
        raise ValueError("its samples are not within the time of the job")
    _check_gaps(np.concatenate([[0.0], trace.times_s, [wall_s]]), trace.columns.get(PAUSE))


def _check_gaps(times: Array, pauses: Array | None) -> None:
    """Refuse samples that came much later than they were meant to.

    Parameters
    ----------
    pauses
        How long each sample had the next one wait: longer if a job has thousands of processes.
        Files without it have samples at equal intervals.
    """
    steps = np.diff(times)
    usual = np.full(len(steps), np.median(steps))
    if pauses is not None:
        usual[1:] = pauses
    late = steps - np.maximum(_MOST_GAP * usual, _LEAST_GAP_S)
    k = int(late.argmax())
    if late[k] > 0:
        raise ValueError(
            f"nothing was sampled for {steps[k]:.1f} s after {times[k]:.1f} s, where samples were "
            f"meant to be {usual[k]:.2f} s apart; profile the job again"
        )
