"""What a fitted process expects of new rows, arranged so that many rows take little time.

Along one axis a sum of Matérn functions is, between two neighboring centers, a polynomial times a
falling exponential, and one times a rising one: what all centers to the left and to the right add
up to is summed once. The field of all axes together needs every pair of row and center, but one
exponential for all its axes. Where centers lie on few values, as those of a sweep do, less is
enough: what two halves of the axes have in common with a row is worked out for the values that
occur in each half, and joined by one product of matrices. The same holds where rows lie on a grid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import Array
from foretell.model.techniques.points.grid_rows import (
    Half,
    bound_axes,
    cheapest_halves,
    n_occurring,
    split_rows,
)
from foretell.model.techniques.processes._kernel import Coordinates, Kernel

_CHUNK_PAIRS = 1 << 17  # pairs of row and center that fit the cache together
#: Rows that are looked at for a grid together; fewer than some are not worth it.
_CHUNK_ROWS, _MANY_ROWS = 1 << 15, 1 << 9
_AXES_AT_ONCE = 16  # polynomials of more axes may overflow before their exponential is applied


class Expected:
    """The processes of a kernel, given the weights of its centers."""

    def __init__(self, kernel: Kernel, theta: Array, centers: Coordinates, alpha: Array) -> None:
        at = kernel.slices
        self.is_rough = kernel.form.is_rough
        self.alpha = alpha * np.exp(2 * theta[at["field"]][0])
        self.lengths = np.exp(theta[at["length"]]) / (1.0 if self.is_rough else np.sqrt(5.0))
        self.apart = np.exp(-1 / np.exp(theta[at["reach"]]))
        self.scaled = centers.z / self.lengths
        self.axes = [_distinct(column) for column in self.scaled.T]
        self.categories = [_distinct(column) for column in centers.codes.T]
        self.halves = _Halves.of(
            [position for _, position in (*self.axes, *self.categories)], self.alpha
        )
        self.parts = bound_axes([*kernel.axes.columns, *map(set, kernel.axes.groups)])
        bumps = zip(np.exp(2 * theta[at["bump"]]), self.axes, strict=True)
        self.bumps = _Bumps(
            [values for values, _ in self.axes],
            [np.bincount(position, alpha * bump).astype(float) for bump, (_, position) in bumps],
            is_rough=self.is_rough,
        )

    def at(self, rows: Coordinates) -> Array:
        """Return the expected sum of all processes for each row."""
        z = rows.z / self.lengths
        total = self.bumps.at(z)
        for i in range(0, len(z), _CHUNK_ROWS):
            some = slice(i, i + _CHUNK_ROWS)
            total[some] += self._field(z[some], rows.codes[some])
        return total

    def _field(self, z: Array, codes: NDArray[np.int64]) -> Array:
        """Return what the product of all correlations adds up to, in the way that costs least."""
        halves = None
        if len(z) >= _MANY_ROWS:
            table = [*z.T, *codes.T]
            steps = len(table) if self.halves is None else self.halves.cost / len(self.alpha)
            halves = split_rows(table, self.parts, len(z) * steps)
        if halves is not None:
            one, other = (self._half(half, z, codes) for half in halves)
            of_combinations: Array = (one.T * self.alpha) @ other
            return of_combinations[halves[0].of_row, halves[1].of_row]
        if self.halves is not None:
            return self.halves.at(lambda j, i: self._alike(j, z[i], codes[i]), len(z))
        step = max(1, min(len(z), _CHUNK_PAIRS // max(1, len(self.alpha))))
        pads = [np.empty(len(self.alpha) * step) for _ in range(4)]
        parts = [
            self._pairs(z[i : i + step], codes[i : i + step], pads) for i in range(0, len(z), step)
        ]
        return np.concatenate([*parts, np.zeros(0)])

    def _half(self, half: Half, z: Array, codes: NDArray[np.int64]) -> Array:
        """Return what each center has in common with each combination of a half of the axes."""
        positions = [position for _, position in (*self.axes, *self.categories)]
        product = np.ones((len(self.alpha), len(half.example)))
        for axis in half.axes:
            alike = self._alike(axis, z[half.example], codes[half.example])
            product *= alike.take(positions[axis], axis=0)
        return product

    def _alike(self, axis: int, z: Array, codes: NDArray[np.int64]) -> Array:
        """Return the correlation of each value of an axis, or level of a category, with rows."""
        if axis >= len(self.axes):
            c = axis - len(self.axes)
            return np.where(self.categories[c][0][:, None] == codes[:, c], 1.0, self.apart[c])
        distance = np.abs(self.axes[axis][0][:, None] - z[:, axis])
        correlation = np.exp(-distance)
        if not self.is_rough:
            correlation *= _polynomial(distance, np.empty_like(distance))
        return correlation

    def _pairs(self, z: Array, codes: NDArray[np.int64], pads: list[Array]) -> Array:
        """Return the same from every pair of row and center; one row per center inside.

        The pads are scratch memory: allocating it each time would cost more than the arithmetic.
        """
        shape = len(self.alpha), len(z)
        product, exponent, distance, pad = (p[: shape[0] * shape[1]].reshape(shape) for p in pads)
        product.fill(1.0)
        exponent.fill(0.0)
        for j, (values, position) in enumerate(self.axes):
            if len(values) == len(position):  # every center has its own
                np.subtract(self.scaled[:, j, None], z[:, j], out=distance)
                np.abs(distance, out=distance)
                np.subtract(exponent, distance, out=exponent)
                if not self.is_rough:
                    np.multiply(product, _polynomial(distance, pad), out=product)
                if j % _AXES_AT_ONCE == _AXES_AT_ONCE - 1:
                    np.multiply(product, np.exp(exponent, out=exponent), out=product)
                    exponent.fill(0.0)
            else:
                np.take(self._alike(j, z, codes), position, axis=0, out=pad, mode="clip")
                np.multiply(product, pad, out=product)
        for c, (_, position) in enumerate(self.categories, start=len(self.axes)):
            np.take(self._alike(c, z, codes), position, axis=0, out=pad, mode="clip")
            np.multiply(product, pad, out=product)
        np.multiply(product, np.exp(exponent, out=exponent), out=product)
        field: Array = self.alpha @ product
        return field


class _Half(NamedTuple):
    """Some axes, and the combinations of their values that occur: one row of positions each."""

    axes: tuple[int, ...]
    occurring: NDArray[np.int64]

    def correlation(self, alike: list[Array]) -> Array:
        """Return what each combination has in common with rows, given that of the values."""
        product = alike[0].take(self.occurring[:, 0], axis=0)
        for correlation, position in zip(alike[1:], self.occurring.T[1:], strict=True):
            product *= correlation.take(position, axis=0)
        return product


class _Halves(NamedTuple):
    """The sum over all centers as a product: one half of the axes, weights, the other half."""

    first: _Half
    weight: Array
    second: _Half
    cost: float  # in steps per row

    @classmethod
    def of(cls, positions: list[NDArray[np.int64]], alpha: Array) -> _Halves | None:
        """Split the axes where that costs least; None if no split costs less than none at all."""
        if not positions:
            return None
        table = np.column_stack(positions)
        n_axes = len(positions)
        best = cheapest_halves(
            [1] * n_axes, lambda choices: n_occurring(table, choices), len(alpha) * n_axes
        )
        if best is None:
            return None
        (first, second), cost = best
        (one, which), (other, where) = (
            np.unique(table[:, half], axis=0, return_inverse=True) for half in (first, second)
        )
        weight = np.zeros((len(one), len(other)))
        np.add.at(weight, (which.ravel(), where.ravel()), alpha)
        return cls(_Half(first, one), weight, _Half(second, other), cost)

    def at(self, alike: Callable[[int, slice], Array], n_rows: int) -> Array:
        """Return the sum for each row; ``alike`` tells what values of an axis have in common."""
        total = np.empty(n_rows)
        step = max(1, _CHUNK_PAIRS // max(self.weight.shape))
        for i in range(0, n_rows, step):
            rows = slice(i, i + step)
            one, other = (
                half.correlation([alike(axis, rows) for axis in half.axes])
                for half in (self.first, self.second)
            )
            one *= self.weight @ other
            total[rows] = one.sum(axis=0)
        return total


def _polynomial(distance: Array, out: Array) -> Array:
    """Return what Matérn's smooth correlation has before its exponential."""
    np.multiply(distance, 1 / 3, out=out)
    out += 1
    out *= distance
    out += 1
    return out


