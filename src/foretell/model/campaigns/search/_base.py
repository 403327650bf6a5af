"""The interface of a search: propose hyperparameters, then receive their scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any


class Search(ABC):
    """One search over the space of one technique; equal scores give equal proposals."""

    @property
    @abstractmethod
    def n_trials(self) -> int:
        """Total number of trials."""

    @abstractmethod
    def propose(self) -> list[dict[str, Any]]:
        """Return the next batch to try; empty at the end of the search."""

    @abstractmethod
    def tell(self, scores: Sequence[float]) -> None:
        """Report the scores of the last batch, in its order; infinity for a failed trial."""
