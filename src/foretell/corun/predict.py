"""Predicting jobs that share a machine, for users: profiles in, when each job ends out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from foretell.corun.calibration import (
    CONFIDENCE,
    LEAST_ERRORS,
    Calibration,
    group_of,
    n_measured,
    shipped_calibration,
)
from foretell.corun.facts import MachineFacts, machine_facts, usable_cpus
from foretell.corun.machine import Machine, chosen_machine
from foretell.corun.models.features import features
from foretell.corun.models.fitted import FittedCoRuns, read_fitted
from foretell.corun.profile import Profile, read_profile
from foretell.corun.text import together_text
from foretell.decide.corun.fluid import CoRun, play_together
from foretell.decide.corun.jobs import CPU, PINS, Capacity, CoJob, JobNeeds, pinned
from foretell.errors import NothingUsableError, Option, UsageError, suggest
from foretell.spaces.quantities import TIME, read_quantity
from foretell.wording import counted, number

_GIB = 2.0**30
#: From which relative difference on it is told what the session of a job changes.
_TOLD_SESSION = 0.05


@dataclass(frozen=True)
class JobEnd:
    """When one job ends.

    Attributes
    ----------
    end_s, lower_s, upper_s
        The end beside the others, with the ends of its interval; infinite for a job without end.
    alone_s
        When it would end alone, with the same start and progress.
    in_turn_s
        When it ends if the jobs run one after the other.
    cpus
        The CPUs of this machine that it is pinned to; empty if the system decides, or if the
        prediction is for another machine.
    waits_s
        For how long it waits for what.
    """

    name: str
    start_s: float
    end_s: float
    lower_s: float
    upper_s: float
    alone_s: float
    in_turn_s: float
    cpus: tuple[int, ...] = ()
    waits_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def slowdown(self) -> float:
        """How many times longer it takes than alone."""
        return (self.end_s - self.start_s) / (self.alone_s - self.start_s)


@dataclass(frozen=True, eq=False)
class Together:
    """Jobs that share a machine: when each ends, and what they wait for.

    Attributes
    ----------
    contended
        What jobs wait for, from when to when, and their names.
    co_run
        What happens over time, by the model.
    notes
        What to know about the figures.
    """

    jobs: tuple[JobEnd, ...]
    contended: tuple[tuple[str, float, float, tuple[str, ...]], ...]
    co_run: CoRun
    calibration: Calibration | None
    notes: tuple[str, ...]

    @property
    def last_end_s(self) -> float:
        """When the last job that has an end ends."""
        return max(job.end_s for job in self.jobs if math.isfinite(job.end_s))

    def __getitem__(self, name: str) -> JobEnd:
        names = [job.name for job in self.jobs]
        if name not in names:
            raise UsageError(f"there is no job '{name}'. {suggest(name, names)}")
        return self.jobs[names.index(name)]

    def to_json(self) -> dict[str, Any]:
        """Return plain values; null stands for a job without end, and where no interval is."""
        return {
            "jobs": [self._job_json(job) for job in self.jobs],
            "slowdowns": {job.name: _finite(job.slowdown) for job in self.jobs},
            "contended": [
                {"resource": r, "from_s": a, "to_s": b, "jobs": list(names)}
                for r, a, b, names in self.contended
            ],
            "confidence": None if self.calibration is None else CONFIDENCE,
            "notes": list(self.notes),
        }

    def _job_json(self, job: JobEnd) -> dict[str, Any]:
        found = {n: _finite(v) for n, v in vars(job).items()} | {"cpus": list(job.cpus)}
        return found if self.calibration is not None else found | {"lower_s": None, "upper_s": None}

    def __str__(self) -> str:
        return together_text(self)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def predict_together(
    jobs: Sequence[Profile | Path | str],
    *,
    starts: Mapping[str, str | float] | None = None,
    running: Mapping[str, str | float] | None = None,
    pin: str | None = None,
    one_session: bool = False,
    machine: Machine | Path | str | None = None,
    model: FittedCoRuns | Path | str | None = None,
) -> Together:
    """Predict when jobs end that share a machine.

    Parameters
    ----------
    jobs
        Profiles of the jobs alone, or their files; a file gives the job its name.
    starts
        When jobs start that do not start at once: ``{"b": "30s"}``.
    running
        The share of their work that running jobs have done: ``{"a": 0.4}``.
    pin
        ``"packed"`` has all jobs share as many cores as one of them keeps busy on average,
        ``"spread"`` gives each cores of its own; by default the system decides.
    one_session
        Whether one session starts all jobs, as one shell does: Linux then shares CPU time by
        thread. By default each job has a session of its own.
    machine
        What was measured of the machine, or its file; by default that of this user, if it fits.
    model
        What was learned from measured co-runs, or its file; by default nothing, and intervals are
        as wide as the errors of foretell's own study.

    >>> predict_together(["a.profile", "b.profile"], starts={"b": "30s"})  # doctest: +SKIP
    """
    profiles = _named(jobs)
    known = chosen_machine(machine)
    needs, capacity, notes = on_one_machine(list(profiles.values()), known)
    co_jobs = _co_jobs(list(profiles), needs, _times(profiles, starts), _shares(profiles, running))
    if pin is not None:
        co_jobs = _pinned(co_jobs, pin, capacity)
    by_thread = replace(capacity, thread_power=1.0)
    if one_session:
        capacity = by_thread
    else:
        notes += _session_notes(co_jobs, capacity, by_thread)
    learned = read_fitted(model) if isinstance(model, str | Path) else model
    here = machine_facts() if known is None else known.facts
    if learned is not None and not learned.facts.is_like(here):
        notes.append(
            f"the model was learned on another machine ({learned.facts}), so its intervals may not "
            f"hold for this one ({here})"
        )
    cpus = usable_cpus() if here.is_like(machine_facts()) else ()
    return _together(co_jobs, capacity, notes, learned, cpus)


def slowdown(
    job: Profile | Path | str,
    neighbors: Sequence[Profile | Path | str],
    *,
    machine: Machine | Path | str | None = None,
) -> float:
    """Return how many times longer a job takes while some neighbors run on its machine."""
    profiles = list(_named([job, *neighbors]).values())
    needs, capacity, _ = on_one_machine(profiles, chosen_machine(machine))
    _check_memory(needs, capacity)
    return slowdown_beside(needs[0], needs[1:], capacity)


def slowdown_beside(job: JobNeeds, neighbors: Sequence[JobNeeds], capacity: Capacity) -> float:
    """Return how many times longer a job takes while its neighbors load the machine steadily."""
    own = replace(job, is_endless=False)
    others = [CoJob(neighbor.steady()) for neighbor in neighbors]
    return play_together([CoJob(own), *others], capacity).ends_s[0] / own.alone_s


def on_one_machine(
    profiles: Sequence[Profile], machine: Machine | None, here: MachineFacts | None = None
) -> tuple[list[JobNeeds], Capacity, list[str]]:
    """Return what jobs need on one machine, what it has, and notes; refuse profiles of others.

    Parameters
    ----------
    here
        Which machine it is where none was measured; by default this one.
    """
    if not profiles:
        raise UsageError("a prediction needs the profile of at least one job")
    first = {id(profile.trace): profile for profile in reversed(profiles)}  # copies share samples
    notes = [note for profile in reversed(first.values()) for note in profile.notes()]
    if machine is None:
        notes.append(
            "disk and memory bandwidth are taken to be enough for all, and CPU time to be shared "
            "by threads; foretell corun machine measures what this machine has"
        )
        facts = here or machine_facts()
        capacity = Capacity(facts.n_usable, facts.most_memory)
    else:
        facts, capacity = machine.facts, machine.capacity()
        notes += machine.notes()
    needs = []
    for profile in profiles:
        speed = 1.0
        if not profile.facts.is_like(facts):
            speed = _speed(profile, machine, facts)
            if first[id(profile.trace)] is profile:
                notes.append(
                    f"'{profile.name}' ran on another machine; its times are scaled by the speed "
                    f"of one core ({speed:.2f} times), so the prediction is far from what was "
                    "measured"
                )
        needs.append(profile.needs(capacity.n_cores, speed=speed).within(capacity))
    return needs, capacity, notes


def _speed(profile: Profile, machine: Machine | None, here: MachineFacts) -> float:
    if machine is None or profile.compute_rate is None:
        raise UsageError(
            f"'{profile.name}' was profiled on another machine ({profile.facts}) than the one to "
            f"predict for ({here}); profile it there, or measure both machines with foretell corun "
            "machine before profiling"
        )
    return machine.compute_rate / profile.compute_rate


def _named(jobs: Sequence[Profile | Path | str]) -> dict[str, Profile]:
    found: dict[str, Profile] = {}
    for job in jobs:
        profile = job if isinstance(job, Profile) else read_profile(job)
        name = profile.name if isinstance(job, Profile) else Path(job).stem
        unique, k = name, 1
        while unique in found:
            k += 1
            unique = f"{name}-{k}"
        found[unique] = replace(profile, name=unique)
    return found


def _of_jobs(
    names: Mapping[str, Any], given: Mapping[str, str | float] | None, option: str
) -> dict[str, str | float]:
    for name in given or {}:
        if name not in names:
            raise UsageError(
                f"there is no job '{name}'. {suggest(name, names)}", option=Option(option, key=name)
            )
    return dict(given or {})


def _times(names: Mapping[str, Any], starts: Mapping[str, str | float] | None) -> dict[str, float]:
    found = {}
    for name, value in _of_jobs(names, starts, "start").items():
        text = value.lstrip("+") if isinstance(value, str) else value
        try:
            is_zero = float(text) == 0
        except ValueError:
            is_zero = text == "0s"
        try:
            found[name] = 0.0 if is_zero else read_quantity(text, TIME)
        except UsageError as error:
            raise UsageError(error.text, option=Option("start", key=name)) from None
    return found


def _shares(
    names: Mapping[str, Any], running: Mapping[str, str | float] | None
) -> dict[str, float]:
    found = {}
    for name, value in _of_jobs(names, running, "running").items():
        text = str(value)
        try:
            share = float(text.rstrip("%")) / (100.0 if text.endswith("%") else 1.0)
        except ValueError:
            share = math.nan
        if not 0 <= share < 1:
            raise UsageError(
                f"'{value}' is not the share of its work that a job has done; write 40% or 0.4",
                option=Option("running", key=name),
            )
        found[name] = share
    return found


def _co_jobs(
    names: Sequence[str],
    needs: Sequence[JobNeeds],
    starts: Mapping[str, float],
    shares: Mapping[str, float],
) -> list[CoJob]:
    for name in starts.keys() & shares.keys():
        if starts[name] > 0:
            raise UsageError(
                f"'{name}' cannot be running already and start later",
                option=Option("start", key=name),
            )
    return [
        CoJob(need, starts.get(name, 0.0), shares.get(name, 0.0))
        for name, need in zip(names, needs, strict=True)
    ]


def _pinned(jobs: Sequence[CoJob], pin: str, capacity: Capacity) -> list[CoJob]:
    if pin not in PINS:
        raise UsageError(
            f"there is no layout '{pin}'. {suggest(pin, PINS)}", option=Option("pin", pin)
        )
    layout = pinned([job.job.mean(CPU) for job in jobs], capacity.n_cores)[pin]
    return [replace(job, cpus=cpus) for job, cpus in zip(jobs, layout, strict=True)]


def _together(
    jobs: Sequence[CoJob],
    capacity: Capacity,
    notes: list[str],
    learned: FittedCoRuns | None,
    cpus: Sequence[int],
) -> Together:
    co_run = play_together(jobs, capacity)
    for stretch in co_run.stretches:
        at_once = [job.job for job, s in zip(jobs, stretch.speeds, strict=True) if s > 0]
        _check_memory(at_once, capacity)
    names = [job.job.name for job in jobs]
    alone = [_alone_end(job) for job in jobs]
    in_turn = _in_turn(jobs)
    calibration = shipped_calibration() if learned is None else learned.calibration
    if len(jobs) == 1:  # errors are those of co-runs, and say nothing of a job alone
        calibration = None
    if calibration is not None:
        notes = [*notes, *_notes_on_intervals(jobs, calibration, is_own=learned is not None)]
    low, high = (1.0, 1.0) if calibration is None else calibration.factors(group_of(jobs))
    factors = _factors(jobs, co_run, capacity, learned)
    told = [
        job.start_s + max(factor * (end - job.start_s), a - job.start_s)
        for job, end, factor, a in zip(jobs, co_run.ends_s, factors, alone, strict=True)
    ]
    contended = tuple(
        (resource, start, end, tuple(names[k] for k in sorted(who)))
        for resource, start, end, who in co_run.contended()
    )
    ends = tuple(
        JobEnd(
            name, job.start_s, end, job.start_s + low * (end - job.start_s),
            job.start_s + high * (end - job.start_s), a, t,
            tuple(cpus[k] for k in sorted(job.cpus or ()) if cpus), _waits(name, contended),
        )
        for name, job, end, a, t in zip(names, jobs, told, alone, in_turn, strict=True)
    )  # fmt: skip
    if not any(math.isfinite(job.end_s) for job in ends):
        raise UsageError(
            "all of these jobs run without end, so none of them has an end to predict; add a job "
            "that ends"
        )
    return Together(ends, contended, co_run, calibration, tuple(dict.fromkeys(notes)))


def _waits(
    name: str, contended: Sequence[tuple[str, float, float, tuple[str, ...]]]
) -> dict[str, float]:
    """Return for how long a job waits for what."""
    found: dict[str, float] = {}
    for resource, start_s, end_s, names in contended:
        if name in names:
            found[resource] = found.get(resource, 0.0) + end_s - start_s
    return found


def _notes_on_intervals(
    jobs: Sequence[CoJob], calibration: Calibration, *, is_own: bool
) -> list[str]:
    """Return where the errors were measured, unless that is the user's own, and what they lack."""
    notes = [] if is_own else [f"intervals are as wide as the errors of {calibration.source}"]
    if calibration.n_errors < LEAST_ERRORS:
        notes.append(
            f"intervals rest on {counted(calibration.n_errors, 'error')}, and 90 % take "
            f"{LEAST_ERRORS} or more: they may be too narrow; measure more co-runs"
        )
    most = n_measured(group_of(jobs))
    if len(jobs) > most:
        notes.append(
            f"no more than {most} such jobs were measured together, so the intervals of "
            f"{len(jobs)} may be too narrow"
        )
    return notes


