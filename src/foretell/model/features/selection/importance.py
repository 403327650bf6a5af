"""Selection by importance: the features a boosted model splits on most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


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
