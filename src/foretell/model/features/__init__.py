"""Features: columns of the table in, a matrix of numbers out; one file per kind, one line here."""

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
