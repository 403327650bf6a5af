"""Feature selection, always inside the rows that train: forward, or by importance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray


def select_forward(
    candidates: Sequence[int],
    error: Callable[[list[int]], float],
    *,
    min_features: int,
    max_features: int,
) -> NDArray[np.int64]:
    """Return the best subset seen among the sizes allowed; the smaller one on a tie.

    ``error``: the error of a subset, to be minimized; infinity when it cannot be fitted.

    >>> cost = {0: 3.0, 1: 1.0, 2: 2.0}
    >>> select_forward([0, 1, 2], lambda s: min(cost[i] for i in s), min_features=1, max_features=2)
    array([1])
    """
    chosen: list[int] = []
    remaining = list(candidates)
    best, best_error = None, float("inf")
    while remaining and len(chosen) < max_features:
        errors = [error([*chosen, feature]) for feature in remaining]
        winner = int(np.argmin(errors))
        if not np.isfinite(errors[winner]):
            break
        chosen.append(remaining.pop(winner))
        if len(chosen) >= min_features and errors[winner] < best_error:
            best, best_error = list(chosen), errors[winner]
    if best is None:
        raise ValueError("no subset of features could be fitted")
    return np.sort(np.array(best))


def select_by_importance(
    shares: NDArray[np.float64], *, tolerance: float, max_features: int | None
) -> NDArray[np.int64]:
    """Keep the largest shares until they add up to the tolerance.

    >>> select_by_importance(np.array([0.066, 0.934]), tolerance=0.4, max_features=None)
    array([1])
    """
    order = np.argsort(-shares, kind="stable")
    needed = int(np.searchsorted(np.cumsum(shares[order]), tolerance - 1e-12)) + 1
    n_kept = min(needed, max_features or len(shares), int(np.count_nonzero(shares)))
    return np.sort(order[: max(n_kept, 1)])
