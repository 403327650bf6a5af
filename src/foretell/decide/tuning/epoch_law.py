"""How epoch times differ from predictions: a linear law of logarithms, learnt trial by trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foretell.spaces.values import Scalar

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
_TRIALS_KNOWN = 4.0  # how many trials the assumed spread between trials counts for
_FAR = 4.0  # deviations from the middle, at which values further out are held
_EPOCH_NOISE = 0.1  # of one epoch, as a logarithm


@dataclass(frozen=True)
class Prior:
    """How far off predictions may be before the first epoch, as standard deviations of logarithms.

    Attributes
    ----------
    job
        Common to all trials: another machine, other load.
    slope
        For each feature, from one end of the space to the middle.
    trial
        What remains between trials.
    """

    job: float
    slope: float
    trial: float

    @classmethod
    def of_model(cls, spread: float) -> Prior:
        """Return what is assumed of a model whose predictions are off by a spread."""
        return cls(
            float(np.hypot(0.7 * spread, 0.05)), 0.3 * spread, float(max(0.7 * spread, 0.02))
        )

    @classmethod
    def of_nothing(cls) -> Prior:
        """Return what is assumed where there is no model: the job could take any time."""
        return cls(3.0, 0.6, 0.3)


class Features:
    """Numbers of a configuration for a linear law: logarithms where all are positive, centered."""

    def __init__(self, sample: pd.DataFrame) -> None:
        self._columns: list[tuple[str, str | None, float, float]] = []
        self._in_logs: set[str] = set()
        for name in sample.columns:
            values = sample[name]
            if values.nunique() < 2:
                continue
            if values.dtype.kind in "bifu":
                self._add_number(name, values.to_numpy(float))
            else:
                for level in sorted(values.astype(str).unique())[1:]:
                    is_level = (values.astype(str) == level).to_numpy(float)
                    self._columns.append((name, level, float(is_level.mean()), 1.0))

    def _add_number(self, name: str, values: Array) -> None:
        if (values > 0).all():
            self._in_logs.add(name)
            values = np.log(values)
        self._columns.append((name, None, float(values.mean()), float(values.std()) or 1.0))

    @property
    def n(self) -> int:
        """How many features there are."""
        return len(self._columns)

    def matrix(self, frame: pd.DataFrame) -> Array:
        """Return a row per configuration; what is missing or unknown counts as the middle."""
        found = np.zeros((len(frame), self.n))
        for k, (name, level, center, scale) in enumerate(self._columns):
            if name not in frame.columns:
                continue
            if level is not None:
                found[:, k] = (frame[name].astype(str) == level).to_numpy(float) - center
                continue
            values = np.array([_number(v) for v in frame[name]])
            if name in self._in_logs:
                values = np.log(np.where(values > 0, values, np.nan))
            found[:, k] = np.clip(np.nan_to_num((values - center) / scale), -_FAR, _FAR)
        return found


def _number(value: Scalar | None) -> float:
    try:
        return float(value) if value is not None else np.nan
    except ValueError:
        return np.nan


@dataclass(frozen=True)
class Seen:
    """What trials took: logarithms of seconds by prediction, and of how many epochs they are."""

    features: Array
    ratios: Array
    n_epochs: Array


@dataclass(frozen=True)
class EpochLaw:
    """The law after some trials: coefficients (the common one first), and what remains.

    Attributes
    ----------
    covariance
        How sure the coefficients are.
    trial
        The standard deviation between trials that remains.
    """

    mean: Array
    covariance: Array
    trial: float

    @classmethod
    def learn(cls, prior: Prior, n_features: int, seen: Seen | None = None) -> EpochLaw:
        """Combine what was assumed with what trials took."""
        variances = np.array([prior.job**2, *[prior.slope**2] * n_features])
        if seen is None or not len(seen.ratios):
            return cls(np.zeros(n_features + 1), np.diag(variances), prior.trial)
        X = np.column_stack([np.ones(len(seen.ratios)), seen.features])
        trial = prior.trial
        for _ in range(4):  # the spread between trials and the law depend on one another
            weights = 1 / (trial**2 + _EPOCH_NOISE**2 / seen.n_epochs)
            covariance: Array = np.linalg.inv(np.diag(1 / variances) + (X.T * weights) @ X).astype(
                float
            )
            mean = covariance @ ((X.T * weights) @ seen.ratios)
            rest = seen.ratios - X @ mean
            # The law bends toward what it has seen: what it explains counts as well.
            own = np.sum((X @ covariance) * X, axis=1)
            squares = np.sum(rest**2 + own) + _TRIALS_KNOWN * prior.trial**2
            trial = float(np.sqrt(squares / (len(rest) + _TRIALS_KNOWN)))
        return cls(mean, covariance, trial)

    def draw(self, n: int, random: np.random.Generator) -> Array:
        """Draw coefficients: one row per draw."""
        found: Array = random.multivariate_normal(self.mean, self.covariance, size=n, method="eigh")
        return found

    def own(self, seen: Seen, coefficients: Array) -> tuple[Array, Array]:
        """Return what is known of trials seen themselves beyond a law: means and deviations."""
        X = np.column_stack([np.ones(len(seen.ratios)), seen.features])
        noise = _EPOCH_NOISE**2 / seen.n_epochs
        share = self.trial**2 / (self.trial**2 + noise)
        return share * (seen.ratios - X @ coefficients), np.sqrt(share * noise)


def frame_of(configurations: Sequence[Mapping[str, Scalar]]) -> pd.DataFrame:
    """Return configurations as a table."""
    import pandas as pd

    return pd.DataFrame(list(configurations))
