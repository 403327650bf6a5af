"""From a transform to probabilities and quantiles, with checks that the result can be trusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import special

from foretell.decide.queueing.service._base import Complex, Reals

Transform = Callable[[Complex], Complex]

#: The error of sampling the transform is exp(−_A).
_A = 18.4
_N_PLAIN, _N_AVERAGED = 20, 11
#: Where the times have jumps: they are blurred by this share, and more nodes are used.
_BLUR = 0.004
_N_BLURRED = 500
#: Times nearer to the least one are taken to be this share beyond: exp(s·least) must be finite.
_LEAST_STEP = 0.014
#: How far probabilities may be out of order or beyond 0 and 1.
_SLACK = 1e-4
_N_POINTS = 25
_MOST_LEFT = 5e-3  # beyond the last of these points
_MOST_STEPS = 60


@dataclass(frozen=True, eq=False)
class Distribution:
    """The distribution of a time, by its transform.

    Attributes
    ----------
    scale
        A typical time, such as the mean.
    least
        A time that is never gone below.
    is_blurred
        Whether jumps are blurred, by 0.4 % of the time.
    """

    transform: Transform
    scale: float
    least: float = 0.0
    is_blurred: bool = False

    def tail(self, times: Reals) -> Reals:
        """Return the probabilities of taking longer."""
        return self._blurred(times) if self.is_blurred else self._euler(times)

    def cdf(self, times: Reals) -> Reals:
        """Return the probabilities of taking at most these times."""
        return np.clip(1 - self.tail(np.asarray(times, dtype=float)), 0.0, 1.0)

    def _euler(self, times: Reals) -> Reals:
        """Invert by Euler's method: a Fourier series, whose last sums are averaged."""
        found = np.ones_like(times)
        is_inside = times > self.least
        t = np.maximum(times[is_inside] - self.least, _LEAST_STEP * self.least)[:, None]
        k = np.arange(_N_PLAIN + _N_AVERAGED + 1)
        s = (_A + 2j * np.pi * k) / (2 * t)
        terms = ((1 - self.transform(s) * np.exp(s * self.least)) / s).real * (-1.0) ** k
        terms[:, 1:] *= 2
        sums = np.cumsum(terms, axis=1)[:, _N_PLAIN:]
        weights = special.binom(_N_AVERAGED, np.arange(_N_AVERAGED + 1)) / 2.0**_N_AVERAGED
        found[is_inside] = math.exp(_A / 2) / (2 * t[:, 0]) * (sums @ weights)
        return found

    def _blurred(self, times: Reals) -> Reals:
        """Invert with a little normal noise added, which ends the series without averaging."""
        found = np.ones_like(times)
        is_inside = times > 0
        t = times[is_inside][:, None]
        k = np.arange(_N_BLURRED + 1)
        s = (_A + 2j * np.pi * k) / (2 * t)
        noise = np.exp((_BLUR * t * s) ** 2 / 2)
        terms = (self.transform(s) * noise / s).real * (-1.0) ** k
        terms[:, 1:] *= 2
        found[is_inside] = 1 - math.exp(_A / 2) / (2 * t[:, 0]) * terms.sum(axis=1)
        return found

    @cached_property
    def _curve(self) -> tuple[Reals, Reals]:
        """Times from few jobs to almost all, and the unclipped probabilities of at most them."""
        far = np.asarray(self.least + self.scale * 2.0 ** np.arange(-1, 13), dtype=float)
        reached = np.flatnonzero(self.tail(far) < _MOST_LEFT)
        last = far[reached[0]] if len(reached) else far[-1]
        near = self.least + (last - self.least) * np.geomspace(2e-3, 1.0, _N_POINTS)
        return near, 1 - self.tail(near)

    @property
    def is_sound(self) -> bool:
        """Whether probabilities are in order, and between 0 and 1."""
        values = self._curve[1]
        is_ordered = bool((np.diff(values) > -_SLACK).all())
        return is_ordered and bool(values.min() > -_SLACK and values.max() < 1 + _SLACK)

    @property
    def trusted(self) -> Distribution | None:
        """This distribution; blurred where it has jumps; None if neither can be trusted."""
        blurred = replace(self, is_blurred=True)
        return next((d for d in (self, blurred) if d.is_sound), None)

    def quantiles(self, probabilities: Sequence[float]) -> Reals:
        """Return the times that are kept with these probabilities."""
        wanted = np.asarray(probabilities, dtype=float)
        times, values = self._curve
        while values[-1] < wanted.max(initial=0.0) and len(times) < 2 * _N_POINTS:
            times = np.append(times, 2 * times[-1])
            values = np.append(values, 1 - self.tail(times[-1:]))
        values = np.maximum.accumulate(values)
        above = np.minimum(np.searchsorted(values, wanted), len(times) - 1)
        low = np.where(above > 0, times[above - 1], self.least)
        low_value = np.where(above > 0, values[above - 1], 0.0)
        return roots_between(
            lambda t: 1 - self.tail(t) - wanted,
            (low, low_value - wanted), (times[above], values[above] - wanted), tolerance=1e-9,
        )  # fmt: skip


def roots_between(
    function: Callable[[Reals], Reals],
    left: tuple[Reals, Reals],
    right: tuple[Reals, Reals],
    tolerance: float,
) -> Reals:
    """Find a root in each interval at once, by false position with halved ends (Illinois).

    Both ends come with the values of the function there; it is found where these are within the
    tolerance of 0.
    """
    (a, fa), (b, fb) = left, right
    x = b
    for _ in range(_MOST_STEPS):
        with np.errstate(invalid="ignore", divide="ignore"):
            x = np.where(fb != fa, b - fb * (b - a) / (fb - fa), b)
        x = np.clip(x, np.minimum(a, b), np.maximum(a, b))
        fx = function(x)
        is_crossed = fx * fb < 0
        a, fa = np.where(is_crossed, b, a), np.where(is_crossed, fb, fa / 2)
        b, fb = x, fx
        if (np.abs(fx) < tolerance).all() or (np.abs(b - a) <= 1e-9 * np.abs(b)).all():
            break
    return x
