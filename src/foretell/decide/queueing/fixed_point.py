"""Fixed points of contractions, many at once, with Aitken's extrapolation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from foretell.decide.queueing.service._base import Complex

#: Steps go on to the last digits, for near saturation what is left of 1 − x is small.
_TOLERANCE, _ENOUGH = 1e-16, 1e-12
_MOST_STEPS = 2000


def fixed_point(step: Callable[[Complex], Complex], start: Complex) -> Complex:
    """Return x = step(x), where all |x| are at most 1; near saturation plain steps are slow.

    >>> found = fixed_point(lambda x: 0.1 + 0.85 * x, np.zeros(1, dtype=complex))
    >>> bool(abs(found[0] - 2 / 3) < 1e-12)
    True
    """
    x, last = start, np.inf
    for _ in range(_MOST_STEPS):
        once = step(x)
        change = float(np.abs(once - x).max(initial=0.0))
        if change < _TOLERANCE or last <= change < _ENOUGH:
            return once
        last = change
        twice = step(once)
        bend = (twice - once) - (once - x)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            jumped = twice - (twice - once) ** 2 / bend
        is_safe = np.isfinite(jumped) & (np.abs(jumped) <= 1) & (np.abs(bend) > 1e-14)
        x = np.where(is_safe, jumped, twice)
    return x
