"""A time by its first three moments: a least time and a gamma distribution beyond it; many at once.

Waits depend on services mostly by their first three moments. A choice asks for thousands of
response times, and this transform costs the same however many phases the service has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from foretell.decide.queueing.service._base import Complex, Reals

#: Variations below 3 % count as that: a constant would make the distribution jump.
_LEAST_SCV = 1e-3


@dataclass(frozen=True, eq=False)
class ShiftedGamma:
    """Times ``least`` + gamma(``shape``, ``scale``), one row of arrays each."""

    moments: tuple[Any, Any, Any]
    least: Any
    shape: Any
    scale: Any

    @classmethod
    def of(cls, moments: Reals) -> ShiftedGamma:
        """Return times with these moments; the last axis has the means of S, S² and S³.

        Times that vary least on the long side, which no such distribution does, get two moments.
        """
        first, second, third = (moments[..., i, None] for i in range(3))
        variance = np.maximum(second - first**2, _LEAST_SCV * first**2)
        skew = np.maximum(third - 3 * first * second + 2 * first**3, 0.0) / variance**1.5
        spread = np.sqrt(variance)
        with np.errstate(divide="ignore"):
            least = np.where(skew > 0, first - 2 * spread / skew, -1.0)
        least = np.clip(least, 0.0, first - spread / 1e3)
        beyond = first - least
        shape, scale = beyond**2 / variance, variance / beyond
        return cls((first, first**2 + variance, third), least, shape, scale)

    @property
    def mean(self) -> Any:
        """The means of S."""
        return self.moments[0]

    def transform(self, z: Complex) -> Complex:
        """Return the means of exp(−z·S), row by row."""
        found: Complex = np.exp(-z * self.least - self.shape * np.log1p(z * self.scale))
        return found
