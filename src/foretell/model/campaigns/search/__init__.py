"""Hyperparameter search: a grid, or Bayesian optimization with TPE."""

from __future__ import annotations

from foretell.model.campaigns.search._base import Search
from foretell.model.campaigns.search.grid import GridSearch
from foretell.model.campaigns.search.space import search_space
from foretell.model.campaigns.search.tpe import TPESearch

__all__ = ["GridSearch", "Search", "TPESearch", "search_space"]
