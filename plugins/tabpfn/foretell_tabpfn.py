"""TabPFN as a technique of foretell: a network that learned to learn tables, with your weights.

The weights are not part of this package, and nothing is downloaded. Their license is an agreement
between you and their authors. ``FORETELL_TABPFN_WEIGHTS`` names the file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from foretell.model.techniques import (
    Hyperparameter,
    Params,
    Regressor,
    State,
    Technique,
    TrainingRows,
)

WEIGHTS = "FORETELL_TABPFN_WEIGHTS"
#: What the network was made for; of more rows, a random sample is taken.
_MOST_ROWS = 10_000
_MOST_COPIES = 64
#: Rows with less than this share of the largest weight are outliers, and left out.
_LEAST_WEIGHT = 0.05


def weights_file() -> Path:
    """Return the file that the user named, or raise ValueError with what to do.

    It is never named by a model file: loading weights may run code.
    """
    named = os.environ.get(WEIGHTS)
    if not named or not Path(named).is_file():
        came = f"'{named}' is not a file" if named else "it is not set"
        raise ValueError(
            f"TabPFN needs a file with its weights in the variable {WEIGHTS}, and {came}. "
            "Download them from their authors, whose license applies."
        )
    return Path(named)


@dataclass(frozen=True, eq=False)
class TabPFNRegressor(Regressor):
    """The training rows: the network reads them anew for each table of questions."""

    x: np.ndarray
    log_y: np.ndarray
    n_estimators: int
    seed: int

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return one prediction per row of ``x``."""
        if not len(x):
            return np.zeros(0)
        log_y = np.asarray(self._network.predict(x, output_type="median"), dtype=np.float64)
        return np.exp(log_y)

    @cached_property
    def _network(self) -> Any:
        from tabpfn import TabPFNRegressor as Network

        network = Network(
            n_estimators=self.n_estimators,
            model_path=str(weights_file()),
            device="cpu",
            random_state=self.seed,
            ignore_pretraining_limits=True,
        )
        return network.fit(self.x, self.log_y)

    def to_state(self) -> State:
        """Return the rows and settings; the weights stay where they are."""
        values = {"n_estimators": self.n_estimators, "seed": self.seed}
        return State(values, {"x": self.x, "log_y": self.log_y})

    @classmethod
    def from_state(cls, state: State, n_features: int) -> TabPFNRegressor:
        """Rebuild, or raise ValueError."""
        numbers = [state.values.get(name) for name in ("n_estimators", "seed")]
        if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers):
            raise ValueError("the number of copies and the seed must be whole numbers")
        if not 1 <= numbers[0] <= _MOST_COPIES:
            raise ValueError(f"there are 1 to {_MOST_COPIES} copies of the network")
        x, log_y = state.arrays.get("x"), state.arrays.get("log_y")
        if x is None or log_y is None or log_y.ndim != 1 or x.shape != (len(log_y), n_features):
            raise ValueError("the rows do not fit together")
        if not 1 <= len(log_y) <= _MOST_ROWS:
            raise ValueError(f"there are 1 to {_MOST_ROWS} rows")
        for array in (x, log_y):
            if array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError("the rows must be finite numbers")
        if np.abs(log_y).max() > 700:
            raise ValueError("a target is too large or too small")
        return cls(x, log_y, *numbers)


def _read_count(value: Any) -> int:
    if isinstance(value, bool | str) or value != round(value) or not 1 <= value <= _MOST_COPIES:
        raise ValueError(f"must be a whole number from 1 to {_MOST_COPIES}, not {value!r}")
    return round(value)


class TabPFNTechnique(Technique):
    """Let the network predict the logarithm of the target."""

    name = "TabPFN"
    regressor = TabPFNRegressor
    needs_units = True
    weighs_rows = True
    hyperparameters = (Hyperparameter("n_estimators", 8, _read_count, prior="uniformint(1,16)"),)

    def fit(self, prepared: TrainingRows, params: Params, seed: int) -> TabPFNRegressor:
        """Keep the rows that are no outliers; the first prediction needs the weights."""
        if not (prepared.y > 0).all():
            raise ValueError("the target must be positive, because its logarithm is modeled")
        weights_file()
        kept = np.flatnonzero(prepared.weight >= _LEAST_WEIGHT * prepared.weight.max())
        if len(kept) > _MOST_ROWS:
            kept = np.sort(np.random.default_rng(seed).permutation(kept)[:_MOST_ROWS])
        x, log_y = prepared.x[kept].astype(np.float64), np.log(prepared.y[kept])
        return TabPFNRegressor(x, log_y, params["n_estimators"], seed)
