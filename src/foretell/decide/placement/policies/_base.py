"""What a policy is: it scores the nodes that can take a task, and the best score wins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pydantic
from numpy.typing import NDArray

if TYPE_CHECKING:
    from foretell.decide.placement.fleet import Candidates
    from foretell.decide.placement.optimum import Problem

Array = NDArray[np.float64]
Together = Literal["none", "arriving", "waiting"]
TIME, ENERGY, POWER = "time", "energy", "power"


class Options(pydantic.BaseModel):
    """The options of a policy, besides those that all have."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Policy(ABC):
    """A rule that picks a node. It is a pure function of the candidates and the seed.

    Attributes
    ----------
    options_class
        What can be set, besides H.
    ties
        Which of several nodes with the best score is taken: the one with the least or the most CPUs
        left, by H; the first by name; or one at random.
    can_move
        Whether its scores use times and energies alone, so that they can compare a running task
        with the same task on another node.
    together
        Which tasks it places at once by ``assign``: those that arrive at the same moment, or all
        that wait.
    """

    options_class: ClassVar[type[Options]] = Options
    ties: ClassVar[Literal["by H", "name", "random"]] = "name"
    can_move: ClassVar[bool] = False
    together: ClassVar[Together] = "none"

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or self.options_class()

    def needed(self, H: float) -> Sequence[str]:
        """Return what must be known of a node (TIME, ENERGY, POWER), or it gets the median score.

        By default, the policy uses no predictions.
        """
        return ()

    @abstractmethod
    def scores(self, candidates: Candidates, H: float, random: np.random.Generator) -> Array:
        """Return a score for each candidate; more is better. All that is needed is known."""

    def shown(self, scores: Array) -> Array:
        """Return scores as people see them, with the same order."""
        return scores

    def beats_by(self, scores: Array, stay: float) -> Array:
        """Return by which share each score beats that of staying, if ``can_move``."""
        return scores - stay

    def assign(self, problem: Problem) -> list[int | None] | None:
        """Place several tasks at once; None to place them one after the other by score."""
        return None


def weighted(H: float) -> list[str]:
    """Return what a policy that weighs energy by H needs: energy unless H is 0, time unless 1."""
    return [*([ENERGY] if H > 0 else []), *([TIME] if H < 1 else [])]
