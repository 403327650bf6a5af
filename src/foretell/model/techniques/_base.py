"""What a technique is: hyperparameters with defaults, and a fit that returns a regressor."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Params = Mapping[str, Any]

#: Numbers computed at once when predicting many rows.
_BLOCK_VALUES = 1 << 21
#: A share of the weight that changes no prediction.
NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class TrainingRows:
    """The rows a technique is fitted on.

    Attributes
    ----------
    x
        Features, one row per run (or per configuration, when repeats were merged).
    weight
        How many runs each row stands for; all ones unless repeats were merged.
    groups
        The columns of each category: indicators of its levels, of which one is set in a row.
    """

    x: Array
    y: Array
    weight: Array
    groups: tuple[tuple[int, ...], ...] = ()

    @property
    def is_merged(self) -> bool:
        """Whether some row stands for more than one run."""
        return bool((self.weight != 1).any())


@dataclass(frozen=True)
class Hyperparameter:
    """One setting of a technique: its default, what is searched by default, and what is legal.

    Attributes
    ----------
    default
        The value when a campaign names the technique's section but not this option.
    grid
        The values searched by default on a grid.
    prior
        The prior searched by default with TPE; ``None`` keeps the default value.
    read
        Turn a value from a file into the technique's own, or raise ValueError with the rule.
    """

    name: str
    default: Any
    read: Callable[[Any], Any]
    grid: tuple[Any, ...] = ()
    prior: str | None = None
    is_list: bool = False  # one value is itself a list, such as the widths of layers
    has_words: bool = False  # and what it lists are words, such as the members of an ensemble


@dataclass(frozen=True)
class State:
    """What a fitted regressor is on disk: JSON values and arrays, never code."""

    values: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


class Regressor(ABC):
    """A fitted model of one target from a matrix of features."""

    #: What a reader of the results should know about the fit.
    remarks: tuple[str, ...] = ()

    @abstractmethod
    def predict(self, x: Array) -> Array:
        """Return one prediction per row of ``x``."""

    @abstractmethod
    def to_state(self) -> State:
        """Return everything ``from_state`` needs, as JSON values and arrays."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: State, n_features: int) -> Regressor:
        """Rebuild from a file that may be hostile: raise ValueError unless it is sound."""

    def at(self, value: Any) -> Regressor:
        """Return the regressor that a fit with another value of the path hyperparameter gives."""
        raise TypeError(f"{type(self).__name__} has no path")

    def coefficients(self) -> tuple[Array, float] | None:
        """Return coefficients and intercept when the model is linear in its features."""
        return None

    def importances(self) -> Array | None:
        """Return the share of each feature, summing to one, when the model has such shares."""
        return None

    def limits(self) -> tuple[float, float]:
        """Return the smallest and the largest prediction, at which those further out are held."""
        return -math.inf, math.inf

    def alternatives(self, x: Array) -> tuple[Array, Array] | None:
        """Return what models that explain the data about as well predict, and their shares.

        One column per model; None where there is but one.
        """
        return None

    def with_doubt(self, x: Array, probabilities: Sequence[float]) -> Array:
        """Predict, and say how far models that explain the data about as well are from that.

        The first column holds the predictions. The others hold the logs of the ratios of the
        quantiles of such models to them.
        """
        result = np.zeros((len(x), 1 + len(probabilities)))
        result[:, 0] = self.predict(x)
        found = self.alternatives(x)
        if found is not None and len(x):
            values, shares = found
            weights = np.tile(shares, (len(x), 1))
            logs = np.log(np.maximum(values, np.finfo(float).tiny))
            center = np.log(np.maximum(result[:, :1], np.finfo(float).tiny))
            result[:, 1:] = weighted_quantiles(logs - center, weights, probabilities)
        return result

    @property
    def has_stopped(self) -> bool:
        """Whether it knows of runs that were stopped at a time limit."""
        return False

    def is_stopped(self, x: Array) -> NDArray[np.bool_]:
        """Say of which rows only lower bounds are known, because runs near them were stopped."""
        return np.zeros(len(x), dtype=bool)

    def reached(self) -> float:
        """Return how far the fit went, in units of the technique's limit."""
        return math.inf

    def start(self) -> Regressor | None:
        """Return what a fit on other rows may start from; None where that does not help."""
        return None

    def notes(self) -> list[str]:
        """Return the remarks on the fit."""
        return list(self.remarks)


