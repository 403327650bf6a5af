"""Error scores of predictions: means, and the tail that a mean hides."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Scores:
    """Errors on one set of rows; relative errors are fractions, so 0.05 means 5 %.

    A score that is undefined for these rows (R² of one row, the relative error of a zero) is NaN.
    A score that overflows is infinite.
    """

    mape: float
    rmse: float
    r2: float
    median_ape: float
    p90_ape: float

    def to_json(self) -> dict[str, float | None]:
        """Return plain values, with None for a score that is undefined or infinite."""
        return {k: v if np.isfinite(v) else None for k, v in asdict(self).items()}

    @classmethod
    def from_json(cls, values: dict[str, float | None]) -> Scores:
        """Rebuild from plain values, None standing for NaN."""
        return cls(**{k: np.nan if v is None else v for k, v in values.items()})


SCORE_NAMES = tuple(f.name for f in fields(Scores))


def score(truth: NDArray[np.float64], prediction: NDArray[np.float64]) -> Scores:
    """Compare predictions with the truth.

    >>> import numpy as np
    >>> round(score(np.array([1.0, 2.0, 4.0]), np.array([1.1, 2.0, 3.0])).mape, 4)
    0.1167
    """
    errors = _Errors(truth, prediction)
    return Scores(**{name: getattr(errors, name)() for name in SCORE_NAMES})


def error_of(truth: NDArray[np.float64], prediction: NDArray[np.float64], name: str) -> float:
    """Compute one of the scores alone.

    >>> round(error_of(np.array([1.0, 2.0, 4.0]), np.array([1.1, 2.0, 3.0]), "mape"), 4)
    0.1167
    """
    error: float = getattr(_Errors(truth, prediction), name)()
    return error


class _Errors:
    """The errors of some predictions; each score is a method of its name."""

    def __init__(self, truth: NDArray[np.float64], prediction: NDArray[np.float64]) -> None:
        self._truth = truth
        with np.errstate(over="ignore", invalid="ignore"):  # squares of huge targets overflow
            self._error = truth - prediction
            self._squared = float(np.sum(self._error**2))

    @cached_property
    def _relative(self) -> NDArray[np.float64] | None:
        with np.errstate(over="ignore", invalid="ignore"):
            return None if (self._truth == 0).any() else np.abs(self._error / self._truth)

    def mape(self) -> float:
        return math.nan if self._relative is None else float(self._relative.mean())

    def median_ape(self) -> float:
        return math.nan if self._relative is None else float(np.median(self._relative))

    def p90_ape(self) -> float:
        return math.nan if self._relative is None else float(np.quantile(self._relative, 0.9))

    def rmse(self) -> float:
        return float(np.sqrt(self._squared / len(self._truth)))

    def r2(self) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            spread = float(np.sum((self._truth - self._truth.mean()) ** 2))
        return 1 - self._squared / spread if 0 < spread < np.inf else math.nan
