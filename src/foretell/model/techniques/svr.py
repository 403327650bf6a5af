"""SVR: support-vector regression with a linear, polynomial, radial or sigmoid kernel."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from foretell.model.techniques._base import (
    Array,
    Hyperparameter,
    Params,
    Regressor,
    State,
    Technique,
    TrainingRows,
    predict_in_blocks,
)
from foretell.model.techniques._state import (
    read_array,
    read_number,
    read_texts,
    read_whole,
    read_word,
    require_runs,
)
from foretell.model.techniques._values import one_of, real, whole

KERNELS = ("linear", "poly", "rbf", "sigmoid")

# The solver stops after this many steps, or steps times rows (some ten seconds), but gets at least
# this many steps per row. Good fits need about one per row; others might never end.
_MOST_STEPS = 10**6
_MOST_WORK = 10**9
_LEAST_PER_ROW = 3

# The solver stops within its tolerance of the solution, at a place that depends on the last bits
# of its input. Those differ between processors, so they are rounded away, and the tolerance is
# tighter than scikit-learn's.
_SIGNIFICANT_BITS = 30
_TOLERANCE = 1e-4


def _gamma(value: Any) -> str | float:
    if isinstance(value, str):
        word: str = one_of(("scale", "auto"))(value)
        return word
    return real(above=0)(value)


@dataclass(frozen=True, eq=False)
class SupportVectors(Regressor):
    """A weighted sum of kernels, one at each support vector."""

    vectors: Array
    dual: Array
    intercept: float
    kernel: str
    gamma: float
    degree: int
    remarks: tuple[str, ...] = ()

    def predict(self, x: Array) -> Array:
        """Return one prediction per row of ``x``."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.intercept + predict_in_blocks(
                lambda rows: self._similarity(rows) @ self.dual, x, len(self.dual)
            )

    def _similarity(self, x: Array) -> Array:
        if self.kernel == "rbf":
            return np.exp(-self.gamma * _squared_distances(x, self.vectors))
        product: Array = x @ self.vectors.T
        if self.kernel == "linear":
            return product
        product *= self.gamma
        if self.kernel == "sigmoid":
            return np.tanh(product)
        return product**self.degree

    def coefficients(self) -> tuple[Array, float] | None:
        """Return coefficients and intercept where the kernel is linear."""
        return (self.dual @ self.vectors, self.intercept) if self.kernel == "linear" else None

    def to_state(self) -> State:
        """Return the support vectors, their weights and the kernel."""
        values = {
            "intercept": self.intercept,
            "kernel": self.kernel,
            "gamma": self.gamma,
            "degree": self.degree,
            "notes": list(self.remarks),
        }
        return State(values, {"vectors": self.vectors, "dual": self.dual})

    @classmethod
    def from_state(cls, state: State, n_features: int) -> SupportVectors:
        """Rebuild from a file, or raise ValueError."""
        dual = read_array(state, "dual", shape=(None,))
        return cls(
            read_array(state, "vectors", shape=(len(dual), n_features)),
            dual,
            read_number(state, "intercept"),
            read_word(state, "kernel", KERNELS),
            read_number(state, "gamma"),
            read_whole(state, "degree", least=1),
            read_texts(state, "notes"),
        )


def _squared_distances(x: Array, vectors: Array) -> Array:
    """Expand the square about a point among the vectors, where little cancels."""
    center = vectors.mean(axis=0) if len(vectors) else 0.0
    x, vectors = x - center, vectors - center
    squares: Array = (x**2).sum(axis=1)[:, None] + (vectors**2).sum(axis=1) - 2 * x @ vectors.T
    return np.maximum(squares, 0.0)


class SVRTechnique(Technique):
    """Fit a function that ignores errors up to epsilon and stays as flat as C allows.

    It measures distances between rows, so campaigns with this technique should normalize.
    """

    name = "SVR"
    regressor = SupportVectors
    hyperparameters = (
        Hyperparameter(
            "C", 0.001, real(above=0), grid=(0.1, 1.0, 10.0, 100.0), prior="loguniform(0.01,1000)"
        ),
        Hyperparameter(
            "epsilon", 0.05, real(least=0), grid=(0.01, 0.1), prior="loguniform(0.001,1)"
        ),
        Hyperparameter("gamma", 1e-7, _gamma, grid=("scale",), prior="choice('scale','auto')"),
        Hyperparameter(
            "kernel",
            "linear",
            one_of(KERNELS),
            grid=("linear", "rbf"),
            prior="choice('linear','rbf')",
        ),
        Hyperparameter("degree", 2, whole(least=1)),
    )

    def settings(self, params: Params, n_runs: int, n_features: int) -> dict[str, Any]:
        """Only some kernels have a width, and one has a degree."""
        kernel = params["kernel"]
        unused = {"gamma": kernel == "linear", "degree": kernel != "poly"}
        return {name: None if unused.get(name) else value for name, value in params.items()}

    def prepare(self, rows: TrainingRows) -> TrainingRows:
        """Refuse merged repeats: errors within epsilon count for nothing, so they do not add up."""
        return require_runs(rows, self.name)

    def fit(self, prepared: TrainingRows, params: Params, seed: int) -> SupportVectors:
        """Solve the dual problem with libsvm."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.svm import SVR

        x, y = _rounded(prepared.x), _rounded(prepared.y)
        gamma = _resolve(params["gamma"], x)
        most = max(min(_MOST_STEPS, _MOST_WORK // len(x)), _LEAST_PER_ROW * len(x))
        model = SVR(
            kernel=params["kernel"],
            C=params["C"],
            epsilon=params["epsilon"],
            gamma=gamma,
            degree=params["degree"],
            tol=_TOLERANCE,
            max_iter=most,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(x, y)
        notes = () if model.fit_status_ == 0 else (f"did not converge within {most} steps",)
        vectors, dual = np.asarray(model.support_vectors_), model.dual_coef_[0].copy()
        if params["kernel"] == "linear":  # the kernel is a product, so one vector says it all
            vectors, dual = (dual @ vectors)[None, :], np.ones(1)
        intercept = float(model.intercept_[0])
        return SupportVectors(
            vectors, dual, intercept, params["kernel"], gamma, params["degree"], notes
        )


def _rounded(values: Array) -> Array:
    """Round to a fixed number of significant bits."""
    mantissa, exponent = np.frexp(values)
    scale = 2.0**_SIGNIFICANT_BITS
    return np.ldexp(np.round(mantissa * scale) / scale, exponent)


def _resolve(gamma: str | float, x: Array) -> float:
    if isinstance(gamma, float):
        return gamma
    spread = float(x.var()) if gamma == "scale" else 1.0
    return float(1 / (x.shape[1] * (spread or 1.0)))
