"""How true and how fast predictions of queues are, against simulations and other people's tools.

    python -m benchmarks.queue [--systems 32] [--jobs 200000] [--only NAME]

Every figure of a queue is computed by formula and *simulated*; speed is measured here. Random
systems have 2 to 4 classes, loads of 0.3 to 0.95, and times from constants to twice the spread of
exponential ones. Others have arrivals of Markov processes with 2 to 4 states (MMAP). `ciw` plays
some as well, and `simpy` plays the very jobs of some, with Poisson arrivals and in bursts: then
every single response must be the same. BuTools is compared in
`tests/decide/queueing/disciplines/test_butools.py`, where line-solver is installed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tests.simulate.queue_oracles import mean_responses_in_ciw, play_in_simpy

from foretell.decide.queueing.disciplines import DISCIPLINES
from foretell.decide.queueing.marked.disciplines import MARKED
from foretell.decide.queueing.predict import QueueFigures, queue_figures
from foretell.decide.queueing.queue_file import read_queue
from foretell.decide.queueing.service.fitted import fitted_time
from foretell.decide.queueing.stability import largest_factor
from foretell.decide.queueing.streams import Stream
from foretell.decide.queueing.times import streams_of
from foretell.simulate.batch_means import Estimate, batch_mean
from foretell.simulate.job_arrivals import Arrivals, MarkedArrivals, PoissonArrivals
from foretell.simulate.queue import PlayedClass, PlayedQueue, play_queue

SCVS = (0.0, 0.03, 0.2, 0.5, 1.0, 2.0)
#: How often repeated jobs are interrupted, over the rate at which the longest of them end. From a
#: quarter on, the fourth moment of their times is infinite, and intervals of a mean are too short.
MOST_INTERRUPTED = 0.2
_FAR = 0.01  # beyond an interval
_LEAST_JOBS = 4_000  # of a class, for an interval that can be trusted


def random_system(seed: int, discipline: str) -> list[Stream]:
    """Return random classes, whose load with this discipline is random as well."""
    random = np.random.default_rng([14, seed])
    n = int(random.integers(2, 5))
    load = float(random.uniform(0.3, 0.95))
    means = random.uniform(0.5, 2.0, n) * np.geomspace(3.0, 1.0, n)
    scvs = random.choice(SCVS, n)
    shares = random.dirichlet(np.full(n, 5.0))
    streams = [
        Stream(f"class {k}", float(shares[k] / means[k]), fitted_time(means[k], float(scvs[k])))
        for k in range(n)
    ]
    factor = load * largest_factor(discipline, streams)
    streams = [replace(s, rate_per_s=factor * s.rate_per_s) for s in streams]
    return _seldom_interrupted(streams, load) if discipline == "repeat" else streams


def _seldom_interrupted(streams: Sequence[Stream], load: float) -> list[Stream]:
    """Lower the rates of higher classes until long jobs get through; the lowest fills the load."""
    kept: list[Stream] = [streams[-1]]
    for stream in reversed(streams[:-1]):
        most = MOST_INTERRUPTED * min(stream.service.decay_rate, 2 / stream.service.mean)
        factor = min(1.0, most / sum(s.rate_per_s for s in kept))
        kept = [stream, *(replace(s, rate_per_s=factor * s.rate_per_s) for s in kept)]
    found = DISCIPLINES.get("repeat")(kept)
    own = kept[0].rate_per_s * found.gross_s(0)
    rate = kept[0].rate_per_s * max(0.05, load - found.load + own) / own
    return [replace(kept[0], rate_per_s=rate), *kept[1:]]


@dataclass(frozen=True)
class Gap:
    """How far the formulas of one class are from a simulation.

    Attributes
    ----------
    mean
        By how much the mean is outside the 95 % interval, relative to it.
    p95
        By how much the share of simulated jobs up to the predicted p95 differs from 95 %.
    p95_beyond
        The same beyond the 95 % interval of that share.
    """

    mean: float
    p95: float
    p95_beyond: float


def random_bursts(seed: int) -> tuple[list[Stream], list[NDArray[np.float64]]]:
    """Return random classes of a random Markov process, and its matrices."""
    random = np.random.default_rng([15, seed])
    n, m = int(random.integers(2, 5)), int(random.integers(2, 5))
    matrices = [random.exponential(1, (m, m)) * (random.random((m, m)) < 0.6) for _ in range(n)]
    matrices = [matrix + 0.1 * np.eye(m) for matrix in matrices]  # no class without a job
    silent = random.exponential(0.1, (m, m)) * (1 - np.eye(m))
    silent -= np.diag((silent + sum(matrices)).sum(axis=1))
    services = [
        fitted_time(mean, float(random.choice(SCVS)))
        for mean in random.uniform(0.5, 2.0, n) * np.geomspace(3.0, 1.0, n)
    ]
    rates = MarkedArrivals((silent, *matrices)).rates_per_s
    load = sum(rate * service.mean for rate, service in zip(rates, services, strict=True))
    factor = float(random.uniform(0.3, 0.95)) / load
    streams = [
        Stream(f"class {k}", factor * float(rate), service)
        for k, (rate, service) in enumerate(zip(rates, services, strict=True))
    ]
    return streams, [factor * matrix for matrix in (silent, *matrices)]


Matrices = Sequence[NDArray[np.float64]]


def gaps(
    streams: Sequence[Stream], discipline: str, n_jobs: int, seed: int, matrices: Matrices = ()
) -> list[Gap]:
    """Compare with one simulation; where that is far off, with the mean of eight others.

    In one of twenty cases the truth is outside of a 95 % interval, and intervals of loaded queues
    are wide. A formula that is wrong is wrong every time.
    """
    classes = [PlayedClass(s.name, s.rate_per_s, s.service) for s in streams]
    arrivals = MarkedArrivals(tuple(matrices)) if matrices else None
    figures = queue_figures(discipline, streams, matrices=matrices)

    def played(seed: int) -> PlayedQueue:
        return play_queue(classes, discipline, arrivals=arrivals, n_jobs=n_jobs, seed=seed)

    found = _gaps(figures, [played(seed)])
    if all(gap.mean <= _FAR and gap.p95_beyond <= _FAR / 2 for gap in found):
        return found
    return _gaps(figures, [played(1000 + 8 * seed + i) for i in range(8)])


def _gaps(predicted: QueueFigures, played: Sequence[PlayedQueue]) -> list[Gap]:
    found = []
    for figures in predicted.classes:
        # Where times have a jump at the p95, its two ends count.
        parts = [p.responses_of(figures.name) for p in played]
        mean = _pooled(parts)
        low, high = (
            _pooled([(part <= f * figures.p95_s).astype(float) for part in parts])
            for f in (0.998, 1.002)
        )
        beyond = max(mean.lower - figures.mean_s, figures.mean_s - mean.upper, 0.0)
        off = max(low.value - 0.95, 0.95 - high.value, 0.0)
        p95_beyond = max(low.lower - 0.95, 0.95 - high.upper, 0.0)
        found.append(Gap(beyond / mean.value, off, p95_beyond))
    return found


def _pooled(parts: Sequence[NDArray[np.float64]]) -> Estimate:
    """Estimate a mean from one play, or from the means of long batches of several."""
    if len(parts) == 1:
        return batch_mean(parts[0])
    means = [[batch.mean() for batch in np.array_split(part, 200)] for part in parts]
    return batch_mean(np.concatenate(means))


def systems(n_systems: int, n_jobs: int) -> None:
    """Compare all disciplines with our simulation on random systems."""
    _print_heads(f"{n_systems} random systems", n_jobs)
    for discipline in DISCIPLINES.names():
        _print_row(
            discipline,
            [
                gap
                for seed in range(n_systems)
                for gap in gaps(random_system(seed, discipline), discipline, n_jobs, seed)
            ],
        )


def bursts(n_systems: int, n_jobs: int) -> None:
    """Compare the formulas for bursts with our simulation on random systems."""
    _print_heads(f"{n_systems} random systems with arrivals in bursts (MMAP)", n_jobs)
    for discipline in MARKED:
        drawn = (random_bursts(seed) for seed in range(n_systems))
        _print_row(
            discipline,
            [
                gap
                for seed, (streams, matrices) in enumerate(drawn)
                for gap in gaps(streams, discipline, n_jobs, seed, matrices)
            ],
        )


def _print_heads(systems: str, n_jobs: int) -> None:
    print(f"{systems}, {n_jobs:,} jobs each, simulated; where that is far off, eight times again")
    print("                          beyond the 95 % interval, worst       off, mean")
    print("discipline       classes     mean    share of jobs up to p95    share up to p95")


def _print_row(discipline: str, found: Sequence[Gap]) -> None:
    worst, off = max(g.mean for g in found), np.mean([g.p95 for g in found])
    beyond = max(g.p95_beyond for g in found)
    print(f"{discipline:16} {len(found):7}  {worst:7.2%}    {beyond:.4f} {off:30.4f}", flush=True)


def against_ciw(n_systems: int, n_jobs: int) -> None:
    """Compare means with ciw on systems of exponential times."""
    print(f"{n_systems} systems of exponential times, {n_jobs:,} jobs each, simulated by ciw")
    for discipline in DISCIPLINES.names():
        worst = max(_beyond_ciw(seed, n_systems, discipline, n_jobs) for seed in range(n_systems))
        print(f"{discipline:16} means at most {worst:.2%} beyond the 95 % interval", flush=True)


def _beyond_ciw(seed: int, n_systems: int, discipline: str, n_jobs: int) -> float:
    """Return how far a mean is outside of its interval at most; where it is far, with other jobs.

    Of so many intervals, some do not have the truth in them.
    """
    drawn = random_system(seed, "repeat")
    streams = [replace(s, service=fitted_time(s.service.mean, 1.0)) for s in drawn]
    streams = _seldom_interrupted(streams, 0.3 + 0.5 * seed / n_systems)
    pairs = [(s.rate_per_s, s.service.mean) for s in streams]
    figures = queue_figures(discipline, streams).classes
    worst = 0.0
    for again in (seed, 1000 + seed, 2000 + seed):
        worst = 0.0
        played = mean_responses_in_ciw(pairs, discipline, n_jobs=n_jobs, seed=again)
        for c, responses in zip(figures, played, strict=True):
            if len(responses) < _LEAST_JOBS:
                continue
            means = np.array([part.mean() for part in np.array_split(responses, 20)])
            half = 2.093 * means.std(ddof=1) / np.sqrt(20)
            beyond = max(abs(c.mean_s - responses.mean()) - half, 0.0)
            worst = max(worst, beyond / responses.mean())
        if worst <= _FAR:
            break
    return worst


def against_simpy(n_systems: int, n_jobs: int) -> None:
    """Play the same jobs with simpy, Poisson and in bursts; all responses must be the same."""
    worst = 0.0
    for seed in range(n_systems):
        for discipline in ("non-preemptive", "resume", "repeat"):
            streams = random_system(seed, discipline)
            worst = max(worst, *(
                _replayed(streams, arrivals, discipline, n_jobs, seed)
                for arrivals in (_poisson(streams), _bursts(streams))
            ))  # fmt: skip
    print(
        f"{6 * n_systems} systems of {n_jobs:,} jobs, half of them in bursts (MMAP), played by "
        f"simpy as well: responses differ by at most {worst:.1e}"
    )


def _poisson(streams: Sequence[Stream]) -> Arrivals:
    return PoissonArrivals(tuple(s.rate_per_s for s in streams))


def _bursts(streams: Sequence[Stream]) -> Arrivals:
    """Return arrivals that come three times as fast, a third of the time."""
    into, out = 0.01, 0.02
    fast = [np.array([[3 * s.rate_per_s, 0.0], [0.0, 0.0]]) for s in streams]
    total = sum(3 * s.rate_per_s for s in streams)
    still = np.array([[-out - total, out], [into, -into]])
    return MarkedArrivals((still, *fast))


def _replayed(
    streams: Sequence[Stream], arrivals: Arrivals, discipline: str, n_jobs: int, seed: int
) -> float:
    """Return the largest relative difference of any response."""
    jobs = arrivals.draw(np.random.default_rng([seed, 1]), n_jobs)
    sizes = np.zeros(n_jobs)
    for k, stream in enumerate(streams):
        own = jobs.class_of == k
        sizes[own] = stream.service.draw(np.random.default_rng([seed, 2, k]), int(own.sum()))
    classes = [PlayedClass(s.name, s.rate_per_s, s.service) for s in streams]
    known = replace(jobs, service_s=sizes)
    ours = play_queue(classes, discipline, arrivals=known, n_jobs=n_jobs, seed=seed).end_s
    theirs = play_in_simpy(jobs.at_s, jobs.class_of, sizes, discipline=discipline)
    return float(np.max(np.abs(ours - theirs) / (theirs - jobs.at_s)))


def speed() -> None:
    """Time the prediction of two classes of 72 phases each."""
    job = {
        "tasks": 50, "map_s": 35, "map_scv": 1, "overhead_s": 8, "shuffle_s": 2,
        "reduce_tasks": 20, "reduce_s": 1, "reduce_scv": 1,
    }  # fmt: skip
    classes = [
        {"name": "low", "rate_per_min": 0.2, **job}, {"name": "high", "rate_per_min": 0.03, **job}
    ]  # fmt: skip
    queue = read_queue({"slots": 20, "class": classes})
    for discipline in DISCIPLINES.names():
        took = []
        for _ in range(5):
            streams = streams_of(queue, {})  # nothing is kept from the time before
            start = time.process_time()
            queue_figures(discipline, streams)
            took.append(time.process_time() - start)
        phases = sum(len(p.each_rate) for part in streams[0].service.parts for p in part)
        print(
            f"{discipline:16} 2 classes of {phases} phases, mean, p50, p95 and p99: "
            f"{1000 * np.median(took):.0f} ms of CPU"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--only")
    given = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {
        "systems": lambda: systems(given.systems, given.jobs),
        "bursts": lambda: bursts(given.systems, given.jobs),
        "ciw": lambda: against_ciw(max(30, given.systems), min(given.jobs, 30_000)),
        "simpy": lambda: against_simpy(6, min(given.jobs, 4_000)),
        "speed": speed,
    }
    for name, part in parts.items():
        if given.only in (None, name):
            part()
            print()


if __name__ == "__main__":
    main()
