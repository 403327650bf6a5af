"""What passes before the first epoch of a trial: as given, then as seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: How far off one start is, as a logarithm, and how many starts what was given counts for.
_EACH, _GIVEN_COUNTS = 0.4, 4
#: Longer ones than this many times the median are slots that had to wait for other trials.
_MOST_OF_MEDIAN = 1.5


@dataclass(frozen=True)
class StartUps:
    """The time between a free slot and the first epoch of a trial in it.

    The first starts of a search say less than their number: all of them begin on an idle machine,
    and later ones beside trials that train or end. That is why what was given counts on.

    Attributes
    ----------
    given_s
        What is known before; 0 says that nothing is.
    seen_s
        Of the trials so far.

    >>> StartUps(5.0).mean_s, StartUps(5.0, [8.0, 8.0]).mean_s, StartUps(0.0, [8.0]).mean_s
    (5.0, 6.0, 8.0)
    """

    given_s: float
    seen_s: Sequence[float] = ()

    @property
    def _n_given(self) -> int:
        return _GIVEN_COUNTS if self.given_s > 0 else 0

    @property
    def mean_s(self) -> float:
        """The mean, as a search takes the sum of all."""
        seen = np.minimum(self.seen_s, _MOST_OF_MEDIAN * np.median(self.seen_s or [0.0]))
        n = self._n_given + len(seen)
        return float((self._n_given * self.given_s + seen.sum()) / n) if n else 0.0

    def draw(self, random: np.random.Generator) -> float:
        """Draw the mean of the starts to come."""
        n = max(self._n_given + len(self.seen_s), 1)
        return float(self.mean_s * np.exp(_EACH / np.sqrt(n) * random.standard_normal()))
