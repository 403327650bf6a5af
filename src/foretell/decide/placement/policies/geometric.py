"""The geometric policy: a weighted mean of the logarithms of energy and time; the default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from foretell.decide.placement.policies._base import Array, Policy, Together, weighted

if TYPE_CHECKING:
    from foretell.decide.placement.fleet import Candidates
    from foretell.decide.placement.optimum import Problem

_LEAST = 1e-12  # of an energy: a node whose power does not grow with load adds nothing


class GeometricPolicy(Policy):
    """Score −[H·ln(E/min E) + (1−H)·ln(T/min T)].

    Twice the energy counts as much whatever the unit. Which of two nodes is better does not depend
    on other nodes. Tasks that arrive together do not take each other's best node if they need not.
    """

    ties = "by H"
    can_move = True
    together: ClassVar[Together] = "arriving"

    def needed(self, H: float) -> Sequence[str]:
        """Energy unless H is 0, and time unless H is 1."""
        return weighted(H)

    def scores(self, candidates: Candidates, H: float, random: np.random.Generator) -> Array:
        """Return logarithms; that of the best candidate is at most 0."""
        found = np.zeros(len(candidates.nodes))
        if H > 0:
            energy = np.maximum(candidates.energy_j, _LEAST)
            found -= H * np.log(energy / energy.min())
        if H < 1:
            found -= (1 - H) * np.log(candidates.time_s / candidates.time_s.min())
        return found

    def shown(self, scores: Array) -> Array:
        """Return 100 for a node that is best in all that counts."""
        return 100 * np.exp(scores)

    def assign(self, problem: Problem) -> list[int | None] | None:
        """Place several tasks near the optimum; None if they are too many."""
        from foretell.decide.placement.optimum import approximate

        return approximate(problem) if problem.is_moderate else None

    def beats_by(self, scores: Array, stay: float) -> Array:
        """Return the ratio of what two choices cost, less one."""
        return np.expm1(scores - stay)
