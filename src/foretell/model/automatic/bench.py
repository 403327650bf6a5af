"""The bench: what all members are fitted and rehearsed on, and how they become an ensemble."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foretell.model.automatic.ensemble import EnsembleRegressor, Member
from foretell.model.automatic.members import (
    MEMBERS,
    ONLY_BEYOND,
    USUAL,
    chosen_by_number,
    member_technique,
)
from foretell.model.automatic.questions import FEWEST_LEVELS, Fold, plan_folds
from foretell.model.automatic.vote import Vote, relative_errors
from foretell.model.passports.measured_range import MeasuredRange
from foretell.model.techniques._base import Array, Regressor, TrainingRows
from foretell.model.techniques._process import Points
from foretell.model.techniques._robust import Cleaned, clean
from foretell.model.techniques.hybrid import rows_of
from foretell.model.techniques.log_gp import LogGPRegressor, LogGPTechnique, bounds_of, fit_cleaned

#: Members see at most so many configurations, drawn at random; boosting sees more.
_MOST_POINTS = 5_000
_MOST_BOOSTED = 50_000


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
            names = chosen_by_number(len(rows.y), len(points))
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
            vote = vote.silenced_inside([name in ONLY_BEYOND for name in voters])
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


def _in_turns(folds: Sequence[Fold]) -> Iterable[int]:
    """Order folds so that each kind has had its share whenever time runs out."""
    of_kind: dict[str, list[int]] = {}
    for i, fold in enumerate(folds):
        of_kind.setdefault(fold.kind, []).append(i)
    places = {i: (k + 0.5) / len(own) for own in of_kind.values() for k, i in enumerate(own)}
    return sorted(range(len(folds)), key=lambda i: places[i])
