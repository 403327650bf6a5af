"""Inverses and logarithms: work divided among workers, depths of reduction trees, power laws."""

from __future__ import annotations

from dataclasses import replace

from foretell.errors import UsageError, suggest
from foretell.model.campaigns.schema import ALL_COLUMNS, Features
from foretell.model.features.feature import Feature


def add_inverses(features: list[Feature], options: Features) -> list[Feature]:
    """Add ``inverse_x`` = 1/x for each chosen feature."""
    return features + _with_step("inverse", options.inverse, features)


def add_logarithms(features: list[Feature], options: Features) -> list[Feature]:
    """Add ``log_x`` = ln x for each chosen feature, inverses included."""
    return features + _with_step("log", options.log, features)


def _with_step(step: str, names: list[str], features: list[Feature]) -> list[Feature]:
    """Send the chosen features, of one factor each, through one more step."""
    found = []
    for feature in _chosen(step, names, features):
        (factor,) = feature.factors
        extended = replace(factor, steps=(*factor.steps, step))
        found.append(Feature(f"{step}_{feature.name}", (extended,)))
    return found


def _chosen(option: str, names: list[str], features: list[Feature]) -> list[Feature]:
    """Find the features an option names; ``["*"]`` means every numeric one."""
    if names == [ALL_COLUMNS]:
        return [f for f in features if f.is_numeric]
    by_name = {f.name: f for f in features}
    at = ("features", option)
    for name in names:
        if name not in by_name:
            levels = [f.name for f in features if f.factors[0].column == name]
            if levels:
                raise UsageError(f"'{name}' is a category, not a number; leave it out", at=at)
            raise UsageError(f"there is no column '{name}' to use. {suggest(name, by_name)}", at=at)
        if not by_name[name].is_numeric:
            raise UsageError(f"'{name}' is true or false, not a number; leave it out", at=at)
    return [by_name[name] for name in dict.fromkeys(names)]
