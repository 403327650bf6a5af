"""Co-runs as sequences: what two jobs do alone goes in, what they do together comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foretell.decide.corun.jobs import CPU, DISK, CoJob

if TYPE_CHECKING:
    from foretell.corun.models.cases import Case

Array = NDArray[np.float64]

#: Steps of the input, which span the sum of the times alone; the output spans that many times it.
STEPS, HORIZON = 32, 2
#: By step and job: cores, threads and disk; by step: what of the job is completed, and if it runs.
N_METRICS = 3
N_INPUTS = 2 * (N_METRICS + 2)
N_OUTPUTS = N_METRICS + 3  # metrics of both, two increments of completion, and the end of both


@dataclass(frozen=True, eq=False)
class Sequence:
    """One job beside its neighbors.

    Attributes
    ----------
    step_s
        The length of a step.
    inputs
        What the job and its neighbors do alone.
    """

    step_s: float
    inputs: Array


@dataclass(frozen=True, eq=False)
class Target:
    """What was measured: metrics of all jobs, completion of the job and of the others, in steps.

    Attributes
    ----------
    ends
        When the job and the last of its neighbors end, in steps.
    """

    metrics: Array
    completion: Array
    ends: tuple[float, float]


def sequence_of(case: Case, k: int) -> Sequence:
    """Return a job of a co-run with its neighbors added up, as the model reads it."""
    own = case.jobs[k]
    others = [job for i, job in enumerate(case.jobs) if i != k]
    total_s = sum(case.alone_s(i) for i in range(len(case.jobs)))
    step_s = total_s / STEPS
    begin = min(job.start_s for job in case.jobs)
    times: Array = begin + step_s * (np.arange(STEPS, dtype=np.float64) + 0.5)
    parts = [_alone(own, times), np.sum([_alone(job, times) for job in others], axis=0)]
    columns = []
    for jobs, part in zip(([own], others), parts, strict=True):
        done = np.max([_completed(job, times) for job in jobs], axis=0)
        alive = np.max([_alive(job, times) for job in jobs], axis=0)
        columns += [np.log1p(part), done[:, None], alive[:, None]]
    return Sequence(step_s, np.concatenate(columns, axis=1))


def _alone(job: CoJob, times: Array) -> Array:
    """Return cores, threads and disk of a job alone at some times; zero before and after it."""
    found = np.zeros((len(times), N_METRICS))
    at = job.start_s - job.progress * job.job.alone_s
    for phase in job.job.phases:
        inside = (times >= max(at, job.start_s)) & (times < at + phase.seconds)
        found[inside] = [phase.needs.get(CPU, 0.0), phase.threads, phase.needs.get(DISK, 0.0)]
        at += phase.seconds
    return found


def _completed(job: CoJob, times: Array) -> Array:
    """Return the share of a job that is completed alone: 100·t/N of the notes, divided by 100."""
    began = job.start_s - job.progress * job.job.alone_s
    done: Array = np.clip((times - began) / job.job.alone_s, 0.0, 1.0)
    return np.where(times < job.start_s, job.progress, done)


def _alive(job: CoJob, times: Array) -> Array:
    end = job.start_s + (1 - job.progress) * job.job.alone_s
    alive: Array = ((times >= job.start_s) & (times < end)).astype(float)
    return alive


def target_of(case: Case, k: int) -> Target:
    """Return what was measured of a job and its neighbors, on the steps of its sequence."""
    sequence = sequence_of(case, k)
    begin = min(job.start_s for job in case.jobs)
    steps = np.arange(1, HORIZON * STEPS + 1, dtype=np.float64)
    times: Array = begin + sequence.step_s * steps
    completion, ends = [], []
    others = [i for i in range(len(case.jobs)) if i != k]
    for jobs in ([k], others):
        own = [_progress(case, i, times) for i in jobs]
        completion.append(np.min(own, axis=0))
        last = max(case.jobs[i].start_s + case.walls_s[i] for i in jobs)
        ends.append((last - begin) / sequence.step_s)
    return Target(_metrics(case, times), np.array(completion).T, (ends[0], ends[1]))


def _progress(case: Case, k: int, times: Array) -> Array:
    job, wall_s = case.jobs[k], case.walls_s[k]
    share: Array = np.clip((times - job.start_s) / wall_s, 0.0, 1.0)
    return job.progress + (1 - job.progress) * share


def _metrics(case: Case, times: Array) -> Array:
    """Return what all jobs did together, by their needs at the pace at which they were measured."""
    found = np.zeros((len(times), N_METRICS))
    for k, job in enumerate(case.jobs):
        pace = case.alone_s(k) / case.walls_s[k]
        stretched = job.start_s + (times - job.start_s) * pace
        found += pace * _alone(job, np.where(times < job.start_s, times, stretched))
    return np.log1p(found)
