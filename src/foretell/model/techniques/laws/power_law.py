"""PowerLaw: a product of powers of the columns, and of one factor per level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import (
    Array,
    Hyperparameter,
    LogTechnique,
    Params,
    Regressor,
    State,
    TrainingRows,
)
from foretell.model.techniques._state import join_states, part_of, read_array, read_number
from foretell.model.techniques._values import real
from foretell.model.techniques.laws._formula import Clip, Expression, Function, Number, add, linear
from foretell.model.techniques.points.axes import Axes
from foretell.model.techniques.points.robust import MOST_LOG, log_band, student_weights

#: Fits after the first, each with less weight on what the last one misses.
ROUNDS = 3
_TAIL = 4.0  # degrees of freedom of the Student distribution
#: Laws fit synthetic tables nearly exactly; rows off by no more than this are not outliers.
_LEAST_SCALE = 0.02

#: As in Axes: what has no logarithm is taken for this.
_LEAST_VALUE = 1e-300
_MOST_LEVELS_SHOWN = 6
_MOST_COLUMNS_SHOWN = 8
#: A smaller change of the log target over one deviation of a column is a rounding error.
_ROUNDING = 1e-12


def prediction_band(y: Array) -> tuple[float, float]:
    """Return the smallest and largest prediction that is made, well beyond what was measured."""
    low, high = log_band(np.log(y))
    return float(np.exp(low)), float(np.exp(high))


def read_band(state: State) -> tuple[float, float]:
    """Return the bounds of predictions from a saved state, or raise ValueError."""
    low, high = read_number(state, "low"), read_number(state, "high")
    if not 0 < low <= high:
        raise ValueError("the bounds of predictions must be positive and in order")
    return low, high


def outlier_weights(relative_error: Array, multiplicity: Array) -> Array:
    """Return how much each row counts in the next round: less the further off it is than most."""
    return student_weights(relative_error, multiplicity, tail=_TAIL, least_scale=_LEAST_SCALE)


def read_axes(state: State, n_columns: int) -> Axes:
    """Rebuild axes of one column each from a saved state, or raise ValueError."""
    axes = Axes.from_state(part_of(state, "axes"), n_columns)
    if (axes.second != -1).any():
        raise ValueError("an axis has two columns")
    return axes


@dataclass(frozen=True, eq=False)
class PowerLawRegressor(Regressor):
    """The log target as a linear function of axes and levels.

    Attributes
    ----------
    slopes
        Change of the log target with each axis.
    effects
        Change with each level; zero on average over the training rows, so that a level never
        seen, which has no indicator, counts as the average one.
    shares
        Importance of each column; all zero when nothing matters.
    """

    axes: Axes
    slopes: Array
    effects: Array
    intercept: float
    shares: Array
    low: float
    high: float

    def predict(self, x: Array) -> Array:
        """Return one prediction per row of ``x``."""
        log_y = self.axes.coordinates(x) @ self.slopes + x @ self.effects + self.intercept
        return np.exp(np.clip(log_y, np.log(self.low), np.log(self.high)))

    def limits(self) -> tuple[float, float]:
        """Return the ends of the band of predictions."""
        return self.low, self.high

    def importances(self) -> Array | None:
        """Return the share of each column in what moves predictions."""
        return self.shares if self.shares.any() else None

    def _law(self) -> tuple[Array, float]:
        """Return exponents (rates of axes without a logarithm), and the log of the factor."""
        exponents = self.slopes / self.axes.deviation
        return exponents, float(self.intercept - exponents @ self.axes.mean)

    def expression(self, columns: Sequence[Expression]) -> Expression:
        """Return the prediction, given what each column is."""
        axes = self.axes
        exponents, constant = self._law()
        terms: list[Expression] = []
        for column, is_log, offset in zip(axes.first, axes.is_log, axes.offset, strict=True):
            of = columns[column]
            if is_log:
                of = Function("log", Clip(add([of, Number(float(offset))]), low=_LEAST_VALUE))
            terms.append(of)
        coefficients = [*exponents.tolist(), *self.effects.tolist()]
        log_y = linear(coefficients, [*terms, *columns], constant)
        return Function("exp", Clip(log_y, float(np.log(self.low)), float(np.log(self.high))))

    def formula(self, names: Sequence[str], target: str) -> str:
        """Return the law as a line to read, in the units of the table."""
        axes = self.axes
        exponents, constant = self._law()
        parts = [f"{np.exp(np.clip(constant, -MOST_LOG, MOST_LOG)):.4g}"]
        strongest = [k for k in np.argsort(-np.abs(self.slopes), kind="stable") if exponents[k]]
        for k in strongest[:_MOST_COLUMNS_SHOWN]:
            name, offset = names[axes.first[k]], axes.offset[k]
            base = f"({name} + {offset:.4g})" if offset else name
            power, rate = f"{base}^{exponents[k]:.3g}", f"exp({exponents[k]:.3g}·{name})"
            parts.append(power if axes.is_log[k] else rate)
        parts += [
            self._factors(group, names) for group in axes.groups if self.effects[[*group]].any()
        ]
        n_more = len(strongest) - _MOST_COLUMNS_SHOWN
        more = f"   (and {n_more} weaker columns)" if n_more > 0 else ""
        return f"{target} ≈ {'·'.join(parts)}{more}"

    def _factors(self, group: Sequence[int], names: Sequence[str]) -> str:
        factors = [f"{names[j]}: {np.exp(self.effects[j]):.3g}" for j in group]
        n_more = len(factors) - _MOST_LEVELS_SHOWN
        more = [f"and {n_more} more"] if n_more > 0 else []
        return f"({', '.join([*factors[:_MOST_LEVELS_SHOWN], *more])})"

    def to_state(self) -> State:
        """Return plain values and arrays."""
        axes = join_states({"axes": self.axes.to_state()})
        values = {name: getattr(self, name) for name in ("intercept", "low", "high")}
        arrays = {name: getattr(self, name) for name in ("slopes", "effects", "shares")}
        return State({**axes.values, **values}, {**axes.arrays, **arrays})

    @classmethod
    def from_state(cls, state: State, n_features: int) -> PowerLawRegressor:
        """Rebuild, or raise ValueError."""
        axes = read_axes(state, n_features)
        shares = read_array(state, "shares", shape=(n_features,))
        if (shares < 0).any() or not (np.isclose(shares.sum(), 1) or not shares.any()):
            raise ValueError("'shares' must be positive and sum to 1")
        return cls(
            axes,
            read_array(state, "slopes", shape=(axes.n_axes,)),
            read_array(state, "effects", shape=(n_features,)),
            read_number(state, "intercept"),
            shares,
            *read_band(state),
        )


class PowerLawTechnique(LogTechnique):
    """Ridge regression of the log target on logarithms, with less weight on outliers."""

    name = "PowerLaw"
    regressor = PowerLawRegressor
    hyperparameters = (
        Hyperparameter(
            "penalty", 1.0, real(least=0), grid=(0.1, 1.0, 10.0), prior="loguniform(0.01,100)"
        ),
    )

    def fit(self, prepared: TrainingRows, params: Params, seed: int) -> PowerLawRegressor:
        """Fit, and fit again with less weight on what is far off."""
        rows = prepared
        axes = Axes.of(rows.x, rows.groups)
        levels = np.array([j for group in axes.groups for j in group], dtype=np.int64)
        indicators = rows.x[:, levels]
        share = rows.weight @ indicators / rows.weight.sum()
        spread = np.sqrt(rows.weight @ (indicators - share) ** 2 / rows.weight.sum())
        varies = spread > 0
        scaled = np.zeros_like(indicators)
        scaled[:, varies] = (indicators - share)[:, varies] / spread[varies]
        z = np.column_stack([axes.coordinates(rows.x), scaled])
        slopes, intercept = _robust_ridge(z, rows, params["penalty"])
        of_levels = slopes[axes.n_axes :]
        effects = np.zeros(rows.x.shape[1])
        effects[levels[varies]] = of_levels[varies] / spread[varies]
        intercept -= float(share @ effects[levels])
        intercept += _centered(effects, axes, rows)
        shares = np.zeros(rows.x.shape[1])
        np.add.at(shares, np.concatenate([axes.first, levels]), np.abs(slopes))
        shares /= shares.sum() or 1.0
        return PowerLawRegressor(
            axes, slopes[: axes.n_axes], effects, intercept, shares, *prediction_band(rows.y)
        )


def _centered(effects: Array, axes: Axes, rows: TrainingRows) -> float:
    """Make the effects of each category zero on average, in place; return what to add instead.

    Where some training rows have no level, because a selection dropped its column, having none
    is a level of its own, and stays at zero.
    """
    constant = 0.0
    for group in axes.groups:
        indicators = rows.x[:, list(group)]
        if (indicators.sum(axis=1) == 1).all():
            share = rows.weight @ indicators / rows.weight.sum()
            mean = float(share @ effects[list(group)])
            effects[list(group)] -= mean
            constant += mean
    return constant


def _robust_ridge(z: Array, rows: TrainingRows, penalty: float) -> tuple[Array, float]:
    log_y = np.log(rows.y)
    slopes, intercept = _ridge(z, log_y, rows.weight, penalty)
    for _ in range(ROUNDS):
        miss = np.clip(z @ slopes + intercept - log_y, -MOST_LOG, MOST_LOG)
        weight = rows.weight * outlier_weights(np.expm1(miss), rows.weight)
        slopes, intercept = _ridge(z, log_y, weight, penalty)
    return slopes, intercept


def _ridge(z: Array, log_y: Array, weight: Array, penalty: float) -> tuple[Array, float]:
    """Minimize squared error plus penalty; of equal solutions take the smallest."""
    total = weight.sum()
    z_mean, y_mean = weight @ z / total, float(weight @ log_y / total)
    root = np.sqrt(weight)
    matrix = np.vstack([(z - z_mean) * root[:, None], np.sqrt(penalty) * np.eye(z.shape[1])])
    target = np.concatenate([(log_y - y_mean) * root, np.zeros(z.shape[1])])
    slopes: NDArray[np.float64] = np.linalg.lstsq(matrix, target, rcond=None)[0]
    slopes[np.abs(slopes) <= _ROUNDING] = 0.0
    return slopes, y_mean - float(z_mean @ slopes)
