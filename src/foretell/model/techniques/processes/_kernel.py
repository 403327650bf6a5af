"""The covariance of log times: a trend of power laws, their interactions, and smooth deviations.

    4 + L + q²·Σ L_g·L_h + Σ b_j²·M(z_j) + s²·Π M(z_j)·Π exp(-[c ≠ c']/k_c)

L is the sum over axes and categories of what is linear in an axis, in its curve 1/x, or constant
within a level. The second term are products of two of these; the others are Matérn processes of
one axis, and of all together. Outside the data the latter two stay what they were at the border:
only the trend goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import Array
from foretell.model.techniques.points.axes import Axes

_CONSTANT = 4.0  # prior variance of the level, in units of the variance of the log target
#: With more axes than this, the prior of each is weaker and smoother.
_MANY_AXES = 6


class Prior(NamedTuple):
    """A normal prior on the logarithm of a parameter."""

    median: float
    spread: float


_USUAL = {
    "slope": Prior(0.8, 1.0),
    "curve": Prior(0.7, 1.0),
    "level": Prior(0.4, 1.0),
    "pairs": Prior(0.3, 1.0),
    "bump": Prior(0.15, 1.0),
    "field": Prior(0.25, 1.0),
    "length": Prior(1.0, 0.7),
    "reach": Prior(1.0, 0.7),
    "noise": Prior(0.05, 1.2),
    "nugget": Prior(0.02, 1.2),
}


@dataclass(frozen=True)
class Form:
    """Which parts a covariance has, and the priors of their parameters."""

    is_rough: bool = False
    has_curves: bool = True
    has_pairs: bool = True
    priors: Mapping[str, Prior] = field(default_factory=dict)


#: Few axes matter, and those may matter much.
_SPARSE = {"slope": Prior(0.3, 2.0), "curve": Prior(0.2, 2.0), "bump": Prior(0.15, 2.0)}
#: Around a law that is the trend already: deviations that end where the data end.
_RESIDUAL = {
    "slope": Prior(0.02, 0.5),
    "level": Prior(0.05, 0.7),
    "bump": Prior(0.3, 1.0),
    "field": Prior(0.5, 1.0),
}
FORMS: dict[str, Form] = {
    "smooth": Form(),
    "rough": Form(is_rough=True),
    "sparse": Form(is_rough=True, priors=_SPARSE),
    "residual": Form(has_curves=False, has_pairs=False, priors=_RESIDUAL),
}


class Coordinates(NamedTuple):
    """Rows as a covariance sees them: the trend at one place, the processes at another."""

    trend: Array  # one column per feature of the trend
    z: Array
    codes: NDArray[np.int64]


class Kernel:
    """The covariance of one form on given axes, as a function of its log parameters.

    Attributes
    ----------
    median, spread
        The prior of the log parameters.
    feature_parameter, feature_group
        The parameter, and the axis or category, of each feature of the trend.
    """

    def __init__(self, axes: Axes, form: Form, noise: Prior | None = None) -> None:
        self.axes = axes
        self.form = form
        n, c = axes.n_axes, len(axes.groups)
        curved = np.flatnonzero(axes.has_curve) if form.has_curves else np.zeros(0, dtype=np.int64)
        self.curved = curved
        levels = np.repeat(np.arange(c), [len(group) for group in axes.groups])
        self.feature_parameter = np.concatenate(
            [np.arange(n), n + np.arange(len(curved)), n + len(curved) + levels]
        ).astype(np.int64)
        self.feature_group = np.concatenate([np.arange(n), curved, n + levels]).astype(np.int64)
        self.own_pairs, self.own_counts = _own_pairs(len(self.feature_group), curved, n)
        counts = {
            "slope": n, "curve": len(curved), "level": c,
            "pairs": int(form.has_pairs and n + c > 1), "bump": n, "field": 1,
            "length": n, "reach": c, "noise": 1, "nugget": 1,
        }  # fmt: skip
        ends = np.cumsum(list(counts.values()))
        self.slices = {
            kind: slice(int(end) - count, int(end))
            for (kind, count), end in zip(counts.items(), ends, strict=True)
        }
        priors = {**_USUAL, **form.priors}
        if noise is not None:
            priors["noise"] = noise
        shrink = max(1.0, np.sqrt(n / _MANY_AXES))
        medians = {kind: prior.median for kind, prior in priors.items()}
        for kind in ("slope", "curve", "bump"):
            medians[kind] /= shrink
        medians["length"] *= shrink
        self.median = np.log(np.concatenate([np.full(k, medians[i]) for i, k in counts.items()]))
        self.spread = np.concatenate([np.full(k, priors[i].spread) for i, k in counts.items()])

    def coordinates(self, x: Array) -> Coordinates:
        """Compute what the covariance needs of each row."""
        z = self.axes.coordinates(x)
        trend = [z]
        if self.form.has_curves:
            trend.append(self.axes.curves(z))
        trend += [(x[:, list(group)] != 0).astype(float) for group in self.axes.groups]
        nearest = np.clip(z, self.axes.low, self.axes.high)  # within the training range
        return Coordinates(np.hstack(trend), nearest, self.axes.codes(x))

    def variances(self, theta: Array) -> Array:
        """Return the prior variance of each feature of the trend."""
        n_parameters = self.slices["level"].stop
        return np.exp(2 * theta[:n_parameters])[self.feature_parameter]

    def pair_variance(self, theta: Array) -> float:
        """Return the prior variance of interactions."""
        pairs = theta[self.slices["pairs"]]
        return float(np.exp(2 * pairs[0])) if len(pairs) else 0.0


def _own_pairs(
    n_features: int, curved: NDArray[np.int64], n_axes: int
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], Array]:
    """Return the pairs of features of one axis, and how often each counts in a square.

    Each feature pairs with itself, and an axis with its curve. Of a category, each level pairs with
    itself alone: no row has two.
    """
    alone = np.arange(n_features)
    first = np.concatenate([alone, curved])
    second = np.concatenate([alone, n_axes + np.arange(len(curved))])
    return (first, second), np.where(first == second, 1.0, 2.0)


class Training:
    """The covariance among training rows, and its derivatives.

    Rows have few values in common on many axes, as those of a sweep do. So what depends on a
    distance is worked out for the pairs of values that occur, and looked up for those of rows.
    """

    def __init__(self, kernel: Kernel, rows: Coordinates, weight: Array) -> None:
        self.kernel = kernel
        self.rows = rows
        self.weight = weight
        n_rows, n_axes = rows.z.shape
        of_axis, self._pairs = [], np.empty((n_axes, n_rows, n_rows), dtype=np.intp)
        start = 0
        for pairs, z in zip(self._pairs, rows.z.T, strict=True):
            values, position = np.unique(z, return_inverse=True)
            if len(values) == n_rows:  # in the order of the rows, they are found faster
                values, position = z, np.arange(n_rows)
            of_axis.append(np.abs(values[:, None] - values).ravel())
            np.add.outer(start + position * len(values), position, out=pairs)
            start += len(values) ** 2
        self._n_pairs = [len(own) for own in of_axis]
        self._distances = np.concatenate([*of_axis, np.zeros(0)])
        # Scratch memory: allocating it each time would cost more than the arithmetic.
        self._matern = np.empty(self._pairs.shape)
        self._pads = np.empty((2, n_rows, n_rows))

    @cached_property
    def is_lower(self) -> NDArray[np.bool_]:
        """Which entries of a matrix are on its diagonal or below."""
        return np.tri(len(self.weight), dtype=bool)

    @cached_property
    def _differs(self) -> list[NDArray[np.bool_]]:
        codes = self.rows.codes
        return [codes[:, c, None] != codes[:, c] for c in range(codes.shape[1])]

    def noise(self, theta: Array) -> Array:
        """Return the variance of each row's value around the process."""
        at = self.kernel.slices
        noise, nugget = np.exp(2 * theta[at["noise"]][0]), np.exp(2 * theta[at["nugget"]][0])
        variance: Array = noise / self.weight + nugget + 1e-8
        return variance

    def covariance(self, theta: Array) -> tuple[Array, _Parts]:
        """Return the covariance of the values, and the parts its gradient needs.

        The parts hold until the next call.
        """
        parts = self._parts(theta)
        total = _CONSTANT + parts.trend + parts.pairs + parts.product
        bumps = np.exp(2 * theta[self.kernel.slices["bump"]])
        for bump, value in zip(bumps, parts.matern, strict=True):
            total += np.multiply(bump, value, out=self._pads[0])
        total.flat[:: len(total) + 1] += self.noise(theta)
        return total, parts

    def _parts(self, theta: Array) -> _Parts:
        kernel = self.kernel
        features = self.rows.trend * np.sqrt(kernel.variances(theta))
        trend = features @ features.T
        own = features[:, kernel.own_pairs[0]] * features[:, kernel.own_pairs[1]]
        pair_variance = kernel.pair_variance(theta)
        pairs = np.zeros_like(trend)
        if pair_variance:  # all products of two parts, but for those of an axis with itself
            pairs = 0.5 * pair_variance * (trend * trend - (own * kernel.own_counts) @ own.T)
        lengths = np.repeat(np.exp(theta[kernel.slices["length"]]), self._n_pairs)
        of_pair, growth = _matern_with_slope(
            self._distances / lengths, is_rough=kernel.form.is_rough
        )
        matern = of_pair.take(self._pairs, out=self._matern, mode="clip")
        product = np.full_like(trend, np.exp(2 * theta[kernel.slices["field"]][0]))
        for value in matern:
            product *= value
        apart = np.exp(-1 / np.exp(theta[kernel.slices["reach"]]))
        for differs, factor in zip(self._differs, apart, strict=True):
            np.multiply(product, factor, out=product, where=differs)
        return _Parts(features, own, trend, pairs, pair_variance, matern, growth, product)

    def gradient(self, theta: Array, parts: _Parts, outer: Array) -> Array:
        """Return the sum of ``outer`` times the derivative of the covariance by each parameter."""
        at = self.kernel.slices
        gradient = np.zeros(len(theta))
        self._trend_gradient(gradient, parts, outer)
        if parts.pair_variance:
            gradient[at["pairs"]] = 2 * np.vdot(outer, parts.pairs)
        with_product = outer * parts.product
        gradient[at["field"]] = 2 * np.sum(with_product)
        bumps = np.exp(2 * theta[at["bump"]])
        weighed, growth = self._pads
        for j, (value, pairs) in enumerate(zip(parts.matern, self._pairs, strict=True)):
            gradient[at["bump"].start + j] = 2 * bumps[j] * np.vdot(outer, value)
            np.multiply(bumps[j], outer, out=weighed)
            np.multiply(weighed, value, out=weighed)
            np.add(with_product, weighed, out=weighed)
            parts.growth.take(pairs, out=growth, mode="clip")
            gradient[at["length"].start + j] = np.vdot(weighed, growth)
        reaches = np.exp(theta[at["reach"]])
        for c, differs in enumerate(self._differs):
            gradient[at["reach"].start + c] = np.vdot(with_product, differs) / reaches[c]
        diagonal = np.diagonal(outer)
        noise = np.exp(2 * theta[at["noise"]][0])
        gradient[at["noise"]] = 2 * noise * np.sum(diagonal / self.weight)
        gradient[at["nugget"]] = 2 * np.exp(2 * theta[at["nugget"]][0]) * diagonal.sum()
        return gradient

    def _trend_gradient(self, gradient: Array, parts: _Parts, outer: Array) -> None:
        kernel, features = self.kernel, parts.features
        weighed = outer * (1 + parts.pair_variance * parts.trend)
        by_feature = np.einsum("nf,nf->f", features, weighed @ features)
        if parts.pair_variance:
            by_pair = parts.pair_variance * np.einsum("np,np->p", parts.own, outer @ parts.own)
            first, second = kernel.own_pairs
            np.subtract.at(by_feature, first, by_pair)
            np.subtract.at(by_feature, second, np.where(first != second, by_pair, 0.0))
        np.add.at(gradient, kernel.feature_parameter, 2 * by_feature)


class _Parts(NamedTuple):
    """What a covariance is made of.

    Attributes
    ----------
    own
        Products of two features of one axis, whose interaction is left out.
    matern
        The correlation along each axis.
    growth
        By which factor it grows with the log of the length, for each pair of values.
    """

    features: Array
    own: Array
    trend: Array
    pairs: Array
    pair_variance: float
    matern: Array
    growth: Array
    product: Array


def _matern_with_slope(distance: Array, *, is_rough: bool) -> tuple[Array, Array]:
    """Return the correlation, and the derivative of its logarithm by that of the length."""
    if is_rough:
        return np.exp(-distance), distance
    scaled = np.sqrt(5.0) * distance
    polynomial = 1 + scaled * (1 + scaled / 3)
    return polynomial * np.exp(-scaled), scaled * scaled * (1 + scaled) / (3 * polynomial)
