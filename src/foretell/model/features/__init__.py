"""Features: from the columns of a table to a matrix of numbers; one file per family."""

from __future__ import annotations

from foretell.model.features._base import CATEGORY, FLAG, NUMBER, Column, Factor, Feature
from foretell.model.features.feature_map import FeatureMap, compile_features

__all__ = [
    "CATEGORY",
    "FLAG",
    "NUMBER",
    "Column",
    "Factor",
    "Feature",
    "FeatureMap",
    "compile_features",
]
