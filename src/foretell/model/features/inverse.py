"""Inverses: 1/x, the law of work divided among workers."""

from __future__ import annotations

from dataclasses import replace

from foretell.model.campaigns import Features
from foretell.model.features._base import Feature, FeatureFamily, chosen


class InverseFamily(FeatureFamily):
    """Add ``inverse_x`` = 1/x for each chosen feature."""

    def extend(self, features: list[Feature], options: Features) -> list[Feature]:
        """Add the inverses."""
        sources = chosen("inverse", options.inverse, features)
        return features + [with_step(f, "inverse") for f in sources]


def with_step(feature: Feature, step: str) -> Feature:
    """Send a one-factor feature through one more step and name it after it."""
    (factor,) = feature.factors
    extended = replace(factor, steps=(*factor.steps, step))
    return Feature(f"{step}_{feature.name}", (extended,))
