"""The learned residual: what the fluid model leaves over, from summaries of jobs and neighbors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from foretell.corun.models.features import FEATURES, features

if TYPE_CHECKING:
    from foretell.corun.models.cases import Case

Array = NDArray[np.float64]
_MOST = 0.5  # of the logarithm of the factor: a residual must not take over
_LEAST_ROWS = 12


class Residual:
    """The fluid model times a factor: an elastic net of log(measured / fluid)."""

    name: ClassVar[str] = "fluid and residual"

    def __init__(self) -> None:
        self._center = np.zeros(len(FEATURES))
        self._scale = np.ones(len(FEATURES))
        self._weights = np.zeros(len(FEATURES))
        self._bias = 0.0

    def fit(self, cases: Sequence[Case]) -> None:
        """Learn the weights; with few co-runs all stay zero, and the factor is 1."""
        rows, logs = [], []
        for case in cases:
            for k, predicted in enumerate(fluid_times(case)):
                rows.append(features(case.jobs, case.fluid, k))
                logs.append(math.log(case.walls_s[k] / predicted))
        if len(rows) < _LEAST_ROWS:
            return
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import ElasticNetCV

        x, y = np.array(rows), np.clip(np.array(logs), -1.0, 1.0)
        self._center, self._scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-6)
        net = ElasticNetCV(l1_ratio=0.5, cv=5, alphas=20, random_state=0, max_iter=20_000)
        with warnings.catch_warnings():  # strengths of which it is not sure are not chosen
            warnings.simplefilter("ignore", ConvergenceWarning)
            net.fit((x - self._center) / self._scale, y)
        self._weights, self._bias = net.coef_.astype(float), float(net.intercept_)

    def predict(self, case: Case) -> list[float]:
        """Return the times of the fluid model times the factor; alone, nothing is changed."""
        times = fluid_times(case)
        if len(case.jobs) == 1:
            return times
        return [
            t * math.exp(self.log_factor(features(case.jobs, case.fluid, k)))
            for k, t in enumerate(times)
        ]

    def log_factor(self, row: Array) -> float:
        """Return the logarithm of the factor for the features of one job."""
        value = float(((row - self._center) / self._scale) @ self._weights) + self._bias
        return min(max(value, -_MOST), _MOST)

    def state(self) -> dict[str, Any]:
        """Return plain values to keep in a file."""
        return {
            "center": self._center.tolist(),
            "scale": self._scale.tolist(),
            "weights": self._weights.tolist(),
            "bias": self._bias,
        }

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Residual:
        """Return the model that a file holds; raise a ValueError if it holds none."""
        found = cls()
        try:
            arrays = [np.array(state[n], dtype=float) for n in ("center", "scale", "weights")]
            found._bias = float(state["bias"])
        except (KeyError, TypeError):
            raise ValueError("its residual is not complete") from None
        if any(a.shape != (len(FEATURES),) or not np.isfinite(a).all() for a in arrays):
            raise ValueError("its residual has other features")
        found._center, found._scale, found._weights = arrays
        if not math.isfinite(found._bias) or (found._scale <= 0).any():
            raise ValueError("its residual has values that cannot be")
        return found


def fluid_times(case: Case) -> list[float]:
    """Return how long each job takes by the fluid model."""
    ends = case.fluid.ends_s
    return [end - job.start_s for end, job in zip(ends, case.jobs, strict=True)]
