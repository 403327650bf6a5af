"""Searches in several ways, compared: ratios of times, and differences of accuracy, in pairs.

A pair is the same network, scheduler, seed, machine and set-up. Intervals are from a bootstrap over
pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

#: The ways in which a search can be run, as `benchmarks.tune` describes them.
WAYS = (
    "v1", "static 1", "static 2x1", "v2", "hook cold", "hook warm", "ours cold", "ours warm",
    "paper cold", "paper warm",
)  # fmt: skip
STATIC = ("v1", "static 1", "static 2x1")
#: The accuracies of two ways are taken to be equal within this, in points.
EQUAL_POINTS = 0.5
#: A search in which other programs used more cores than this is not compared with others.
MOST_OF_OTHERS = 0.7
#: Fewer pairs than this have no interval, and decide nothing.
LEAST_PAIRS = 3
_N_DRAWS = 2_000

Run = dict[str, Any]
Pair = dict[str, Run]
#: A network, a scheduler, a seed, a machine, and the set-up: the numbers of trials and of epochs,
#: and how many cores another program keeps busy.
Search = tuple[str, str, int, str, tuple[int, ...]]


@dataclass(frozen=True)
class Compared:
    """One way beside v1.

    Attributes
    ----------
    ratio, low, high
        The geometric mean of wall times over those of v1, with its 95 % interval.
    per_epoch
        The same of wall times by epoch: which trials go on is also chance.
    over_static
        The same over the best static setting of each pair, in hindsight.
    points, points_low, points_high
        The mean difference of final accuracies in points, with the 90 % interval that two
        one-sided tests at 5 % look at.
    """

    way: str
    n: int
    wall_s: float
    ratio: float
    low: float
    high: float
    per_epoch: float
    over_static: float
    accuracy: float
    points: float
    points_low: float
    points_high: float

    @property
    def is_equal(self) -> bool:
        """Whether both tests say that accuracies are equal within the limit."""
        return self.points_low > -EQUAL_POINTS and self.points_high < EQUAL_POINTS


def quiet(results: Iterable[Run]) -> list[Run]:
    """Return the searches that others hardly disturbed; of repeated ones, the quietest."""
    found: dict[tuple[Search, str], Run] = {}
    for run in sorted(results, key=lambda run: run["cores_of_others"]):
        if run["cores_of_others"] <= MOST_OF_OTHERS:
            found.setdefault((search_of(run), run["way"]), run)
    return list(found.values())


def search_of(run: Run) -> Search:
    """Return what runs have in common that are compared; older runs do not name their machine."""
    setup = tuple(run.get(name, 0) for name in ("n_trials", "max_epochs", "n_busy"))
    return run["workload"], run["scheduler"], run["seed"], run.get("machine", ""), setup


def pairs_of(results: Iterable[Run]) -> dict[Search, Pair]:
    """Return the searches by network, scheduler, seed and machine, and then by way."""
    found: dict[Search, Pair] = defaultdict(dict)
    for run in results:
        found[search_of(run)][run["way"]] = run
    return {key: pair for key, pair in sorted(found.items()) if "v1" in pair}


def compare(pairs: Iterable[Pair]) -> list[Compared]:
    """Return each way that was run beside v1, in the order of the list of ways."""
    known = list(pairs)
    found = []
    for way in WAYS:
        both = [pair for pair in known if way in pair]
        if both:
            found.append(_compared(way, both))
    return found


def _compared(way: str, pairs: list[Pair]) -> Compared:
    logs = np.array([np.log(p[way]["wall_s"] / p["v1"]["wall_s"]) for p in pairs])
    per_epoch = logs - np.array([np.log(p[way]["n_epochs"] / p["v1"]["n_epochs"]) for p in pairs])
    best = [min(p[s]["wall_s"] for s in STATIC if s in p) for p in pairs]
    over = np.log([p[way]["wall_s"] / b for p, b in zip(pairs, best, strict=True)])
    points = np.array([100 * (p[way]["accuracy"] - p["v1"]["accuracy"]) for p in pairs])
    low, high = np.exp(_interval(logs, 0.95))
    return Compared(
        way, len(pairs), float(np.mean([p[way]["wall_s"] for p in pairs])),
        float(np.exp(logs.mean())), float(low), float(high),
        float(np.exp(per_epoch.mean())), float(np.exp(over.mean())),
        float(np.mean([p[way]["accuracy"] for p in pairs])), float(points.mean()),
        *_interval(points, 0.90),
    )  # fmt: skip


def _interval(values: np.ndarray, share: float) -> tuple[float, float]:
    """Return an interval of the mean, by drawing pairs again."""
    draws = np.random.default_rng(0).choice(values, (_N_DRAWS, len(values))).mean(axis=1)
    low, high = np.quantile(draws, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)
