"""Times of epochs by configuration: the interface, and those that a model predicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from foretell.errors import ModelError, UsageError, suggest
from foretell.predictor import TRUST_FAR, TRUST_UNKNOWN, Predictor
from foretell.spaces.quantities import TIME, quantity_of_name

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
#: How far off a model without intervals is taken to be, as a logarithm.
UNKNOWN_SPREAD = 0.2
_SIGMAS = 1.6449  # from the median to the 95 % quantile of a normal distribution


class EpochTimes(Protocol):
    """What is known of the time of an epoch before it runs."""

    @property
    def columns(self) -> list[str]:
        """The columns a configuration needs."""

    def mean_s(self, configurations: pd.DataFrame) -> Array:
        """Return the seconds of one epoch of each configuration."""

    def quantiles(self, configurations: pd.DataFrame, probabilities: Sequence[float]) -> Array:
        """Return what they stay below with some probabilities: a row per configuration."""


@dataclass(frozen=True)
class PredictedEpochs:
    """Times of epochs by a model.

    Attributes
    ----------
    unit_s
        How many seconds are one of the model's unit.
    notes
        What to know about the data behind the model.
    """

    model: Predictor
    unit_s: float = 1.0
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The columns a configuration needs."""
        return list(self.model.columns)

    def mean_s(self, configurations: pd.DataFrame) -> Array:
        """Return the seconds of one epoch of each configuration."""
        return self.unit_s * self.model.predict(configurations[self.columns])

    def quantiles(self, configurations: pd.DataFrame, probabilities: Sequence[float]) -> Array:
        """Return what they stay below with some probabilities; NaN without intervals."""
        found = self.model.outlook(configurations[self.columns], tuple(probabilities))
        return self.unit_s * found.quantiles.values

    def outside(self, configurations: pd.DataFrame) -> tuple[float, str]:
        """Say how many of the configurations are far outside the data, as a share, and where."""
        found = self.model.forecast(configurations[self.columns])
        is_far = np.isin(found.trust.astype(str), [TRUST_FAR, TRUST_UNKNOWN])
        told = Counter(text for text, far in zip(found.outside, is_far, strict=True) if far)
        return float(is_far.mean()), told.most_common(1)[0][0] if told else ""


def spread_of(times: EpochTimes, configurations: pd.DataFrame) -> float:
    """Return how far off predictions are, typically: the standard deviation of their logarithm."""
    ends = times.quantiles(configurations, (0.05, 0.95))
    if not np.isfinite(ends).all() or (ends <= 0).any():
        return UNKNOWN_SPREAD
    widths = np.log(ends[:, 1] / ends[:, 0]) / (2 * _SIGMAS)
    return float(np.sqrt(np.mean(widths**2)))


def epochs_of(models: Sequence[Predictor], name: str) -> PredictedEpochs:
    """Return the epoch times of the first model of a time among several."""
    for model in models:
        quantity = quantity_of_name(model.target)
        if quantity is not None and quantity[0] == TIME:
            return PredictedEpochs(model, quantity[1])
    targets = [model.target for model in models]
    if not targets:
        raise ModelError(f"{name} has no model; fit one of the time of an epoch")
    raise UsageError(
        f"{name} predicts {', '.join(targets)}, and no time of an epoch; fit a table with a column "
        f"such as epoch_s. {suggest('epoch_s', targets)}"
    )
