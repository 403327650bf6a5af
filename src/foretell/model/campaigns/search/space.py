"""The values to search for each hyperparameter: from the campaign, checked, or the defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from foretell.errors import UsageError, suggest
from foretell.files.complaints import shown
from foretell.model.campaigns.search.priors import Prior, parse_prior
from foretell.model.techniques import TECHNIQUES, Hyperparameter, complete


def candidates(technique_name: str, space: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return each option of a technique's table as a list, even if a single value is given."""
    known = {h.name: h for h in TECHNIQUES.get(technique_name).hyperparameters}
    return {name: _as_list(values, known.get(name)) for name, values in space.items()}


def faults(technique_name: str, space: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the problems of a technique's table: the path to each, and what is wrong."""
    try:
        known = {h.name: h for h in TECHNIQUES.get(technique_name).hyperparameters}
    except UsageError as error:
        yield (), str(error)
        return
    for name in space:
        if name not in known:
            names = suggest(name, known) if known else "It has none."
            yield (name,), f"{technique_name} has no hyperparameter '{name}'. {names}"
            return
    for name, values in candidates(technique_name, space).items():
        if not values:
            yield (name,), "the list of values must not be empty"
        for value in values:
            text = _fault(known[name], value)
            if text is not None:
                yield (name,), text


def _fault(hyperparameter: Hyperparameter, value: Any) -> str | None:
    try:
        prior = parse_prior(value)
    except UsageError as error:
        return str(error)
    if prior is None:
        return _refusal(hyperparameter, value)
    refusals = [_refusal(hyperparameter, one) for one in prior.examples()]
    # An invalid draw from a range is drawn again, but every option must be valid.
    is_refused = any(refusals) if prior.options is not None else all(refusals)
    reason = next(filter(None, refusals), None)
    return f"{reason}, as {prior.text} may give" if is_refused else None


def _refusal(hyperparameter: Hyperparameter, value: Any) -> str | None:
    try:
        hyperparameter.read(value)
    except ValueError as error:
        return str(error)
    except (TypeError, OverflowError):
        return f"must be a value, a list of values or a prior, not {shown(value)}"
    return None


def _as_list(values: Any, hyperparameter: Hyperparameter | None) -> list[Any]:
    if not isinstance(values, list | tuple):
        return [values]
    if hyperparameter is not None and hyperparameter.is_list and values:
        # [20, 10] is one network of two layers; ["(20,)", "(10,)"] in an .ini file are two.
        several = (list, tuple) if hyperparameter.has_words else (list, tuple, str)
        if not any(isinstance(v, several) for v in values):
            return [list(values)]
    return list(values)


def without_none(value: Any) -> Any:
    """Replace None by the word "none", which TOML can hold and hyperparameters accept."""
    if isinstance(value, dict):
        return {key: without_none(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [without_none(v) for v in value]
    return "none" if value is None else value


def search_space(
    technique_name: str, given: Mapping[str, Any], method: str
) -> list[dict[str, Any]]:
    """List the combinations to try; with ``tpe`` their values may be priors.

    An empty table means the technique's default space. If a table lists only some
    hyperparameters, the others keep their defaults.
    """
    technique = TECHNIQUES.get(technique_name)
    hyperparameters = technique.hyperparameters
    if given:
        options = candidates(technique_name, given)
    elif method == "tpe":
        options = {h.name: [h.prior or h.default] for h in hyperparameters}
    else:
        options = {h.name: list(h.grid) or [h.default] for h in hyperparameters}
    found = []
    for values in product(*options.values()):
        combination = dict(zip(options, values, strict=True))
        priors = {name: combination.pop(name) for name in priors_in(combination)}
        found.append(complete(technique, combination) | priors)
    return found


def priors_in(combination: Mapping[str, Any]) -> dict[str, Prior]:
    """Find the priors among the values of one combination."""
    priors = {name: parse_prior(value) for name, value in combination.items()}
    return {name: prior for name, prior in priors.items() if prior is not None}
