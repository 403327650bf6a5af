"""Error scores of predictions: means, and the tail that a mean hides."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

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
    with np.errstate(over="ignore", invalid="ignore"):  # squares of huge targets overflow
        error = truth - prediction
        spread = float(np.sum((truth - truth.mean()) ** 2))
        squared = float(np.sum(error**2))
        if (truth == 0).any():
            mape = median = p90 = float("nan")
        else:
            relative = np.abs(error / truth)
            mape, median = float(relative.mean()), float(np.median(relative))
            p90 = float(np.quantile(relative, 0.9))
    return Scores(
        mape=mape,
        rmse=float(np.sqrt(squared / len(truth))),
        r2=1 - squared / spread if 0 < spread < np.inf else float("nan"),
        median_ape=median,
        p90_ape=p90,
    )
