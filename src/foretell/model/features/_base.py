"""What a feature is: a product of factors, each a column with a few elementwise steps applied."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from foretell.errors import UsageError, suggest
from foretell.model.campaigns import ALL_COLUMNS, Features

Kind = Literal["number", "flag", "category"]
NUMBER: Kind = "number"
FLAG: Kind = "flag"
CATEGORY: Kind = "category"


#: A product of more factors is refused, here and in model files: a hostile one may have millions.
MOST_FACTORS = 1024


@dataclass(frozen=True)
class Column:
    """One column of the table: a number, a truth value, or a category with its known levels."""

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Factor:
    """A column sent through steps such as inverse and log, or the indicator of one level."""

    column: str
    steps: tuple[str, ...] = ()
    level: str | None = None


@dataclass(frozen=True)
class Feature:
    """A named product of factors."""

    name: str
    factors: tuple[Factor, ...]
    is_numeric: bool = True  # false for indicators, which have no inverse and no logarithm

    @property
    def is_indicator(self) -> bool:
        """Whether some factor is the indicator of a level."""
        return any(f.level is not None for f in self.factors)


class FeatureFamily(ABC):
    """One way to derive features from those that are there already."""

    @abstractmethod
    def extend(self, features: list[Feature], options: Features) -> list[Feature]:
        """Return the features with this family's added, or as they are when not asked for."""


def chosen(option: str, names: list[str], features: list[Feature]) -> list[Feature]:
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


def apply_step(step: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Apply one elementwise step; bad values come out as NaN or infinity, for the caller."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        result: NDArray[np.float64] = STEPS[step](values)
    return result


def _log(values: NDArray[np.float64]) -> NDArray[np.float64]:
    logs: NDArray[np.float64] = np.log(np.where(values > 0, values, np.nan))
    return logs


STEPS: dict[str, Any] = {
    "inverse": lambda values: 1.0 / values,
    "log": _log,
    "sqrt": np.sqrt,
}

#: What each step needs of its values, for messages.
STEP_RULES = {
    "inverse": ("= 0", "an inverse needs other values"),
    "log": ("≤ 0", "a logarithm needs positive ones"),
    "sqrt": ("< 0", "a square root needs values of at least zero"),
}
