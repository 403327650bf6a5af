"""The values that a campaign gives to hyperparameters: as lists, and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from foretell.errors import UsageError, suggest
from foretell.files.complaints import shown
from foretell.model.techniques import TECHNIQUES, Hyperparameter

if TYPE_CHECKING:
    from foretell.model.campaigns.search.priors import Prior


def candidates(technique_name: str, space: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Give every option of a technique's table as a list, also where one bare value stands."""
    known = {h.name: h for h in TECHNIQUES.get(technique_name).hyperparameters}
    return {name: _as_list(values, known.get(name)) for name, values in space.items()}


def is_prior(value: Any) -> bool:
    """Whether a value is a prior; raise a UsageError when it is one written wrongly."""
    return _prior(value) is not None


def faults(technique_name: str, space: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Find what is wrong in a technique's table: the steps to each place, and the rule."""
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
    # Some illegal draws are drawn again, but options are all meant.
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
    # Here and not above: the package of searches itself reads campaigns.
    from foretell.model.campaigns.search.priors import parse_prior

    return parse_prior(value)


def _as_list(values: Any, hyperparameter: Hyperparameter | None) -> list[Any]:
    if not isinstance(values, list | tuple):
        return [values]
    if hyperparameter is not None and hyperparameter.is_list and values:
        # [20, 10] is one network of two layers; in a file of texts, ["(20,)", "(10,)"] are two.
        several = (list, tuple) if hyperparameter.has_words else (list, tuple, str)
        if not any(isinstance(v, several) for v in values):
            return [list(values)]
    return list(values)


def without_none(value: Any) -> Any:
    """Write None as the word, which is how TOML can say it and hyperparameters read it."""
    if isinstance(value, dict):
        return {key: without_none(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [without_none(v) for v in value]
    return "none" if value is None else value
