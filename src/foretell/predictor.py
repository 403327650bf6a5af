"""Contract 2: the interface of every model, as the decide stage and users see it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from foretell.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

TRUST_INSIDE, TRUST_NEAR, TRUST_FAR, TRUST_UNKNOWN = "inside", "near", "far", "unknown level"
#: Rows without a prediction: one lacks a value, or has one that cannot be used.
TRUST_MISSING, TRUST_INVALID = "missing", "invalid"
#: The columns that ``foretell predict`` adds, in this order.
FORECAST_COLUMNS = ("prediction", "lower", "upper", "outside", "expected_error", "trust")


@dataclass(frozen=True, eq=False)
class Forecast:
    """Predictions with their passports.

    Attributes
    ----------
    lower, upper
        The ends of an empirical interval; NaN where the model has none.
    outside
        Which columns leave the data and how far; why there is no prediction, or why it was held at
        a limit. Empty where there is nothing to say.
    expected_error
        The mean relative error measured on such questions; NaN where none was.
    along
        How many rows leave the data along each column, the most frequent first.
    trust
        *inside*, *near* (as far out as errors were measured), *far* (further), *unknown level*; for
        a row without a prediction, *missing* or *invalid*.
    """

    value: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    outside: list[str]
    expected_error: NDArray[np.float64]
    trust: NDArray[np.object_]
    along: dict[str, int]

    def take(self, is_kept: NDArray[np.bool_]) -> Forecast:
        """Return some of the predictions; ``along`` stays that of all."""
        names = ("value", "lower", "upper", "expected_error", "trust")
        outside = [text for text, kept in zip(self.outside, is_kept, strict=True) if kept]
        parts = {name: getattr(self, name)[is_kept] for name in names}
        return replace(self, outside=outside, **parts)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per prediction, with the columns of ``foretell predict``."""
        import pandas as pd

        parts = (self.value, self.lower, self.upper, self.outside, self.expected_error, self.trust)
        return pd.DataFrame(dict(zip(FORECAST_COLUMNS, parts, strict=True)))

    def beside(self, table: pd.DataFrame, name: str) -> pd.DataFrame:
        """Return the predicted table with these columns added; refuse one that has them already."""
        for column in FORECAST_COLUMNS:
            if column in table.columns:
                raise UsageError(f"{name} has a column '{column}' already; rename or remove it")
        return table.reset_index(drop=True).join(self.to_frame())


@dataclass(frozen=True, eq=False)
class Quantiles:
    """What a target stays below with some probabilities.

    Attributes
    ----------
    values
        One row per configuration, one column per probability; NaN where the model has no intervals.
    """

    probabilities: tuple[float, ...]
    values: NDArray[np.float64]

    def at(self, probability: float) -> NDArray[np.float64]:
        """Return what each configuration stays below with a probability, one that was asked for."""
        found: NDArray[np.float64] = self.values[:, self.probabilities.index(probability)]
        return found


@dataclass(frozen=True, eq=False)
class Outlook:
    """What choosing among many configurations needs: no texts, and any quantiles.

    Attributes
    ----------
    supported
        Where intervals rest on errors: inside the data, and outside in directions in which errors
        were rehearsed, as far as these may be continued. None means everywhere but far outside.
    """

    value: NDArray[np.float64]
    quantiles: Quantiles
    trust: NDArray[np.object_]
    supported: NDArray[np.bool_] | None = None

    @property
    def is_far(self) -> NDArray[np.bool_]:
        """Which configurations are far outside the data, or have an unknown level."""
        found: NDArray[np.bool_] = (self.trust == TRUST_FAR) | (self.trust == TRUST_UNKNOWN)
        return found

    @property
    def is_supported(self) -> NDArray[np.bool_]:
        """Which configurations have an interval that rests on errors."""
        return ~self.is_far if self.supported is None else self.supported


@runtime_checkable
class Predictor(Protocol):
    """Predicts a target from configurations, and knows the range it was trained on."""

    @property
    def target(self) -> str:
        """The name of what is predicted, with its unit."""

    @property
    def columns(self) -> list[str]:
        """The columns a configuration needs."""

    @property
    def ranges(self) -> Mapping[str, tuple[float, float]]:
        """The smallest and largest value of each numeric column in training."""

    @property
    def categories(self) -> Mapping[str, Sequence[str]]:
        """The levels of each category in training."""

    @property
    def has_intervals(self) -> bool:
        """Whether forecasts have intervals, and outlooks quantiles."""

    def predict(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Return one positive prediction per configuration, in the order of the rows."""

    def forecast(self, frame: pd.DataFrame, interval: float = 0.9) -> Forecast:
        """Predict with passports: an interval, how far outside the data, and the error there."""

    def outlook(self, frame: pd.DataFrame, probabilities: Sequence[float]) -> Outlook:
        """Predict many configurations, with the quantiles that are asked for."""

    def outside(self, frame: pd.DataFrame) -> list[str]:
        """Say for each configuration in which columns it leaves the training data, and how far."""


def n_training_rows(predictor: Predictor) -> float:
    """Return how many rows a model was trained on; infinite if it does not say."""
    return float(getattr(predictor, "n_rows", math.inf))


#: One model, several, or models by name, as a fit of several targets returns them.
Predictors = Predictor | Sequence[Predictor] | Mapping[str, Predictor]


def listed_predictors(models: Predictors) -> list[Predictor]:
    """Return the models, however they are given."""
    if isinstance(models, Mapping):
        return list(models.values())
    return list(models) if isinstance(models, Sequence) else [models]
