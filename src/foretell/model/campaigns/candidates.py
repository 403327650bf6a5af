"""The values a campaign lists for hyperparameters, checked against the technique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from foretell.errors import UsageError, suggest
from foretell.files.complaints import shown
from foretell.model.techniques import TECHNIQUES, Hyperparameter

if TYPE_CHECKING:
    from foretell.model.campaigns.search.priors import Prior


def candidates(technique_name: str, space: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return each option of a technique's table as a list, even if a single value is given."""
    known = {h.name: h for h in TECHNIQUES.get(technique_name).hyperparameters}
    return {name: _as_list(values, known.get(name)) for name, values in space.items()}


def is_prior(value: Any) -> bool:
    """Whether a value is a prior; raise a UsageError if it is a malformed one."""
    return _prior(value) is not None


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
        prior = _prior(value)
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


def _prior(value: Any) -> Prior | None:
    # Imported here because the search package imports this module.
    from foretell.model.campaigns.search.priors import parse_prior

    return parse_prior(value)


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
