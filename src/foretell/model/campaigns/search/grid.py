"""Grid search: every combination in file order; the first option varies slowest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foretell.model.campaigns.search._base import Search


class GridSearch(Search):
    """Try a list of combinations in one batch, or in smaller batches for racing."""

    def __init__(self, combinations: list[dict[str, Any]], *, batch_size: int | None = None):
        self._combinations = combinations
        self._batch_size = batch_size or len(combinations)
        self._next = 0

    @property
    def n_trials(self) -> int:
        """Number of combinations."""
        return len(self._combinations)

    def propose(self) -> list[dict[str, Any]]:
        """Return the next batch of combinations."""
        batch = self._combinations[self._next : self._next + self._batch_size]
        self._next += len(batch)
        return batch

    def tell(self, scores: Sequence[float]) -> None:
        """Ignore the scores: the grid is fixed."""
