"""Analysis of variance on a full grid: exact shares of inputs and pairs, with noise taken out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from foretell.sensitivity.shares import VarianceShares

Array = NDArray[np.float64]

#: An effect that chance gives more often than this is taken for noise.
_CHANCE = 0.05
#: Smaller shares are rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class RepeatNoise:
    """What is known of noise from repeats.

    Attributes
    ----------
    variance
        The pooled variance of single runs around the mean of their cell.
    freedom
        Its degrees of freedom.
    n_repeats
        The harmonic mean of the number of repeats in a cell.
    """

    variance: float
    freedom: int
    n_repeats: float

    @classmethod
    def of(cls, cell: NDArray[np.int64], values: Array) -> RepeatNoise | None:
        """Compute it from runs and the number of the cell of each; None if no cell has repeats."""
        counts = np.bincount(cell)
        freedom = int(len(values) - np.count_nonzero(counts))
        if freedom < 1:
            return None
        means = np.bincount(cell, values) / np.maximum(counts, 1)
        left = float(((values - means[cell]) ** 2).sum())
        return cls(left / freedom, freedom, float(1 / np.mean(1 / counts[counts > 0])))


def is_full_grid(codes: NDArray[np.int64]) -> bool:
    """Whether every combination of the levels of all columns occurs.

    >>> is_full_grid(np.array([[0, 0], [0, 1], [1, 0], [1, 1]])), is_full_grid(np.eye(2, dtype=int))
    (True, False)
    """
    n_cells = float(np.prod([len(np.unique(column)) for column in codes.T], dtype=float))
    return n_cells <= len(codes) and len(np.unique(codes, axis=0)) == n_cells


def anova_of_runs(
    names: Sequence[str], codes: NDArray[np.int64], values: Array
) -> VarianceShares | None:
    """Divide the variance of runs on a full grid; None if some combination of levels is missing.

    Parameters
    ----------
    codes
        The number of the level of each run (rows) in each column.
    values
        The results, such as logarithms of times.

    >>> codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> found = anova_of_runs(["a", "b"], codes, np.array([0.0, 1.0, 3.0, 4.0]))
    >>> dict(found.first), found.pairs[("a", "b")]
    ({'a': 0.9, 'b': 0.1}, 0.0)
    """
    if not is_full_grid(codes):
        return None
    levels = [np.unique(column, return_inverse=True) for column in codes.T]
    shape = tuple(len(found) for found, _ in levels)
    cell = np.ravel_multi_index([position for _, position in levels], shape)
    means = np.bincount(cell, values) / np.bincount(cell)
    noise = RepeatNoise.of(cell, values)
    return decompose(names, means.reshape(shape), noise, n_samples=len(values))


def decompose(
    names: Sequence[str],
    cells: Array,
    noise: RepeatNoise | None = None,
    *,
    method: str = "anova",
    n_samples: int = 0,
) -> VarianceShares:
    """Divide the variance of the cells of a full grid, one axis per name.

    With noise, what it adds to each part is taken out, and a part that chance explains is noise.
    Shares of inputs, pairs, larger groups and noise together are 1.
    """
    mean = float(cells.mean())
    off = cells - mean
    whole = float((off**2).mean())
    alone = [_margin(off, (i,)) for i in range(len(names))]
    found = _Parts(noise, cells.size, _ROUNDING * max(whole, (_ROUNDING * mean) ** 2))
    first = [found.kept(float((a**2).mean()), a.size - 1) for a in alone]
    raw = float(sum((a**2).mean() for a in alone))
    pairs: dict[tuple[str, str], float] = {}
    for i, j in combinations(range(len(names)), 2):
        both = _margin(off, (i, j)) - alone[i] - alone[j]
        raw += float((both**2).mean())
        kept = found.kept(float((both**2).mean()), (both.shape[i] - 1) * (both.shape[j] - 1))
        pairs[names[i], names[j]] = kept
    rest = max(0.0, whole - raw)
    sizes = [a.size - 1 for a in alone]
    freedom = cells.size - 1 - sum(sizes) - sum(a * b for a, b in combinations(sizes, 2))
    higher = found.kept(rest, freedom)
    totals = []
    for i, name in enumerate(names):
        of_pairs = sum(share for pair, share in pairs.items() if name in pair)
        part = _higher_part(off, i) if rest > 0 else 0.0
        totals.append(first[i] + of_pairs + (higher * min(1.0, part / rest) if rest > 0 else 0.0))
    spread = 0.0 if noise is None else noise.variance
    variance = sum(first) + sum(pairs.values()) + higher + spread
    scale = 1 / variance if variance > found.least else 0.0
    return VarianceShares(
        {name: share * scale for name, share in zip(names, first, strict=True)},
        {name: share * scale for name, share in zip(names, totals, strict=True)},
        {pair: share * scale for pair, share in pairs.items()},
        higher * scale,
        None if noise is None else spread * scale,
        method,
        variance,
        n_samples or cells.size,
    )


class _Parts:
    """Decides which parts of a variance are more than noise."""

    def __init__(self, noise: RepeatNoise | None, n_cells: int, least: float) -> None:
        self.noise, self.n_cells, self.least = noise, n_cells, least

    def kept(self, part: float, freedom: int) -> float:
        """Return a part without what noise adds to it; 0 if it is noise."""
        if part <= self.least or freedom < 1:
            return 0.0
        if self.noise is None or self.noise.variance <= 0:
            return part
        from scipy.special import fdtrc

        of_mean = self.noise.variance / self.noise.n_repeats
        ratio = part * self.n_cells / freedom / of_mean
        if fdtrc(freedom, self.noise.freedom, ratio) > _CHANCE:
            return 0.0
        return max(0.0, part - freedom / self.n_cells * of_mean)


def _margin(off: Array, axes: tuple[int, ...]) -> Array:
    """Return the means over all axes but these, which stay."""
    others = tuple(axis for axis in range(off.ndim) if axis not in axes)
    found: Array = off.mean(axis=others, keepdims=True)
    return found


def _higher_part(off: Array, axis: int) -> float:
    """Return what groups of three and more that an axis is part of explain."""
    own = float(((off - off.mean(axis=axis, keepdims=True)) ** 2).mean())
    alone = _margin(off, (axis,))
    own -= float((alone**2).mean())
    for other in range(off.ndim):
        if other != axis:
            both = _margin(off, (axis, other)) - alone - _margin(off, (other,))
            own -= float((both**2).mean())
    return max(0.0, own)
