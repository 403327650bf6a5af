"""The random policy: any node that has room, by the seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foretell.decide.placement.policies._base import Array, Policy

if TYPE_CHECKING:
    from foretell.decide.placement.fleet import Candidates


class RandomPolicy(Policy):
    """All nodes with room are equal, and one is drawn."""

    ties = "random"

    def scores(self, candidates: Candidates, H: float, random: np.random.Generator) -> Array:
        """Return equal scores."""
        return np.zeros(len(candidates.nodes))
