"""The peaks policy: the node whose power grows least, from its power curve and its load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from foretell.decide.placement.policies._base import POWER, Array, Policy

if TYPE_CHECKING:
    from foretell.decide.placement.fleet import Candidates


class PeaksPolicy(Policy):
    """Score −(P(u + Δu) − P(u)), the watts that the task adds to the node.

    A node without a power curve gets the median score; it is not rewarded.
    """

    def needed(self, H: float) -> Sequence[str]:
        """The power curve."""
        return [POWER]

    def scores(self, candidates: Candidates, H: float, random: np.random.Generator) -> Array:
        """Return watts, negated."""
        return -candidates.extra_w
