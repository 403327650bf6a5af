"""The front: what no other choice beats in all respects at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def front_of(figures: Sequence[tuple[float, ...]], tolerance: float = 1e-9) -> list[int]:
    """Return the places of those that none beats; smaller is better, and of equals the first stays.

    >>> front_of([(1.0, 5.0), (2.0, 2.0), (3.0, 3.0), (2.0, 2.0)])
    [0, 1]
    """
    if not figures:
        return []
    values = np.array(figures, dtype=float)
    scale = np.maximum(np.abs(values), 1e-12) * tolerance
    found = []
    for i, own in enumerate(values):
        is_no_worse = (values <= own + scale[i]).all(axis=1)
        is_better = (values < own - scale[i]).any(axis=1)
        is_same_and_earlier = ~is_better & (np.arange(len(values)) < i)
        if not (is_no_worse & (is_better | is_same_and_earlier)).any():
            found.append(i)
    return found