def _distinct(column: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    values, position = np.unique(column, return_inverse=True)
    return values, position.ravel()


class _Moments(NamedTuple):
    """Sums of weight · distance^p · exp(-distance), p from 0 to 2, over all knots on one side."""

    plain: Array
    first: Array
    second: Array

    @classmethod
    def of(cls, knots: Array, weight: Array) -> _Moments:
        """Sum up from the left, knot by knot."""
        sums = np.zeros((3, len(knots)))
        plain = first = second = 0.0
        steps = np.diff(knots, prepend=knots[:1]).tolist()
        for k, (step, own) in enumerate(zip(steps, weight.tolist(), strict=True)):
            fall = float(np.exp(-step))
            second = fall * (second + step * (2 * first + step * plain))
            first = fall * (first + step * plain)
            plain = fall * plain + own
            sums[:, k] = plain, first, second
        return cls(*sums)

    def at(self, knot: NDArray[np.int64], distance: Array, *, is_rough: bool) -> Array:
        """Return the sum of all correlations with what lies at a distance from a knot."""
        total = self.plain[knot]
        if not is_rough:
            total = total * (1 + distance * (1 + distance / 3))
            total += self.first[knot] * (1 + distance * (2 / 3)) + self.second[knot] / 3
        return total * np.exp(-distance)


class _Bumps:
    """Sums of Matérn functions of one axis each, around its knots, in units of their length."""

    def __init__(self, knots: list[Array], weights: list[Array], *, is_rough: bool) -> None:
        self.knots = knots
        self.is_rough = is_rough
        self.starts = np.cumsum([0, *(len(own) for own in knots)])
        self.all_knots = np.concatenate([*knots, np.zeros(0)])
        both = list(zip(knots, weights, strict=True))
        self.left = _joined([_Moments.of(own, weight) for own, weight in both])
        mirrored = [_Moments.of(-own[::-1], weight[::-1]) for own, weight in both]
        self.right = _joined([_Moments(*(part[::-1] for part in m)) for m in mirrored])

    def at(self, z: Array) -> Array:
        """Return the sum over all axes, one per row."""
        total = np.zeros(len(z))
        if not self.knots:
            return total
        above = np.column_stack(  # the first knot to the right: each knot counts on one side
            [np.searchsorted(own, z[:, j], side="right") for j, own in enumerate(self.knots)]
        )
        n_knots = np.diff(self.starts)
        for side, is_there, knot in (
            (self.left, above > 0, above - 1),
            (self.right, above < n_knots, above),
        ):
            knot = self.starts[:-1] + np.where(is_there, knot, 0)
            distance = np.abs(z - self.all_knots[knot])
            sums = side.at(knot, distance, is_rough=self.is_rough)
            total += np.where(is_there, sums, 0.0).sum(axis=1)
        return total


def _joined(moments: list[_Moments]) -> _Moments:
    if not moments:
        return _Moments(np.zeros(0), np.zeros(0), np.zeros(0))
    return _Moments(*(np.concatenate(parts) for parts in zip(*moments, strict=True)))
