"""Plans of queues: how fast they are chosen, whether none is better, and whether limits hold.

    python -m benchmarks.queue_plans [--systems 30] [--runs 200] [--only NAME]

Systems are random: two or three classes with tasks that vary, loads of 0.5 to 0.95 before dropping,
sprints with and without a budget. Limits are set so that they bind. Every figure is simulated.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from foretell.decide.queueing.assess import UnluckyRun, load_of, mean_power
from foretell.decide.queueing.evaluate import ByMoments
from foretell.decide.queueing.options import Option, options_of, steps_of
from foretell.decide.queueing.predict import queue_figures
from foretell.decide.queueing.queue_file import Queue, read_queue
from foretell.decide.queueing.streams import Stream
from foretell.decide.queueing.times import class_time
from foretell.queue.choose import choose_drops
from foretell.queue.played_plans import BySimulation

RUN_LENGTH = 1_000
#: Plans that are computed exactly, at some ten milliseconds each.
_MOST_EXACT = 800
ERRORS = {0.1: 0.02, 0.2: 0.05, 0.4: 0.12}


def random_file(random: np.random.Generator, *, sprints: bool) -> dict[str, Any]:
    """Make up a class file without limits of response times."""
    n = int(random.integers(2, 4))
    classes = []
    for k in range(n):
        classes.append(
            {
                "name": f"class {k}", "tasks": int(random.integers(8, 51)), "rate_per_s": 1.0,
                "map_s": float(random.uniform(5, 40)), "map_scv": float(random.choice([0.05, 0.3])),
                "overhead_s": float(random.uniform(1, 8)),
                "error": ERRORS, "max_error": 0.0 if k == n - 1 else 0.12,
                "weight": float(random.choice([1.0, 3.0])),
            }
        )  # fmt: skip
    found: dict[str, Any] = {"slots": int(random.integers(4, 21)), "class": classes}
    queue = read_queue(found)
    means = np.array([class_time(queue, c, {}).mean for c in queue.classes])
    shares = random.dirichlet(np.full(n, 2.0))
    load = random.uniform(0.5, 0.95)
    for c, rate in zip(classes, shares * load / (shares @ means), strict=True):
        c["rate_per_s"] = float(rate)
    if sprints:
        found["sprint"] = {"speedup": 2.5, "base_w": 180, "sprint_w": 270, "idle_w": 90}
        if random.random() < 0.5:
            found["sprint"] |= {"budget_j": 60 * 90 * 10, "refill_w": float(random.uniform(4, 15))}
    return found


def with_limits(found: Mapping[str, Any], p95s: list[float], factor: float) -> dict[str, Any]:
    """Return the file with a limit for each class."""
    pairs = zip(found["class"], p95s, strict=True)
    return {**found, "class": [{**c, "p95_s": factor * p95} for c, p95 in pairs]}


# How fast


def speed() -> None:
    """Choose among more than a thousand plans."""
    job = {"tasks": 50, "map_s": 45.0, "overhead_s": 8, "shuffle_s": 2, "reduce_tasks": 20,
           "reduce_s": 2}  # fmt: skip
    low = {"name": "low", "rate_per_min": 0.22, "error": {0.1: 0.085, 0.2: 0.15, 0.4: 0.32},
           "max_error": 0.15, "p95_s": 1000, **job}  # fmt: skip
    high = {"name": "high", "rate_per_min": 0.11, "p95_s": 320, **job}
    sprint = {"speedup": 2.5, "base_w": 180, "sprint_w": 270, "budget_j": 22000, "refill_w": 9}
    for name, more in (("with a bucket", sprint), ("without", dict(list(sprint.items())[:3]))):
        file = {"slots": 20, "class": [low, high], "sprint": more}
        choose_drops(file)  # modules are loaded, and stages of tasks played
        start, cpu = time.perf_counter(), time.process_time()
        found = choose_drops(file)
        took, cpu = time.perf_counter() - start, time.process_time() - cpu
        print(
            f"{len(found.choice.tried):,} plans, {name}: {took:.1f} s ({cpu:.1f} s of CPU), with "
            f"150 runs to check the best and up to 7 × 150 with more load; bar: 1,000 plans in 60 s"
        )
        print("  " + str(found).splitlines()[0])


# Whether none is better


def exact_latency(queue: Queue, plan: tuple[Option, ...]) -> float:
    """Return the weighted p95 by exact formulas."""
    streams = [
        Stream(c.name, c.rate_per_s, option.service)
        for c, option in zip(queue.classes, plan, strict=True)
    ]
    figures = queue_figures("non-preemptive", streams)
    return sum(c.weight * f.p95_s for c, f in zip(queue.classes, figures.classes, strict=True))


def exhaustive(n_systems: int, n_runs: int) -> None:
    """Try every plan of random systems by exact formulas, and compare.

    Of four systems one has neither, one sprints with a budget, one limits, and one both.
    """
    same, off, errors, n_plans = 0, [], [], 0
    done = 0
    for seed in itertools.count():
        if done == n_systems:
            break
        file = random_file(np.random.default_rng(seed), sprints=done % 2 == 1)
        if not 1 < len(plans := _possible(read_queue(file))) <= _MOST_EXACT:
            continue
        if done % 4 > 1 and (loose := choose_drops(file).chosen) is not None:
            file = with_limits(file, [r.p95_s for r in loose.responses], 1.3)
        queue = read_queue(file)
        exact = [exact_latency(queue, plan) for plan in plans]
        best = _best(queue, plans, exact, n_runs)
        chosen = choose_drops(queue).chosen
        if best is None or chosen is None:  # limits that hardly any plan keeps are not compared
            continue
        done += 1
        n_plans += len(plans)
        errors += _errors(queue, plans, exact)
        same += [(o.drop, o.sprint_after_s) for o in chosen.options] == [
            (o.drop, o.sprint_after_s) for o in plans[best]
        ]
        off.append(exact_latency(queue, chosen.options) / exact[best] - 1)
    print(
        f"the plan of trying all with exact formulas: {same} of {n_systems} systems "
        f"({n_plans:,} plans), half with sprints and half with limits; the latency is "
        f"{100 * max(off):+.2f} % off at most; figures of many plans at once differ from exact "
        f"ones by {100 * max(errors):.2f} % at most"
    )


def _possible(queue: Queue) -> list[tuple[Option, ...]]:
    """Return all plans that keep limits of error, load and sprints."""
    rates = [c.rate_per_s for c in queue.classes]
    steps = [steps_of(c, partial(class_time, queue, c, {})) for c in queue.classes]
    options = [list(options_of(s.allowed, queue.sprint.speedup)) for s in steps]
    if math.prod(map(len, options)) > 10 * _MOST_EXACT:
        return []
    refill_w, run = queue.sprint.refill_w, UnluckyRun(RUN_LENGTH)
    return [
        plan
        for plan in itertools.product(*options)
        if load_of(rates, plan) < 0.97
        and (refill_w is None or mean_power(queue, *run.of(rates, plan)).sprint_w <= refill_w)
    ]


def _best(
    queue: Queue, plans: list[tuple[Option, ...]], exact: list[float], n_runs: int
) -> int | None:
    """Return the best plan that keeps its limits in 90 % of runs; of equals the least error."""

    def error_of(i: int) -> float:
        return sum(c.weight * o.error for c, o in zip(queue.classes, plans[i], strict=True))

    has_limits = any(c.p95_s is not None for c in queue.classes)
    kept: list[int] = []
    for i in sorted(range(len(plans)), key=exact.__getitem__):
        if kept and exact[i] > 1.005 * exact[kept[0]]:
            break
        if not has_limits or kept_share(queue, plans[i], n_runs) >= 0.9:
            kept.append(i)
        elif not kept and exact[i] > 2 * min(exact):
            break
    return min(kept, key=error_of, default=None)


def _errors(queue: Queue, plans: list[tuple[Option, ...]], exact: list[float]) -> list[float]:
    """Return how far figures of many plans at once are from exact ones."""
    rates = [c.rate_per_s for c in queue.classes]
    fast = [
        sum(c.weight * r.p95_s for c, r in zip(queue.classes, of_plan, strict=True))
        for of_plan in ByMoments().responses(rates, plans)
    ]
    return [abs(a / b - 1) for a, b in zip(fast, exact, strict=True) if math.isfinite(b)]


# Whether limits hold


def limits(n_systems: int, n_runs: int) -> None:
    """Choose with limits that bind, and play runs that were not played to choose."""
    shares, refused = [], 0
    for seed in itertools.count():
        if len(shares) == n_systems or seed > 4 * n_systems:
            break
        random = np.random.default_rng([seed, 7])
        file = random_file(random, sprints=seed % 2 == 0)
        loose = choose_drops(file)
        if loose.chosen is None:
            continue
        tight = with_limits(
            file, [r.p95_s for r in loose.chosen.responses], random.uniform(1.05, 1.6)
        )
        found = choose_drops(tight)
        if found.chosen is None:  # not even the fastest plan keeps them in nine of ten runs
            refused += 1
            continue
        shares.append(kept_share(found.queue, found.chosen.options, n_runs))
    print(
        f"limits hold in {100 * np.mean(shares):.1f} % of {n_runs} runs of {RUN_LENGTH:,} jobs on "
        f"average over {len(shares)} systems, {100 * min(shares):.1f} % in the worst; "
        f"{np.sum(np.array(shares) >= 0.9)} of them reach 90 %; {refused} others have no plan; "
        "bar: 90 %"
    )


def kept_share(queue: Queue, plan: tuple[Option, ...], n_runs: int) -> float:
    """Return the share of runs in which all limits hold."""
    player = BySimulation(queue, n_jobs=RUN_LENGTH, seed=0)
    rates = [c.rate_per_s for c in queue.classes]
    kept = 0
    for seed in range(n_runs):
        played = player.play(rates, plan, seed=seed)
        own = [played.response_s[played.class_of == k] for k in range(len(plan))]
        kept += all(
            not len(times) or np.quantile(times, 0.95) <= (c.p95_s or math.inf)
            for c, times in zip(queue.classes, own, strict=True)
        )
    return kept / n_runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", type=int, default=30)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", choices=["speed", "exhaustive", "limits"])
    given = parser.parse_args()
    if given.only in (None, "speed"):
        speed()
    if given.only in (None, "exhaustive"):
        exhaustive(given.systems, given.runs)
    if given.only in (None, "limits"):
        limits(given.systems, given.runs)


if __name__ == "__main__":
    main()
