"""Ensemble: members of several kinds vote, weighted by rehearsed error on the question asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.model.automatic.runs_made import RunsMade
from foretell.model.automatic.vote import Vote
from foretell.model.techniques._base import (
    NEGLIGIBLE,
    Array,
    Regressor,
    State,
    weighted_quantiles,
)
from foretell.model.techniques._state import (
    join_states,
    part_of,
    read_array,
    read_number,
    regressor_class,
)
from foretell.model.techniques.points.robust import read_log_band

NAME = "Ensemble"
_MOST_MEMBERS = 100  # in a file, which may be hostile


@dataclass(frozen=True, eq=False)
class Member:
    """One member: its name in the ensemble, its technique, and its model."""

    name: str
    technique: str
    regressor: Regressor


@dataclass(frozen=True, eq=False)
class EnsembleRegressor(Regressor):
    """The middle half of the members' votes, lowered where they disagree, and the runs made."""

    members: tuple[Member, ...]
    vote: Vote
    numeric: tuple[int, ...]
    shift: float
    low: float
    high: float
    runs: RunsMade

    def predict(self, x: Array) -> Array:
        """Return one prediction per row of ``x``."""
        if not len(x):
            return np.zeros(0)
        return self._with_runs(x, self._log_prediction(x, *self._votes(x)))

    def with_doubt(self, x: Array, probabilities: Sequence[float]) -> Array:
        """Predict, and say how far the members, and the laws of a member, are from that."""
        result = np.zeros((len(x), 1 + len(probabilities)))
        if not len(x):
            return result
        votes, weights = self._votes(x)
        log_y = self._log_prediction(x, votes, weights)
        result[:, 0] = self._with_runs(x, log_y)
        for i, member in enumerate(self.members):
            found = member.regressor.alternatives(x)
            if found is not None:
                values, shares = found
                logs = np.log(np.maximum(values, np.exp(self.low)))
                votes = np.hstack([votes, logs])
                weights = np.hstack([weights, weights[:, [i]] * shares])
                weights[:, i] = 0.0
        off = np.clip(votes, self.low, self.high) - log_y[:, None]
        result[:, 1:] = weighted_quantiles(off, weights, probabilities)
        return result

    def _votes(self, x: Array) -> tuple[Array, Array]:
        """Return the log prediction of each member, and its weight."""
        weights = self.vote.weights(x[:, list(self.numeric)])
        votes = np.zeros(weights.shape)
        least = np.exp(self.low)  # a linear member may go below zero
        for i, member in enumerate(self.members):
            counts = weights[:, i] > NEGLIGIBLE
            if counts.any():
                predicted = member.regressor.predict(x[counts])
                votes[counts, i] = np.log(np.maximum(predicted, least))
        return votes, weights

    def _log_prediction(self, x: Array, votes: Array, weights: Array) -> Array:
        log_y = self.vote.combined(x[:, list(self.numeric)], votes, weights)
        return np.clip(log_y + self.shift, self.low, self.high)

    def _with_runs(self, x: Array, log_y: Array) -> Array:
        """Combine what the members say with the runs made at the same configurations."""
        return np.exp(np.clip(self.runs.combined(x, log_y), self.low, self.high))

    @property
    def has_stopped(self) -> bool:
        """Whether it knows of runs that were stopped at a time limit."""
        return len(self.runs.stopped) > 0

    def is_stopped(self, x: Array) -> NDArray[np.bool_]:
        """Say of which rows only lower bounds are known: every run near them was stopped."""
        return self.runs.is_stopped(x)

    def limits(self) -> tuple[float, float]:
        """Return where predictions end when every member is at the end of its own band."""
        low, high = self.low + max(self.shift, 0.0), self.high + min(self.shift, 0.0)
        return float(np.exp(low)), float(np.exp(high))

    def importances(self) -> Array | None:
        """Return the mean of the members' shares, weighted as inside the data."""
        found = [
            (weight, own)
            for weight, member in zip(self.vote.inside_weights, self.members, strict=True)
            if weight > NEGLIGIBLE and (own := member.regressor.importances()) is not None
        ]
        if not found:
            return None
        total: Array = sum((w * s for w, s in found), start=np.zeros(len(found[0][1])))
        shares: Array = total / total.sum()
        return shares

    def notes(self) -> list[str]:
        """Say who votes."""
        return [f"members: {', '.join(m.name for m in self.members)}"]

    def to_state(self) -> State:
        """Return the states of all members, and their errors by question."""
        parts = {f"member_{i}": m.regressor.to_state() for i, m in enumerate(self.members)}
        joined = join_states({**parts, "vote": self.vote.to_state(), "runs": self.runs.to_state()})
        values = {
            **joined.values,
            "members": [[m.name, m.technique] for m in self.members],
            "shift": self.shift,
            "low": self.low,
            "high": self.high,
        }
        return State(values, {**joined.arrays, "numeric": np.array(self.numeric, dtype=np.int64)})

    @classmethod
    def from_state(cls, state: State, n_features: int) -> EnsembleRegressor:
        """Rebuild, or raise ValueError."""
        names = state.values.get("members")
        if (
            not isinstance(names, list)
            or not names
            or not all(
                isinstance(pair, list) and [type(part) for part in pair] == [str, str]
                for pair in names
            )
        ):
            raise ValueError("'members' must be a list of names")
        if len(names) > _MOST_MEMBERS:
            raise ValueError(f"an ensemble has at most {_MOST_MEMBERS} members")
        if any(technique == NAME for _, technique in names):
            raise ValueError("an ensemble cannot be a member of an ensemble")
        members = tuple(
            Member(
                name,
                technique,
                regressor_class(technique).from_state(part_of(state, f"member_{i}"), n_features),
            )
            for i, (name, technique) in enumerate(names)
        )
        numeric = read_array(state, "numeric", shape=(None,), dtype=np.int64)
        if len(numeric) and not (numeric.min() >= 0 and numeric.max() < n_features):
            raise ValueError("a numeric column is not among the features")
        vote = Vote.from_state(part_of(state, "vote"), len(numeric), len(members))
        shift, band = read_number(state, "shift"), read_log_band(state)
        runs = RunsMade.from_state(part_of(state, "runs"), n_features)
        return cls(members, vote, tuple(numeric.tolist()), shift, *band, runs)
