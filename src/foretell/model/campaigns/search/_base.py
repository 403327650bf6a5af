"""What a search is: it proposes batches of hyperparameters and is told how they did."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any


class Search(ABC):
    """One search over the space of one technique; the order of calls decides its result."""

    @property
    @abstractmethod
    def n_trials(self) -> int:
        """How many trials the search makes in all."""

    @abstractmethod
    def propose(self) -> list[dict[str, Any]]:
        """Return the next batch to try; empty when the search is over."""

    @abstractmethod
    def tell(self, scores: Sequence[float]) -> None:
        """Report the scores of the last batch, in its order; infinity for a failed trial."""
