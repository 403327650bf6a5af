"""The space of a search: hyperparameters and settings of the system, as Optuna draws them."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pydantic

from foretell.errors import Option, UsageError, listing
from foretell.spaces.values import Range

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_MOST_LISTED = 4_096
_PLAIN = bool | int | float | str


@dataclass(frozen=True)
class Space:
    """What is searched, by name; and which of the names are settings of the system.

    >>> rates = {"from": 0.001, "to": 0.1, "spacing": "log"}
    >>> space = read_space({"lr": rates}, {"threads": [1, 2]})
    >>> space.names, space.system, space.distributions["lr"].log
    (['lr', 'threads'], ('threads',), True)
    """

    distributions: Mapping[str, BaseDistribution]
    system: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The names of all settings, hyperparameters first."""
        return list(self.distributions)

    def others(self, tried: Collection[str]) -> list[dict[str, Any]] | None:
        """List all settings but those tried; None if there are too many to list."""
        choices = [_choices(found) for found in self.distributions.values()]
        if any(listed is None for listed in choices):
            return None
        if math.prod(len(listed) for listed in choices if listed is not None) > _MOST_LISTED:
            return None
        every = itertools.product(*(listed for listed in choices if listed is not None))
        configs = [dict(zip(self.names, values, strict=True)) for values in every]
        return [config for config in configs if settings_key(config) not in tried]

    def to_json(self) -> dict[str, str]:
        """Return the distributions in words that are the same for the same space."""
        return {name: repr(found) for name, found in self.distributions.items()}


def read_space(hyper: Mapping[str, Any], system: Mapping[str, Any] | None) -> Space:
    """Read what is searched.

    Parameters
    ----------
    hyper, system
        For each name a list of values, a range as in a sweep (``{"from": 1e-3, "to": 0.1,
        "spacing": "log"}``), one value, or a distribution of Optuna.
    """
    system = system or {}
    if not hyper:
        raise UsageError("there are no hyperparameters to search", option=Option("hyper"))
    both = [name for name in hyper if name in system]
    if both:
        raise UsageError(
            f"'{both[0]}' is also a hyperparameter; name it once", option=Option("system")
        )
    found = {
        **{name: _distribution("hyper", name, values) for name, values in hyper.items()},
        **{name: _distribution("system", name, values) for name, values in system.items()},
    }
    if all(distribution.single() for distribution in found.values()):
        raise UsageError(
            f"each of {listing(found)} has one value, so that there is nothing to search; "
            "list more values of one of them",
            option=Option("hyper"),
        )
    return Space(found, tuple(system))


def _distribution(option: str, name: str, values: Any) -> BaseDistribution:
    from optuna import distributions

    if isinstance(values, distributions.BaseDistribution):
        return values
    given = Option(option, key=name)
    if isinstance(values, Mapping):
        try:
            return _of_range(Range.model_validate(dict(values)))
        except pydantic.ValidationError as error:
            raise UsageError(error.errors()[0]["msg"], option=given) from None
    listed = list(values) if isinstance(values, list | tuple | range) else [values]
    if not listed:
        raise UsageError("has no values", option=given)
    other = [value for value in listed if not isinstance(value, _PLAIN)]
    if other:
        raise UsageError(
            f"values must be numbers, texts or truth values, not {type(other[0]).__name__}",
            option=given,
        )
    return distributions.CategoricalDistribution(list(dict.fromkeys(listed)))


def _of_range(values: Range) -> BaseDistribution:
    from optuna import distributions

    if not values.is_continuous:
        return distributions.CategoricalDistribution(values.values())
    is_log = values.spacing == "log"
    if values.is_whole:
        return distributions.IntDistribution(int(values.start), int(values.stop), log=is_log)
    return distributions.FloatDistribution(values.start, values.stop, log=is_log)


def _choices(distribution: BaseDistribution) -> Sequence[Any] | None:
    """List the values of a setting; None if it has any number in a range."""
    from optuna import distributions

    if isinstance(distribution, distributions.CategoricalDistribution):
        return distribution.choices
    if isinstance(distribution, distributions.IntDistribution):
        return range(distribution.low, distribution.high + 1, distribution.step)
    if isinstance(distribution, distributions.FloatDistribution) and distribution.single():
        return [distribution.low]
    return None


def settings_key(config: Mapping[str, Any]) -> str:
    """Return a text that is the same for the same settings.

    >>> settings_key({"lr": 0.1, "hidden": 8})
    '{"hidden": 8, "lr": 0.1}'
    """
    return json.dumps(dict(config), sort_keys=True)
