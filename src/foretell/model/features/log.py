"""Logarithms: ln x, the depth of a reduction tree, and power laws."""

from __future__ import annotations

from foretell.model.campaigns import Features
from foretell.model.features._base import Feature, FeatureFamily, chosen
from foretell.model.features.inverse import with_step


class LogFamily(FeatureFamily):
    """Add ``log_x`` = ln x for each chosen feature, inverses included."""

    def extend(self, features: list[Feature], options: Features) -> list[Feature]:
        """Add the logarithms."""
        return features + [with_step(f, "log") for f in chosen("log", options.log, features)]
