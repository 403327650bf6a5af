"""Sharing at one moment: how fast each job goes when the jobs together need more than there is."""

from __future__ import annotations

from collections.abc import Sequence

_MOST_ROUNDS = 50
_NEAR = 1e-9

#: What one resource has, and for each job that needs it: its number, need and weight.
Demand = tuple[float, list[tuple[int, float, float]]]


def water_fill(needs: Sequence[float], weights: Sequence[float], capacity: float) -> list[float]:
    """Divide a capacity by weights, and give nobody more than is needed (max-min fairness).

    >>> water_fill([1.0, 0.2], [1.0, 1.0], 1.0)
    [0.8, 0.2]
    >>> water_fill([2.0, 1.0], [2.0, 1.0], 2.0) == [4 / 3, 2 / 3]
    True
    """
    if sum(needs) <= capacity:
        return list(needs)
    shares = [0.0] * len(needs)
    left, weight = capacity, sum(weights)
    order = sorted(range(len(needs)), key=lambda k: needs[k] / weights[k])
    for place, k in enumerate(order):
        fair = left * weights[k] / weight
        if needs[k] > fair:
            for rest in order[place:]:
                shares[rest] = left * weights[rest] / weight
            break
        shares[k] = needs[k]
        left -= needs[k]
        weight -= weights[k]
    return shares


def speeds(n_jobs: int, demands: Sequence[Demand]) -> list[tuple[float, int]]:
    """Return the speed of each job, 1 as alone, and the number of the resource that limits it.

    A job that waits for one resource needs less of the others. So each resource is divided by what
    the jobs need of it at the speed that the others leave them, in rounds, until nothing changes.
    No resource is ever given away twice: the speed of a job is the least over its resources.
    """
    limits = [[1.0] * n_jobs for _ in demands]
    scarce = [k for k, (capacity, asks) in enumerate(demands) if _total(asks) > capacity]
    for _ in range(_MOST_ROUNDS if len(scarce) > 1 else 1):
        before = [list(limits[k]) for k in scarce]
        for k in scarce:
            capacity, asks = demands[k]
            elsewhere = [
                min((limits[o][j] for o in scarce if o != k), default=1.0) for j, _, _ in asks
            ]
            needs = [need * e for (_, need, _), e in zip(asks, elsewhere, strict=True)]
            given = water_fill(needs, [weight for _, _, weight in asks], capacity)
            is_full = sum(needs) > capacity
            for (j, need, _), share, wanted in zip(asks, given, needs, strict=True):
                limits[k][j] = share / need if is_full and share < wanted else 1.0
        if all(
            abs(a - b) < _NEAR
            for k, old in zip(scarce, before, strict=True)
            for a, b in zip(limits[k], old, strict=True)
        ):
            break
    found = [
        min(((limits[k][j], k) for k in scarce), default=(1.0, -1), key=lambda limit: limit[0])
        for j in range(n_jobs)
    ]
    for k in scarce:  # rounds that were stopped early may give away too much
        capacity, asks = demands[k]
        needs = [need * found[j][0] for j, need, _ in asks]
        if sum(needs) > capacity:
            given = water_fill(needs, [weight for _, _, weight in asks], capacity)
            for (j, need, _), share in zip(asks, given, strict=True):
                found[j] = min(found[j], (share / need, k))
    return found


def _total(asks: list[tuple[int, float, float]]) -> float:
    return sum(need for _, need, _ in asks)
