"""The heats policy: energy and performance relative to the worst and the best candidate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from foretell.decide.placement.policies._base import Array, Policy, weighted

if TYPE_CHECKING:
    from foretell.decide.placement.fleet import Candidates


class HeatsPolicy(Policy):
    """Score H·(1 − E/max E) + (1−H)·P/max P, where performance P is 1/T.

    This is the rule as published. The scale depends on all candidates: a third node can change
    which of two others is better. The geometric policy does not have this fault.
    """

    ties = "by H"
    can_move = True

    def needed(self, H: float) -> Sequence[str]:
        """Energy unless H is 0, and time unless H is 1."""
        return weighted(H)

    def scores(self, candidates: Candidates, H: float, random: np.random.Generator) -> Array:
        """Return scores from 0 to 1."""
        found = np.zeros(len(candidates.nodes))
        if H > 0:
            most = candidates.energy_j.max()
            found += H * (1 - candidates.energy_j / most) if most > 0 else H
        if H < 1:
            found += (1 - H) * candidates.time_s.min() / candidates.time_s
        return found

    def shown(self, scores: Array) -> Array:
        """Return percentages."""
        return 100 * scores
