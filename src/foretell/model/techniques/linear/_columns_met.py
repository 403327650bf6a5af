"""The few of many columns that a search for coefficients of zero or more comes to look at.

The active-set method of Lawson and Hanson takes one column after the other, always that which
explains most of what is left. It transforms all columns each time, but none of them depends on
another that is not taken. So without columns that are never taken it does the same, to the last
bit. Which are taken, the same method finds out faster with less care for rounding: whatever comes
close to being taken is kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import Array

#: Of fewer columns per row, and of fewer in all, the work saved is less than that of looking.
_MANY_PER_ROW, _MANY = 8, 400
#: Shares: how near to the best column others may be taken for it, how near to none at the end, and
#: what is left when rounding alone decides which columns explain it.
_NEAR, _NEAR_END, _ROUNDING = 1e-6, 1e-4, 1e-9
#: Smaller shares are noise: of what a column explains, and of a column in no sum of others.
_NOISE, _SUM = 1e-13, 4e-15
_STEPS_PER_ROW = 3
_TINY = 1e-300


def columns_met(matrix: Array, target: Array) -> NDArray[np.int64] | slice:
    """Return the positions of columns that may get a coefficient, in order; or all."""
    n_rows, n_columns = matrix.shape
    if n_columns < max(_MANY, _MANY_PER_ROW * n_rows):
        return slice(None)
    is_met = np.arange(n_columns) < n_rows  # columns taken change places with the first ones
    size = float(np.linalg.norm(target))
    taken, x = np.zeros(0, dtype=np.int64), np.zeros(0)
    residual = target
    for _ in range(_STEPS_PER_ROW * n_rows):
        gain = residual @ matrix
        gain[taken] = -np.inf
        best = int(np.argmax(gain))
        if gain[best] <= _NOISE * size:
            left = float(np.linalg.norm(residual))
            is_met |= _are_new(matrix, taken, gain > -_NEAR_END * left)
            return np.flatnonzero(is_met)
        is_met |= gain >= (1 - _NEAR) * gain[best]
        taken, x, residual = _fitted(matrix, target, np.append(taken, best), np.append(x, 0.0))
        if len(taken) == n_rows:  # nothing is left to explain, and the search ends
            return np.flatnonzero(is_met)
        if not np.linalg.norm(residual) > _ROUNDING * size:
            break
    return slice(None)


def _are_new(
    matrix: Array, taken: NDArray[np.int64], are_asked: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Say which columns are no sum of those taken; the search turns such sums down."""
    basis = np.linalg.qr(matrix[:, taken])[0]
    columns = matrix[:, are_asked]
    rest = columns - basis @ (basis.T @ columns)
    are_new = are_asked.copy()
    are_new[are_asked] = np.linalg.norm(rest, axis=0) > _SUM * np.linalg.norm(columns, axis=0)
    return are_new


def _fitted(
    matrix: Array, target: Array, taken: NDArray[np.int64], x: Array
) -> tuple[NDArray[np.int64], Array, Array]:
    """Fit the columns taken, and give up those that would get a coefficient below zero."""
    from scipy.linalg.lapack import dgels

    while len(taken):
        columns = matrix[:, taken]
        _, found, fault = dgels(columns, target)
        z = found[: len(taken)]
        if fault or not np.isfinite(z).all():
            break
        is_low = z <= 0
        if not is_low.any():
            return taken, z, target - columns @ z
        step = (x[is_low] / np.maximum(x[is_low] - z[is_low], _TINY)).min()
        x = x + step * (z - x)
        is_kept = ~is_low | (x > _ROUNDING * x.max())
        is_kept[np.flatnonzero(is_low)[np.argmin(x[is_low])]] = False
        taken, x = taken[is_kept], x[is_kept]
    return taken, x, np.zeros_like(target)
