"""The first_fit policy: the first node by name that has room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foretell.decide.placement.policies._base import Array, Policy

if TYPE_CHECKING:
    from foretell.decide.placement.fleet import Candidates


class FirstFitPolicy(Policy):
    """All nodes with room are equal, and the first by name is taken."""

    def scores(self, candidates: Candidates, H: float, random: np.random.Generator) -> Array:
        """Return equal scores."""
        return np.zeros(len(candidates.nodes))
