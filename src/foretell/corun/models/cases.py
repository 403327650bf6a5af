"""Cases: measured co-runs with the needs of their jobs, as models see them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from foretell.corun.calibration import RUNNING, SHIFTED
from foretell.corun.machine import Machine, chosen_machine
from foretell.corun.measuring.measure import DISTURBED, FAILED, PROFILES
from foretell.corun.measuring.set_file import ALONE, profile_name
from foretell.corun.measuring.table import MeasuredCoRun, read_co_runs
from foretell.corun.predict import on_one_machine
from foretell.corun.profile import Profile, read_profile
from foretell.decide.corun.fluid import CoRun, play_together
from foretell.decide.corun.jobs import CPU, Capacity, CoJob, JobNeeds, pinned
from foretell.errors import DatasetError


@dataclass(frozen=True)
class Case:
    """A co-run: what its jobs need, when they start, and how long they took.

    Attributes
    ----------
    kind
        Pair, shifted, triple, pinned, or running: what is left of a shifted pair at the second
        start, when the first job is known to have run alone until then.
    walls_s
        How long each job took from its start; of a running job, from the moment of the question.
    """

    key: str
    kind: str
    jobs: tuple[CoJob, ...]
    walls_s: tuple[float, ...]
    capacity: Capacity

    @property
    def programs(self) -> tuple[str, ...]:
        """The names of the programs."""
        return tuple(job.job.name for job in self.jobs)

    @cached_property
    def fluid(self) -> CoRun:
        """The co-run by the fluid model."""
        return play_together(self.jobs, self.capacity)

    def alone_s(self, k: int) -> float:
        """Return how long a job takes alone from its start."""
        return (1 - self.jobs[k].progress) * self.jobs[k].job.alone_s


@dataclass(frozen=True)
class Measurement:
    """A folder of measured co-runs, read.

    Attributes
    ----------
    cases
        Usable co-runs.
    disturbed
        Co-runs that others disturbed: no model is judged by them.
    n_left_out
        How many were not usable.
    skipped
        Programs that ran alone without leaving a profile, as they were too short.
    noise
        The mean relative deviation of repeats alone from their median: no model can be better.
    """

    profiles: dict[str, Profile]
    cases: tuple[Case, ...]
    disturbed: tuple[Case, ...]
    n_left_out: int
    skipped: tuple[str, ...]
    noise: float
    capacity: Capacity


def read_measurement(
    folder: Path | str, machine: Machine | Path | str | None = None
) -> Measurement:
    """Read a folder that `foretell corun measure` wrote."""
    runs = read_co_runs(folder)
    alone: dict[str, list[MeasuredCoRun]] = {}
    for run in runs:
        if run.kind == ALONE and run.status != FAILED:
            alone.setdefault(run.jobs[0].program, []).append(run)
    if not alone:
        raise DatasetError(f"{folder} has no program that ran alone; measure the set first")
    made = {name: _middle(Path(folder), name, own) for name, own in alone.items()}
    profiles = {name: profile for name, profile in made.items() if profile is not None}
    skipped = tuple(sorted(made.keys() - profiles.keys()))
    if not profiles:
        raise DatasetError(f"{folder} has no profile of any program; measure the set again")
    here = next(iter(profiles.values())).facts
    given = chosen_machine(machine)
    if machine is None and given is not None and not given.facts.is_like(here):
        given = None  # co-runs of another machine are judged by what they say of it
    found, capacity, _ = on_one_machine(list(profiles.values()), given, here)
    needs = dict(zip(profiles, found, strict=True))
    together = [run for run in runs if run.kind != ALONE]
    known = [r for r in together if not {job.program for job in r.jobs} & {*skipped}]
    usable = [run for run in known if run.is_usable]
    cases = _cases(usable, needs, capacity)
    disturbed = _cases([r for r in known if r.status == DISTURBED], needs, capacity)
    n_left_out = len(together) - len(usable)
    return Measurement(profiles, cases, disturbed, n_left_out, skipped, _noise(alone), capacity)


def _cases(
    runs: Sequence[MeasuredCoRun], needs: dict[str, JobNeeds], capacity: Capacity
) -> tuple[Case, ...]:
    """Return co-runs as models see them, and of shifted ones also what is left of them."""
    cases = [_case(run, needs, capacity) for run in runs]
    return (*cases, *(_running(case) for case in cases if case.kind == SHIFTED))


def _middle(folder: Path, name: str, runs: Sequence[MeasuredCoRun]) -> Profile | None:
    """Return the profile of the run alone of median time, of an undisturbed one if there is."""
    there = [r for r in runs if (folder / PROFILES / profile_name(name, r.repeat)).exists()]
    good = [run for run in there if run.is_usable] or there
    if not good:
        return None
    middle = sorted(good, key=lambda run: run.jobs[0].wall_s)[(len(good) - 1) // 2]
    file = profile_name(name, middle.repeat)
    return replace(read_profile(folder / PROFILES / file), name=name)


def _noise(alone: dict[str, list[MeasuredCoRun]]) -> float:
    deviations = []
    for runs in alone.values():
        times = sorted(run.jobs[0].wall_s for run in runs)
        middle = times[len(times) // 2]
        deviations += [abs(t / middle - 1) for t in times if len(times) > 1]
    return sum(deviations) / len(deviations) if deviations else math.nan


def _case(run: MeasuredCoRun, needs: dict[str, JobNeeds], capacity: Capacity) -> Case:
    unknown = [job.program for job in run.jobs if job.program not in needs]
    if unknown:
        raise DatasetError(f"'{unknown[0]}' of the run {run.key} has no run alone")
    jobs = [CoJob(needs[job.program], job.start_s) for job in run.jobs]
    if run.pin:
        layout = pinned([job.job.mean(CPU) for job in jobs], capacity.n_cores)[run.pin]
        jobs = [replace(job, cpus=cpus) for job, cpus in zip(jobs, layout, strict=True)]
    return Case(run.key, run.kind, tuple(jobs), tuple(job.wall_s for job in run.jobs), capacity)


def _running(case: Case) -> Case:
    """Return what is left of a shifted pair when the second job starts."""
    first, second = case.jobs
    progress = min(0.99, second.start_s / first.job.alone_s)
    jobs = (CoJob(first.job, 0.0, progress), CoJob(second.job))
    left_s = max(case.walls_s[0] - second.start_s, 1e-3)
    return Case(case.key, RUNNING, jobs, (left_s, case.walls_s[1]), case.capacity)
