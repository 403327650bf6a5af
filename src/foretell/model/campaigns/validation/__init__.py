"""Validation: splits into training and test rows, and error scores."""

from __future__ import annotations

from foretell.model.campaigns.validation.scores import Scores, score
from foretell.model.campaigns.validation.splits import Split, make_splits

__all__ = ["Scores", "Split", "make_splits", "score"]
