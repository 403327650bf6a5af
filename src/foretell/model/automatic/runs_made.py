"""The runs that were made: predictions of measured configurations take their runs into account.

A vote of members may contradict the runs of a configuration that differs from all others. The
prediction there is a mean of both, weighted by how precise they are: the vote as precise as it was
on configurations it had not seen, the runs as their noise and number allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foretell.model.passports.measured_range import MeasuredRange
from foretell.model.techniques._base import Array, State
from foretell.model.techniques._state import read_array, read_number
from foretell.model.techniques.points.merging import MergedRuns, RepeatNoise, group_medians
from foretell.model.techniques.points.robust import MOST_LOG

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

#: In a file; of more configurations, some are drawn.
_MOST_POINTS = 5_000
#: Without repeats, the share of the squared error inside the data that is taken for noise: much,
#: because the members were fitted to the runs already.
_NOISE_SHARE = 0.8
_LEAST_NOISE = 1e-6
_MEDIAN_TO_DEVIATION = 1.4826  # from the median of absolute residuals
_MOST_VARIANCE = 1e6
#: Bits of a number that may differ: the same computation may end in other last digits.
_ROUNDED_BITS = 10


@dataclass(frozen=True, eq=False)
class RunsMade:
    """Measured configurations, and what is known about the log of their target.

    Attributes
    ----------
    log_y, variance, n_runs
        The median of the runs of each configuration, the squared error of that median, and how many
        runs there are. Repeated runs are believed even if all others contradict them; a single run
        may have been disturbed.
    vote_variance
        The squared error of the vote on configurations it had not seen, without noise.
    stopped
        Configurations of which every run was stopped at a time limit.
    """

    x: Array
    log_y: Array
    variance: Array
    n_runs: NDArray[np.int64]
    vote_variance: float
    stopped: Array

    @classmethod
    def of(cls, merged: MergedRuns, inside: Array, n_inside: Array, seed: int) -> RunsMade:
        """Learn the noise of runs from repeats, or else from the errors inside the data.

        ``inside``: residuals of the vote at configurations that it had not seen, and ``n_inside``:
        the number of runs of each.
        """
        points = merged.points
        n_runs = np.bincount(merged.point, minlength=len(points))
        log_y = group_medians(merged.log_y, merged.point, len(points))
        log_y = np.clip(log_y, -MOST_LOG, MOST_LOG)
        error = _MEDIAN_TO_DEVIATION * float(np.median(np.abs(inside))) if len(inside) else 0.0
        single = points.noise
        noise_inside = 0.0  # squared, of the values that residuals were taken at
        if single is None:
            single = max(np.sqrt(_NOISE_SHARE) * error, merged.fitted.process.unexplained)
            noise_inside = single**2
        elif len(inside):
            noise_inside = single**2 * float(np.mean(1 / n_inside))  # those of merged runs
        is_repeated = n_runs > 1
        noise = np.full(len(points), single)
        repeats = RepeatNoise.of(merged.log_y, log_y, merged.point)
        noise[is_repeated] = np.maximum(repeats.pooled, repeats.own)[is_repeated]
        # The weight of a disturbed run is small; only repeats can show that it was none.
        weight = np.where(is_repeated, n_runs, np.minimum(points.weight, 1.0))
        variance = np.maximum(noise, _LEAST_NOISE) ** 2 / np.maximum(weight, _LEAST_NOISE)
        kept = points.draw(_MOST_POINTS, seed)
        return cls(
            points.x[kept],
            log_y[kept],
            np.minimum(variance[kept], _MOST_VARIANCE),
            n_runs[kept],
            max(error**2 - noise_inside, 0.0),
            points.x[:0],
        )

    @classmethod
    def none(cls, n_features: int) -> RunsMade:
        """Return what is known of no runs."""
        nothing, x = np.zeros(0), np.zeros((0, n_features))
        return cls(x, nothing, nothing, np.zeros(0, dtype=np.int64), 0.0, x)

    def combined(self, x: Array, log_votes: Array) -> Array:
        """Return the log prediction of each row: its vote, or a mean with the runs made there."""
        rows, places = self._matches(x)
        off = self.log_y[places] - log_votes[rows]
        variance, n_runs = self.variance[places], self.n_runs[places]
        # Where repeated runs contradict the vote by more than the noise of a run, the vote is less
        # precise than elsewhere. What is left of the difference then never exceeds that noise.
        excess = np.where(n_runs > 1, off**2 - n_runs * variance, 0.0)
        vote_variance = np.maximum(self.vote_variance, excess)
        combined = log_votes.copy()
        combined[rows] += off * vote_variance / (vote_variance + variance)
        return combined

    def _matches(self, x: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows that were measured, and the position of each among the runs."""
        if not len(self.log_y):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        order, hashes = self._hashes
        rounded = _rounded(x)
        asked = _hash(rounded)
        nearest = np.minimum(np.searchsorted(hashes, asked), len(hashes) - 1)
        rows = np.flatnonzero(hashes[nearest] == asked)
        places = order[nearest[rows]]
        is_same = (rounded[rows] == _rounded(self.x[places])).all(axis=1)
        return rows[is_same], places[is_same]

    @cached_property
    def _hashes(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """The order of the configurations by hash, and their hashes in this order."""
        hashes = _hash(_rounded(self.x))
        order = np.argsort(hashes, kind="stable")
        return order, hashes[order]

    def is_stopped(self, x: Array) -> NDArray[np.bool_]:
        """Say which rows are nearer to configurations that were only ever stopped than to others.

        Of such rows no more is known than how long they take at least.
        """
        if not len(self.stopped) or not len(self.x):
            return np.zeros(len(x), dtype=bool)
        position = np.nan_to_num(self._measured.position(x))
        to_ended, to_stopped = (np.asarray(tree.query(position)[0]) for tree in self._trees)
        return to_stopped < to_ended

    @cached_property
    def _measured(self) -> MeasuredRange:
        return MeasuredRange.of(self.x)

    @cached_property
    def _trees(self) -> tuple[cKDTree, cKDTree]:
        """Configurations with a run that ended, and those without."""
        from scipy.spatial import cKDTree

        ended, stopped = (cKDTree(self._measured.position(x)) for x in (self.x, self.stopped))
        return ended, stopped

    def to_state(self) -> State:
        """Return plain arrays."""
        names = ("x", "log_y", "variance", "n_runs", *(["stopped"] if len(self.stopped) else []))
        values = {"vote_variance": self.vote_variance}
        return State(values, {name: getattr(self, name) for name in names})

    @classmethod
    def from_state(cls, state: State, n_features: int) -> RunsMade:
        """Rebuild, or raise ValueError."""
        log_y = read_array(state, "log_y", shape=(None,))
        n_points = len(log_y)
        if n_points > _MOST_POINTS:
            raise ValueError(f"an ensemble keeps at most {_MOST_POINTS} configurations")
        if np.abs(log_y).max(initial=0.0) > MOST_LOG:
            raise ValueError("the target of a run is too large or too small")
        x = read_array(state, "x", shape=(n_points, n_features))
        variance = read_array(state, "variance", shape=(n_points,))
        if not ((variance > 0) & (variance <= _MOST_VARIANCE)).all():
            raise ValueError("the variance of a run must be positive")
        n_runs = read_array(state, "n_runs", shape=(n_points,), dtype=np.int64)
        if n_runs.min(initial=1) < 1:
            raise ValueError("a configuration that was measured has at least one run")
        stopped = x[:0]
        if "stopped" in state.arrays:
            stopped = read_array(state, "stopped", shape=(None, n_features))
        if len(stopped) > _MOST_POINTS:
            raise ValueError(f"an ensemble keeps at most {_MOST_POINTS} stopped configurations")
        vote_variance = read_number(state, "vote_variance")
        if not 0 <= vote_variance <= _MOST_VARIANCE:
            raise ValueError("the variance of a vote cannot be negative")
        return cls(x, log_y, variance, n_runs, vote_variance, stopped)


def _rounded(x: Array) -> NDArray[np.int64]:
    """Return numbers as integers that are equal if the numbers are, up to their last digits."""
    bits = (np.ascontiguousarray(x, dtype=np.float64) + 0.0).view(np.int64)  # -0.0 becomes 0.0
    rounded: NDArray[np.int64] = (bits + (1 << (_ROUNDED_BITS - 1))) >> _ROUNDED_BITS
    return rounded


def _hash(rounded: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return one number per row; rows that differ may share it, though hardly ever."""
    factors = np.random.default_rng(0).integers(1, 2**63, rounded.shape[1], dtype=np.uint64)
    mixed = rounded.view(np.uint64) * (2 * factors + np.uint64(1))
    hashes: NDArray[np.uint64] = (mixed ^ (mixed >> np.uint64(29))).sum(axis=1, dtype=np.uint64)
    return hashes
