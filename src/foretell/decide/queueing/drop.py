"""Dropping tasks: how many are kept, and the error that this causes, by what was measured."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from foretell.approximate import n_kept


def kept_counts(tasks: Mapping[int, float], drop: float) -> dict[int, float]:
    """Return how probable each number of kept tasks is.

    >>> kept_counts({50: 0.5, 30: 0.5}, 0.2)
    {40: 0.5, 24: 0.5}
    """
    found: dict[int, float] = {}
    for n, share in tasks.items():
        kept = n_kept(n, drop)
        found[kept] = found.get(kept, 0.0) + share
    return found


def kept_share(tasks: Mapping[int, float], drop: float) -> float:
    """Return the share of tasks that is kept on average; more than asked for where few are."""
    return sum(share * n_kept(n, drop) / n for n, share in tasks.items())


def drop_steps(tasks: Mapping[int, float], most: float) -> list[float]:
    """Return the smallest ratio for each number of kept tasks that dropping up to ``most`` gives.

    >>> drop_steps({5: 1.0}, 0.5)
    [0.0, 0.2, 0.4]
    """
    found = {0.0}
    for n in tasks:
        found |= {round(1 - kept / n, 12) for kept in range(1, n)}
    return sorted(drop for drop in found if drop <= most + 1e-9)


def error_at(table: Mapping[float, float], drop: float) -> float | None:
    """Return the error at a drop ratio, by straight lines between what was measured.

    It is 0 without dropping, and not known beyond the largest ratio that was measured.

    >>> error_at({0.1: 0.085, 0.2: 0.15}, 0.15), error_at({0.1: 0.085}, 0.2) is None
    (0.1175, True)
    """
    if drop == 0:
        return 0.0
    if not table or drop > max(table) + 1e-9:
        return None
    ratios = [0.0, *table]
    return round(float(np.interp(drop, ratios, [0.0, *table.values()])), 12)