def _session_notes(jobs: Sequence[CoJob], capacity: Capacity, by_thread: Capacity) -> list[str]:
    """Say so if it matters whether jobs have sessions of their own, as this machine tells apart."""
    if capacity.thread_power >= by_thread.thread_power:
        return []
    own, one = (play_together(jobs, c).ends_s for c in (capacity, by_thread))
    off = [math.log((b - job.start_s) / (a - job.start_s))
           if math.isfinite(a) else 0.0
           for job, a, b in zip(jobs, own, one, strict=True)]  # fmt: skip
    k = max(range(len(jobs)), key=lambda j: abs(off[j]))
    if abs(off[k]) < _TOLD_SESSION:
        return []
    return [
        "each job is taken to have a session or a container of its own; where one shell starts "
        f"all, CPU time is shared by thread, and {jobs[k].job.name} takes "
        f"{number(math.exp(off[k]), 3)} times as long: predict that as one session"
    ]


def _factors(
    jobs: Sequence[CoJob], co_run: CoRun, capacity: Capacity, learned: FittedCoRuns | None
) -> list[float]:
    """Return what was learned beyond the fluid model, as a factor on the time of each job."""
    logs = [0.0] * len(jobs)
    if learned is None or len(jobs) == 1:
        return [1.0] * len(jobs)
    group = group_of(jobs)
    if learned.residual is not None and group in learned.residual_kinds:
        residual = learned.residual
        logs = [
            0.0 if job.job.is_endless else residual.log_factor(features(jobs, co_run, k))
            for k, job in enumerate(jobs)
        ]
    has_end = not any(job.job.is_endless for job in jobs)
    w = learned.gru_weights.get(group, 0.0)
    if w > 0 and learned.network is not None and has_end:
        from foretell.corun.models.cases import Case
        from foretell.corun.models.gru.model import GruModel

        times = GruModel.of(learned.network).predict(Case("", "", tuple(jobs), (), capacity))
        for k, (job, end, time_s) in enumerate(zip(jobs, co_run.ends_s, times, strict=True)):
            logs[k] = (1 - w) * logs[k] + w * math.log(time_s / (end - job.start_s))
    return [math.exp(value) for value in logs]


