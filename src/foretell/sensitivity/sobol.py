"""Shares of variance of a function: Jansen's estimators, or everywhere on a small grid.

M. J. W. Jansen, Analysis of variance designs for model output, 1999; A. Saltelli et al., Variance
based sensitivity analysis of model output, 2010.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.sensitivity.anova import decompose
from foretell.sensitivity.shares import VarianceShares

Array = NDArray[np.float64]

#: How many pairs of points are drawn; a power of two, as quasi-random points need.
N_POINTS = 4096
#: Pairs estimated to explain less are within the error of the estimate.
_LEAST_PAIR = 0.01


def sobol_of(
    function: Callable[[Array], Array],
    names: Sequence[str],
    *,
    n_points: int = N_POINTS,
    seed: int = 0,
    with_pairs: bool = True,
) -> VarianceShares:
    """Divide the variance of a function of independent inputs, each uniform between 0 and 1.

    Parameters
    ----------
    function
        Takes points, one per row and one column per name, and returns a value for each.

    >>> found = sobol_of(lambda x: x[:, 0] + 2 * x[:, 1], ["a", "b"])
    >>> {name: round(share, 2) for name, share in found.first.items()}
    {'a': 0.2, 'b': 0.8}
    """
    from scipy.stats import qmc

    k = len(names)
    both = qmc.Sobol(2 * k, scramble=True, seed=seed).random(n_points)
    a, b = both[:, :k], both[:, k:]
    f_a, f_b = function(a), function(b)
    variance = float(np.concatenate([f_a, f_b]).var())
    if variance <= 1e-24 * max(1.0, float(np.abs(f_a).max()) ** 2):
        none = dict.fromkeys(names, 0.0)
        return VarianceShares(none, none, {}, None, None, "sobol", 0.0, 2 * n_points)
    f_ab = [function(_with_column(a, b, i)) for i in range(k)]
    total = [_off(f_a, f) / variance for f in f_ab]
    first = [max(0.0, 1 - _off(f_b, f) / variance) for f in f_ab]
    # The estimate of what an input is part of is the more exact one, and never the smaller one.
    first = [min(s, t) for s, t in zip(first, total, strict=True)]
    n_samples = n_points * (k + 2)
    pairs: dict[tuple[str, str], float] = {}
    if with_pairs and k > 1:
        f_ba = [function(_with_column(b, a, i)) for i in range(k)]
        n_samples += n_points * k
        for i, j in combinations(range(k), 2):
            closed = 1 - (_off(f_ba[i], f_ab[j]) + _off(f_ba[j], f_ab[i])) / 2 / variance
            share = closed - first[i] - first[j]
            pairs[names[i], names[j]] = share if share >= _LEAST_PAIR else 0.0
    return VarianceShares(
        dict(zip(names, map(float, first), strict=True)),
        dict(zip(names, map(float, total), strict=True)),
        pairs,
        None,
        None,
        "sobol",
        variance,
        n_samples,
    )


def _with_column(x: Array, other: Array, i: int) -> Array:
    found = x.copy()
    found[:, i] = other[:, i]
    return found


def _off(f: Array, g: Array) -> float:
    return float(((f - g) ** 2).mean() / 2)


def shares_on_levels(
    function: Callable[[dict[str, NDArray[Any]]], Array],
    levels: Mapping[str, Sequence[Any]],
    *,
    n_points: int = N_POINTS,
    seed: int = 0,
    with_pairs: bool = True,
) -> VarianceShares:
    """Divide the variance of a function over levels of its inputs, which are equally likely.

    If there are no more combinations than points would be drawn, all are computed, and the shares
    are exact.

    Parameters
    ----------
    function
        Takes the values of each input, by name, and returns a value for each combination.

    >>> found = shares_on_levels(lambda x: x["a"] * x["b"], {"a": [-1, 1], "b": [-1, 1]})
    >>> found.pairs[("a", "b")], found.first["a"]
    (1.0, 0.0)
    """
    known = {name: np.asarray(values) for name, values in levels.items()}
    sizes = [len(values) for values in known.values()]
    if np.prod(sizes, dtype=float) <= n_points * (len(sizes) + 2):
        places = np.indices(sizes).reshape(len(sizes), -1)
        taken = {n: v[at] for (n, v), at in zip(known.items(), places, strict=True)}
        return decompose(list(known), function(taken).reshape(sizes), method="grid")

    def at(x: Array) -> Array:
        places = np.minimum((x * sizes).astype(np.int64), np.array(sizes) - 1)
        return function({n: v[places[:, i]] for i, (n, v) in enumerate(known.items())})

    return sobol_of(at, list(known), n_points=n_points, seed=seed, with_pairs=with_pairs)
