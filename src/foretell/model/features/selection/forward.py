"""Sequential forward selection: add the feature that lowers the error most, one at a time."""

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

    Parameters
    ----------
    error
        The error of a subset, to be minimized; infinity when it cannot be fitted.

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