def _alone_end(job: CoJob) -> float:
    if job.job.is_endless:
        return math.inf
    return job.start_s + (1 - job.progress) * job.job.alone_s


def _in_turn(jobs: Sequence[CoJob]) -> list[float]:
    """Return when each job ends if they run one after the other, in the order of their starts."""
    ends = [math.inf] * len(jobs)
    free = 0.0
    order = sorted(range(len(jobs)), key=lambda k: (jobs[k].start_s, -jobs[k].progress))
    for k in order:
        if not jobs[k].job.is_endless:
            free = max(free, jobs[k].start_s) + (1 - jobs[k].progress) * jobs[k].job.alone_s
            ends[k] = free
    return ends


def _check_memory(jobs: Sequence[JobNeeds], capacity: Capacity) -> None:
    """Refuse jobs that do not fit into memory at the same time: swapping has no fluid model."""
    total = sum(job.memory_bytes for job in jobs)
    if total <= capacity.memory_bytes:
        return
    names = " and ".join(f"'{job.name}'" for job in jobs)
    sizes = (
        f"hold up to {total / _GIB:.1f} GiB, and the machine has "
        f"{capacity.memory_bytes / _GIB:.1f}. No time is predicted"
    )
    raise NothingUsableError(
        f"{names} does not fit into memory: its processes {sizes}; run it on a machine "
        "with more memory." if len(jobs) == 1 else
        f"{names} do not fit into memory together: they {sizes}; run them one after the "
        "other, or on two machines."
    )  # fmt: skip
