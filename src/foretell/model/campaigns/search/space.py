"""The search space of a technique: from the campaign, or the technique's default."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from foretell.model.campaigns.candidates import candidates
from foretell.model.campaigns.search.priors import Prior, parse_prior
from foretell.model.techniques import TECHNIQUES, complete

Combination = dict[str, Any]


def search_space(technique_name: str, given: Mapping[str, Any], method: str) -> list[Combination]:
    """List the combinations to try; with ``tpe`` their values may be priors.

    An empty table means the technique's default space. If a table lists only some
    hyperparameters, the others keep their defaults.
    """
    options = candidates(technique_name, given) if given else _default(technique_name, method)
    names = list(options)
    combinations = [dict(zip(names, values, strict=True)) for values in product(*options.values())]
    return [_completed(technique_name, c) for c in combinations]


def priors_in(combination: Mapping[str, Any]) -> dict[str, Prior]:
    """Find the priors among the values of one combination."""
    priors = {name: parse_prior(value) for name, value in combination.items()}
    return {name: prior for name, prior in priors.items() if prior is not None}


def _default(technique_name: str, method: str) -> dict[str, list[Any]]:
    hyperparameters = TECHNIQUES.get(technique_name).hyperparameters
    if method == "tpe":
        return {h.name: [h.prior or h.default] for h in hyperparameters}
    return {h.name: list(h.grid) or [h.default] for h in hyperparameters}


def _completed(technique_name: str, combination: Combination) -> Combination:
    """Fill in defaults, and convert all values except priors."""
    technique = TECHNIQUES.get(technique_name)
    priors = priors_in(combination)
    fixed = {k: v for k, v in combination.items() if k not in priors}
    values = complete(technique, fixed)
    return {
        h.name: combination[h.name] if h.name in priors else values[h.name]
        for h in technique.hyperparameters
    }
