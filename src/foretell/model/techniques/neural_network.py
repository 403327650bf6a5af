"""NeuralNetwork: a multilayer perceptron on standardized features and target."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

ACTIVATIONS = ("relu", "tanh", "logistic", "identity")
_SOLVERS = ("adam", "sgd", "lbfgs")
_OTHER_OPTIMIZERS = ("rmsprop", "adagrad", "adadelta", "adamax", "adamw", "nadam", "ftrl")


def _widths(value: Any) -> list[int]:
    widths = list(value) if isinstance(value, list | tuple) else [value]
    if not widths:
        raise ValueError("must name at least one width")
    return [whole(least=1)(width) for width in widths]


def _dropouts(value: Any) -> list[float]:
    shares = value if isinstance(value, list | tuple) else [value]
    return [real(least=0, below=1)(share) for share in shares]


@dataclass(frozen=True, eq=False)
class Perceptron(Regressor):
    """Layers of weights between scaled features and a scaled target."""

    layers: Sequence[tuple[Array, Array]]
    activation: str
    x_mean: Array
    x_scale: Array
    y_mean: float
    y_scale: float
    remarks: tuple[str, ...] = ()

    def predict(self, x: Array) -> Array:
        """Return one prediction per row of ``x``."""
        widest = max(weights.shape[1] for weights, _ in self.layers)
        predicted = predict_in_blocks(self._forward, x, max(widest, len(self.x_mean)))
        return predicted * self.y_scale + self.y_mean

    def _forward(self, x: Array) -> Array:
        signal = (x - self.x_mean) / self.x_scale
        *hidden, (weights, bias) = self.layers
        for inner, shift in hidden:
            signal = _activate(signal @ inner + shift, self.activation)
        return (signal @ weights + bias)[:, 0]

    def to_state(self) -> State:
        """Return the layers and the scales."""
        values = {
            "n_layers": len(self.layers),
            "activation": self.activation,
            "y_mean": self.y_mean,
            "y_scale": self.y_scale,
            "notes": list(self.remarks),
        }
        arrays: dict[str, NDArray[Any]] = {"x_mean": self.x_mean, "x_scale": self.x_scale}
        for i, (weights, bias) in enumerate(self.layers):
            arrays[f"weights_{i}"] = weights
            arrays[f"bias_{i}"] = bias
        return State(values, arrays)

    @classmethod
    def from_state(cls, state: State, n_features: int) -> Perceptron:
        """Rebuild from a file, or raise ValueError."""
        n_layers = read_whole(state, "n_layers", least=1)
        layers = []
        width = n_features
        for i in range(n_layers):
            bias = read_array(state, f"bias_{i}", shape=(None if i < n_layers - 1 else 1,))
            layers.append((read_array(state, f"weights_{i}", shape=(width, len(bias))), bias))
            width = len(bias)
        x_scale = read_array(state, "x_scale", shape=(n_features,))
        if not (x_scale > 0).all():
            raise ValueError("'x_scale' must be positive")
        return cls(
            layers,
            read_word(state, "activation", ACTIVATIONS),
            read_array(state, "x_mean", shape=(n_features,)),
            x_scale,
            read_number(state, "y_mean"),
            read_number(state, "y_scale"),
            read_texts(state, "notes"),
        )


class NeuralNetworkTechnique(Technique):
    """Train a small fully connected network for a given number of epochs."""

    name = "NeuralNetwork"
    regressor = Perceptron
    hyperparameters = (
        Hyperparameter(
            "n_features",
            [20, 10],
            _widths,
            grid=([20, 10], [64, 32]),
            prior="choice([20,10],[64,32])",
            is_list=True,
        ),
        Hyperparameter("dropouts", 0.0, _dropouts, is_list=True),
        Hyperparameter(
            "activation",
            "relu",
            one_of(
                {word: word for word in ACTIVATIONS} | {"sigmoid": "logistic", "linear": "identity"}
            ),
        ),
        Hyperparameter("optimizer", "adam", one_of(_SOLVERS + _OTHER_OPTIMIZERS)),
        Hyperparameter(
            "learning_rate",
            0.001,
            real(above=0),
            grid=(0.001, 0.01),
            prior="loguniform(0.0003,0.03)",
        ),
        Hyperparameter(
            "loss",
            "mse",
            one_of({"mse": "mse", "mean_squared_error": "mse", "squared_error": "mse"}),
        ),
        Hyperparameter("batch_size", 10, whole(least=1), grid=(32,), prior="choice(16,32,64)"),
        Hyperparameter("epochs", 5, whole(least=1), grid=(50, 200), prior="quniform(50,300,50)"),
    )

    def prepare(self, rows: TrainingRows) -> _Scaled:
        """Scale features and target: on raw ones, such networks hardly learn."""
        return _Scaled(require_runs(rows, self.name))

    def fit(self, prepared: _Scaled, params: Params, seed: int) -> Perceptron:
        """Run all epochs, as asked; whether they were enough shows in the error."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPRegressor

        solver = params["optimizer"] if params["optimizer"] in _SOLVERS else "adam"
        model = MLPRegressor(
            hidden_layer_sizes=tuple(params["n_features"]),
            activation=params["activation"],
            solver=solver,
            alpha=0.0,
            batch_size=min(params["batch_size"], len(prepared.y)),
            learning_rate_init=params["learning_rate"],
            momentum=0.0,
            max_iter=params["epochs"],
            n_iter_no_change=params["epochs"],
            random_state=seed,
        )
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(prepared.x, prepared.y)
        return Perceptron(
            list(zip(model.coefs_, model.intercepts_, strict=True)),
            params["activation"],
            prepared.x_mean,
            prepared.x_scale,
            prepared.y_mean,
            prepared.y_scale,
            _remarks(params, solver),
        )


class _Scaled:
    def __init__(self, rows: TrainingRows) -> None:
        self.x_mean, self.x_scale = rows.x.mean(axis=0), _spread(rows.x)
        self.y_mean, self.y_scale = float(rows.y.mean()), float(_spread(rows.y))
        self.x = (rows.x - self.x_mean) / self.x_scale
        self.y = (rows.y - self.y_mean) / self.y_scale


def _spread(values: Array) -> Array:
    """Return the deviation, or 1 where all there is of it is rounding."""
    deviation = values.std(axis=0)
    return np.where(deviation <= 1e-12 * np.abs(values.mean(axis=0)), 1.0, deviation)


def _remarks(params: Params, solver: str) -> tuple[str, ...]:
    remarks = []
    if any(params["dropouts"]):
        remarks.append("dropouts have no effect: scikit-learn's networks have none")
    if solver != params["optimizer"]:
        remarks.append(f"trained with {solver}: scikit-learn has no {params['optimizer']}")
    return tuple(remarks)


def _activate(signal: Array, activation: str) -> Array:
    if activation == "relu":
        return np.maximum(signal, 0.0)
    if activation == "tanh":
        return np.tanh(signal)
    if activation == "logistic":
        return 0.5 * (1.0 + np.tanh(0.5 * signal))
    return signal
