"""Ensemble: members of several kinds, each heard by what it was worth on such a question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.model.measured_range import MeasuredRange
from foretell.model.techniques._base import (
    Array,
    Hyperparameter,
    Params,
    Regressor,
    State,
    Technique,
    TrainingRows,
    complete,
)
from foretell.model.techniques._nested import join_states, part_of, regressor_class
from foretell.model.techniques._process import Points
from foretell.model.techniques._questions import FEWEST_LEVELS, Fold, plan_folds
from foretell.model.techniques._robust import Cleaned, clean
from foretell.model.techniques._state import read_array, read_number
from foretell.model.techniques._vote import Vote, relative_errors, trimmed_mean
from foretell.model.techniques.hybrid import rows_of
from foretell.model.techniques.log_gp import LogGPRegressor, LogGPTechnique, bounds_of, fit_cleaned

#: The members known by a name of their own: a technique and its settings.
MEMBERS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "LogGP": ("LogGP", {}),
    "RoughGP": ("LogGP", {"form": "rough"}),
    "FlatGP": ("LogGP", {"beyond": "flat"}),
    "SparseGP": ("LogGP", {"form": "sparse"}),
    "Hybrid": ("Hybrid", {}),
    "TrendTrees": ("Hybrid", {"law": "PowerLaw", "rest": "trees"}),
    "BoostedTrend": ("Hybrid", {"law": "PowerLaw", "rest": "boosting"}),
    "LightTrees": ("LightTrees", {}),
    "ScalingLaw": ("ScalingLaw", {}),
    "PowerLaw": ("PowerLaw", {"penalty": 0.1}),  # more would bend the slopes of few runs
}
#: One voice of each kind: smooth, rough with few axes, law, trees; and, which matters outside the
#: data, that nothing changes any more.
USUAL = ("LogGP", "SparseGP", "Hybrid", "TrendTrees", "FlatGP")
#: Those that are others inside the data, and have a say beyond it alone.
_ONLY_BEYOND = ("FlatGP",)
LAWS = ("ScalingLaw", "PowerLaw")
#: From so few runs, trees and what stands on a law say nothing.
_FEW_RUNS = 10
_OF_FEW = (*LAWS, "LogGP")
#: From so many configurations on, boosting has its say, too.
_MANY_POINTS = 2_000
#: Members see at most so many configurations, drawn at random; boosting sees more.
_MOST_POINTS = 5_000
_MOST_BOOSTED = 50_000
_UNHEARD = 1e-12  # a weight that changes no prediction
_MOST_MEMBERS = 100  # in a file, which may be hostile


@dataclass(frozen=True, eq=False)
class Member:
    """One voice: its name in the ensemble, its technique, and its model."""

    name: str
    technique: str
    regressor: Regressor


@dataclass(frozen=True, eq=False)
class EnsembleRegressor(Regressor):
    """The middle half of the members' votes on the log of the target."""

    members: tuple[Member, ...]
    vote: Vote
    numeric: tuple[int, ...]
    shift: float
    low: float
    high: float

    @property
    def n_members(self) -> int:
        """How many vote."""
        return len(self.members)

    def predict(self, x: Array) -> Array:
        """Return one prediction per row of ``x``."""
        if not len(x):
            return np.zeros(0)
        weights = self.vote.weights(x[:, list(self.numeric)])
        votes = np.zeros(weights.shape)
        least = np.exp(self.low)  # a linear member may go below zero
        for i, member in enumerate(self.members):
            heard = weights[:, i] > _UNHEARD
            if heard.any():
                predicted = member.regressor.predict(x[heard])
                votes[heard, i] = np.log(np.maximum(predicted, least))
        log_y = trimmed_mean(votes, weights) + self.shift
        return np.exp(np.clip(log_y, self.low, self.high))

    def importances(self) -> Array | None:
        """Return the mean of the members' shares, weighed as inside the data."""
        inside = np.exp(-self.vote.inside)
        found = [
            (weight, own)
            for weight, member in zip(inside, self.members, strict=True)
            if weight > _UNHEARD and (own := member.regressor.importances()) is not None
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
        """Return the states of all members, and what they are worth."""
        parts = {f"member_{i}": m.regressor.to_state() for i, m in enumerate(self.members)}
        joined = join_states({**parts, "vote": self.vote.to_state()})
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
        if not isinstance(names, list) or not names or not all(_are_texts(n) for n in names):
            raise ValueError("'members' must be a list of names")
        if len(names) > _MOST_MEMBERS:
            raise ValueError(f"an ensemble has at most {_MOST_MEMBERS} members")
        if any(technique == EnsembleTechnique.name for _, technique in names):
            raise ValueError("an ensemble is no member of an ensemble")
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
        shift, low, high = (read_number(state, name) for name in ("shift", "low", "high"))
        if not -700 <= low <= high <= 700:
            raise ValueError("the bounds of predictions are out of order")
        return cls(members, vote, tuple(numeric.tolist()), shift, low, high)


def _by_number(n_runs: int, n_points: int) -> tuple[str, ...]:
    """Choose who votes by how much was measured."""
    if n_runs <= _FEW_RUNS:
        return _OF_FEW
    return (*USUAL, "BoostedTrend") if n_points > _MANY_POINTS else USUAL


def _are_texts(pair: Any) -> bool:
    return isinstance(pair, list) and [type(part) for part in pair] == [str, str]


class EnsembleTechnique(Technique):
    """Fit every member, rehearse the questions, and weigh the members by the answers."""

    name = "Ensemble"
    regressor = EnsembleRegressor
    needs_units = True
    weighs_rows = True
    hyperparameters = (
        Hyperparameter(
            "members", list(USUAL), lambda value: _read_members(value), is_list=True, has_words=True
        ),
    )

    def fit(self, prepared: TrainingRows, params: Params, seed: int) -> EnsembleRegressor:
        """Fit one member after the other."""
        bench = Bench.of(prepared, params["members"], seed)
        fits = {job.member: fit_member(bench, job) for job in bench.jobs()}
        return bench.assemble(fits, rehearse(bench, fits)).regressor


def _read_members(value: Any) -> list[str]:
    from foretell.model.techniques import TECHNIQUES  # it holds this one, too

    names = [value] if isinstance(value, str) else list(value)
    known = list(dict.fromkeys([*MEMBERS, *TECHNIQUES.names()]))
    known.remove(EnsembleTechnique.name)
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is no member; choose from {', '.join(known)}")
    if not names:
        raise ValueError("an ensemble needs a member")
    return list(dict.fromkeys(names))


@dataclass(frozen=True, eq=False)
class Job:
    """A member to fit: on all points, or on those of one fold, starting from the whole fit."""

    member: str
    fold: int | None = None
    start: Regressor | None = None


@dataclass(frozen=True, eq=False)
class Assembled:
    """An ensemble, and everything that was rehearsed for it.

    Attributes
    ----------
    names
        Everyone who was fitted, the voters first.
    folds, answers
        The folds that all have answered, and the log predictions of each, one column per name.
    """

    regressor: EnsembleRegressor
    names: list[str]
    folds: list[Fold]
    answers: list[Array]


@dataclass(frozen=True, eq=False)
class Bench:
    """What all members are fitted on; workers share it.

    Attributes
    ----------
    points, drawn
        The configurations members see, and their positions among all of them.
    log_gp
        The process that cleaning ended with, and the totals found for it.
    """

    voters: tuple[str, ...]
    cleaned: Cleaned
    points: Points
    drawn: NDArray[np.int64]
    log_gp: LogGPRegressor
    folds: list[Fold]
    numeric: tuple[int, ...]
    seed: int

    @classmethod
    def of(
        cls,
        rows: TrainingRows,
        names: Sequence[str],
        seed: int,
        has_time: Callable[[], bool] = lambda: True,
    ) -> Bench:
        """Merge repeats, and plan the folds; without time, merge and search less thoroughly."""
        cleaned = clean(rows, seed=seed, has_time=has_time)
        drawn = cleaned.points.draw(_MOST_BOOSTED, seed)
        points = cleaned.points.take(drawn)
        if tuple(names) == USUAL:
            names = _by_number(len(rows.y), len(points))
        indicators = {column for group in rows.groups for column in group}
        numeric = tuple(j for j in range(rows.x.shape[1]) if j not in indicators)
        folds = plan_folds(points.x, list(numeric), rows.groups, seed)
        log_gp = fit_cleaned(cleaned, seed=seed, with_totals=has_time())
        return cls(tuple(names), cleaned, points, drawn, log_gp, folds, numeric, seed)

    @cached_property
    def cuttable(self) -> tuple[int, ...]:
        """The columns with values enough to be held out in part, whether they were or not."""
        x = self.points.x
        return tuple(j for j in self.numeric if len(np.unique(x[:, j])) >= FEWEST_LEVELS)

    def runs(self, points: NDArray[np.int64]) -> tuple[NDArray[np.int64], Array]:
        """Return every run of some points: its position among them, and its log target."""
        of_run = self._positions(points)
        return of_run[of_run >= 0], self.cleaned.log_y[of_run >= 0]

    def rows(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of those runs among all, in the same order."""
        return np.flatnonzero(self._positions(points) >= 0)

    def _positions(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each run which of these points it is of; -1 if of none."""
        position = np.full(len(self.cleaned.points), -1, dtype=np.int64)
        position[self.drawn[points]] = np.arange(len(points))
        return position[self.cleaned.point]

    def jobs(self) -> list[Job]:
        """List the fits of the voters on all points."""
        return [Job(name) for name in self.voters]

    def rehearsals(self, fits: Mapping[str, Regressor]) -> Iterator[Job]:
        """List the fits on folds, all members of a fold in a row."""
        for fold in _in_turns(self.folds):
            for name, regressor in fits.items():
                yield Job(name, fold, regressor.start())

    def assemble(
        self, fits: Mapping[str, Regressor], answers: Mapping[int, Mapping[str, Array]]
    ) -> Assembled:
        """Weigh the voters by their answers; a fold counts when all have answered it.

        Others than voters may have been fitted; their answers stand after those of the voters.
        """
        names = sorted(fits, key=lambda name: name not in self.voters)
        voters = [name for name in names if name in self.voters]
        complete_ = [i for i in sorted(answers) if len(answers[i]) == len(fits)]
        folds = [self.folds[i] for i in complete_]
        tables = [np.column_stack([answers[i][name] for name in names]) for i in complete_]
        errors = [
            relative_errors(
                table[:, : len(voters)], self.points.log_y[f.test], self.points.weight[f.test]
            )
            for f, table in zip(folds, tables, strict=True)
        ]
        measured = MeasuredRange.of(self.points.x[:, list(self.numeric)])
        vote = Vote.of(measured, [self.renumbered(f) for f in folds], errors, len(voters))
        if len(voters) > 1:
            vote = vote.silenced_inside([name in _ONLY_BEYOND for name in voters])
        members = tuple(Member(n, MEMBERS.get(n, (n,))[0], fits[n]) for n in voters)
        low, high = bounds_of(self.points.log_y)
        shift = self.cleaned.shift
        regressor = EnsembleRegressor(members, vote, self.numeric, shift, low, high)
        return Assembled(regressor, names, folds, tables)

    def renumbered(self, fold: Fold) -> Fold:
        """Return a fold whose columns are counted among the numeric ones."""
        position = {column: i for i, column in enumerate(self.numeric)}
        return replace(fold, columns=tuple(position[c] for c in fold.columns if c in position))


def fit_member(bench: Bench, job: Job) -> Regressor:
    """Fit one member on all points, or on the training points of a fold."""
    technique, params = member_technique(job.member)
    if job.fold is not None:
        rows = rows_of(bench.points.take(bench.folds[job.fold].train))
        return technique.refit(rows, params, bench.seed, job.start)
    most = _MOST_BOOSTED if params.get("rest") == "boosting" else _MOST_POINTS
    rows = rows_of(bench.points.sample(most, bench.seed))
    if technique.name == LogGPTechnique.name:  # what was found in cleaning serves all of them
        return technique.refit(rows, params, bench.seed, bench.log_gp)
    return technique.fit(technique.prepare(rows), params, bench.seed)


def answer(bench: Bench, job: Job) -> Array:
    """Fit a member on a fold and return its log predictions of the test points."""
    assert job.fold is not None
    x = bench.folds[job.fold].asked(bench.points.x)
    least = np.exp(bounds_of(bench.points.log_y)[0])  # a linear member may go below zero
    log_y: Array = np.log(np.maximum(fit_member(bench, job).predict(x), least))
    if not np.isfinite(log_y).all():
        raise ValueError("it predicts values that are not finite")
    return log_y


def rehearse(bench: Bench, fits: Mapping[str, Regressor]) -> dict[int, dict[str, Array]]:
    """Answer every fold, one after the other."""
    answers: dict[int, dict[str, Array]] = {}
    for job in bench.rehearsals(fits):
        assert job.fold is not None
        answers.setdefault(job.fold, {})[job.member] = answer(bench, job)
    return answers


def member_technique(name: str) -> tuple[Technique, dict[str, Any]]:
    """Return the technique of a member, and its settings."""
    from foretell.model.techniques import TECHNIQUES  # it holds this one, too

    technique_name, settings = MEMBERS.get(name, (name, {}))
    technique = TECHNIQUES.get(technique_name)()
    return technique, complete(technique, settings)


def _in_turns(folds: Sequence[Fold]) -> Iterable[int]:
    """Order folds so that each kind has had its share whenever time runs out."""
    of_kind: dict[str, list[int]] = {}
    for i, fold in enumerate(folds):
        of_kind.setdefault(fold.kind, []).append(i)
    places = {i: (k + 0.5) / len(own) for own in of_kind.values() for k, i in enumerate(own)}
    return sorted(range(len(folds)), key=lambda i: places[i])