class Technique(ABC):
    """A family of regression models; one file and one line in the table of this package."""

    name: ClassVar[str]
    hyperparameters: ClassVar[tuple[Hyperparameter, ...]] = ()
    #: A hyperparameter that one fit, at its largest value, serves at every smaller value through
    #: ``Regressor.at``: the number of trees of an ensemble. None if it has none.
    path: ClassVar[str | None] = None
    #: A hyperparameter that only stops a fit early, where ``Regressor.reached`` gets to it: a fit
    #: that stayed below the limit is the same under every limit that it stays below. None if it
    #: has none; a value of None is no limit.
    limit: ClassVar[str | None] = None
    #: Whether columns and target must come in their own units: a law knows nothing of a
    #: normalization that makes half of the times negative.
    needs_units: ClassVar[bool] = False
    #: Whether a row counts as often as its weight says, even where merging repeats into one
    #: weighted row would change the model.
    weighs_rows: ClassVar[bool] = False
    #: The class that ``from_state`` of saved models goes through.
    regressor: ClassVar[type[Regressor]]

    def merges_repeats(self, params: Params) -> bool:
        """Whether repeats merged into one weighted row give exactly the same model."""
        return False

    def settings(self, params: Params, n_runs: int, n_features: int) -> Params:
        """Return what a fit on so many runs and features depends on, with ``path`` and ``limit``.

        Hyperparameters with the same settings give the same model, and are fitted once. Shares of
        rows become counts, for example, and options without effect become None.
        """
        return params

    def prepare(self, rows: TrainingRows) -> Any:
        """Do what every fit on these rows shares, whatever the hyperparameters."""
        return rows

    @abstractmethod
    def fit(self, prepared: Any, params: Params, seed: int) -> Regressor:
        """Fit on what ``prepare`` returned; ``params`` holds a value for every hyperparameter."""

    def refit(
        self, rows: TrainingRows, params: Params, seed: int, start: Regressor | None
    ) -> Regressor:
        """Fit quickly on some of the rows of an earlier fit, to see how well the technique does.

        ``start`` is what that fit's ``Regressor.start`` gave.
        """
        return self.fit(self.prepare(rows), params, seed)


class LogTechnique(Technique):
    """A technique of the logarithm of the target, which must be positive."""

    needs_units = True
    weighs_rows = True

    def prepare(self, rows: TrainingRows) -> TrainingRows:
        """Refuse targets without a logarithm."""
        if not (rows.y > 0).all():
            raise ValueError("the target must be positive, because its logarithm is modeled")
        return rows


def weighted_quantiles(values: Array, weights: Array, probabilities: Sequence[float]) -> Array:
    """Return quantiles of each row, one column per probability, between values where needed.

    Values without weight do not count: between one of them and its neighbor lies no quantile.

    >>> weighted_quantiles(np.array([[3.0, 1.0, -9.0]]), np.array([[0.5, 0.5, 0.0]]), [0.1, 0.5])
    array([[1., 2.]])
    """
    total = weights.sum(axis=1)
    counts = weights > NEGLIGIBLE * total[:, None]
    order = np.argsort(np.where(counts, values, np.inf), axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    weight = np.take_along_axis(weights, order, axis=1)
    middle = np.cumsum(weight, axis=1) - weight / 2
    found = np.empty((len(values), len(probabilities)))
    last = counts.sum(axis=1) - 1
    rows = np.arange(len(values))
    for j, p in enumerate(probabilities):
        goal = p * total
        after = np.clip((middle < goal[:, None]).sum(axis=1), 0, last)
        before = np.maximum(after - 1, 0)
        low, high = middle[rows, before], middle[rows, after]
        part = np.clip((goal - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
        part = np.where(high > low, part, 1.0)
        found[:, j] = ordered[rows, before] * (1 - part) + ordered[rows, after] * part
    return found


def predict_in_blocks(predict: Callable[[Array], Array], x: Array, n_values: int) -> Array:
    """Predict block by block, in memory that does not grow with the number of rows.

    ``n_values``: how many numbers the prediction of one row computes on the way.
    """
    step = max(1, _BLOCK_VALUES // max(1, n_values))
    predicted = np.empty(len(x))
    for start in range(0, len(x), step):
        predicted[start : start + step] = predict(x[start : start + step])
    return predicted


def complete(technique: type[Technique] | Technique, params: Params) -> dict[str, Any]:
    """Fill in defaults and read every value; raise ValueError naming the hyperparameter.

    Unknown names are the campaign's business, which knows where they were written.
    """
    values = {}
    for h in technique.hyperparameters:
        try:
            values[h.name] = h.read(params.get(h.name, h.default))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{h.name}: {error}") from None
    return values
