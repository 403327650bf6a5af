"""Search: which hyperparameters to try next; a grid, or Bayesian with TPE."""

from __future__ import annotations

from foretell.model.search._base import Search
from foretell.model.search.grid import GridSearch
from foretell.model.search.space import search_space
from foretell.model.search.tpe import TPESearch

__all__ = ["GridSearch", "Search", "TPESearch", "search_space"]
