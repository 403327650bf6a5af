"""The bench: the points and folds of all members, and how members become an ensemble."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.executors import SerialExecutor
from foretell.model.automatic.ensemble import NAME, EnsembleRegressor, Member
from foretell.model.automatic.folds import FEWEST_LEVELS, Fold, plan_folds
from foretell.model.automatic.members import (
    MOST_POINTS,
    USUAL,
    MemberSpec,
    member_spec,
    read_members,
    usual_voters,
    votes_of,
)
from foretell.model.automatic.runs_made import RunsMade
from foretell.model.automatic.vote import Vote, relative_errors
from foretell.model.passports.measured_range import MeasuredRange
from foretell.model.passports.questions import QuestionKind
from foretell.model.techniques._base import (
    Array,
    Hyperparameter,
    LogTechnique,
    Params,
    Regressor,
    TrainingRows,
)
from foretell.model.techniques.points.merging import MergedRuns, merge_robustly
from foretell.model.techniques.points.robust import log_band
from foretell.model.techniques.processes._process import Points
from foretell.model.techniques.processes.log_gp import LogGPRegressor, fit_merged

#: The log predictions of each member, by fold.
Answers = Mapping[int, Mapping[str, Array]]


@dataclass(frozen=True, eq=False)
class FitTask:
    """A member to fit: on all points, or on those of one fold, starting from the whole fit."""

    member: str
    fold: int | None = None
    start: Regressor | None = None


@dataclass(frozen=True, eq=False)
class RehearsedEnsemble:
    """An ensemble, and everything that was rehearsed for it.

    Attributes
    ----------
    names
        All that were fitted, the voters first.
    folds, answers
        The folds that all have answered, and their log predictions, one column per name.
    """

    regressor: EnsembleRegressor
    names: list[str]
    folds: list[Fold]
    answers: list[Array]

    def knowing(self, stopped: Array) -> RehearsedEnsemble:
        """Return the ensemble that knows at which configurations every run was stopped."""
        runs = replace(self.regressor.runs, stopped=stopped)
        return replace(self, regressor=replace(self.regressor, runs=runs))


@dataclass(frozen=True, eq=False)
class Bench:
    """What all members are fitted on; workers share it.

    Attributes
    ----------
    points, drawn
        The configurations members see, and their positions among all of them.
    log_gp
        The process that was fitted when repeats were merged, and the totals found for it.
    beyond
        What runs teach that were stopped at a time limit; nothing is rehearsed on them.
    """

    voters: tuple[str, ...]
    merged: MergedRuns
    points: Points
    drawn: NDArray[np.int64]
    log_gp: LogGPRegressor
    folds: list[Fold]
    numeric: tuple[int, ...]
    seed: int
    beyond: Points | None = None

    @classmethod
    def of(
        cls,
        rows: TrainingRows,
        names: Sequence[str],
        seed: int,
        has_time: Callable[[], bool] = lambda: True,
    ) -> Bench:
        """Merge repeats, and plan the folds; without time, merge and search less thoroughly."""
        merged = merge_robustly(rows, seed=seed, has_time=has_time)
        drawn = merged.points.draw(MOST_POINTS, seed)
        points = merged.points.take(drawn)
        if tuple(names) == USUAL:
            names = usual_voters(len(rows.y), len(points))
        indicators = {column for group in rows.groups for column in group}
        numeric = tuple(j for j in range(rows.x.shape[1]) if j not in indicators)
        folds = plan_folds(points.x, list(numeric), rows.groups, seed)
        log_gp = fit_merged(merged, seed=seed, with_totals=has_time())
        return cls(tuple(names), merged, points, drawn, log_gp, folds, numeric, seed)

    @cached_property
    def cuttable(self) -> tuple[int, ...]:
        """The columns with enough values for folds, whether there are folds of them or not."""
        x = self.points.x
        return tuple(j for j in self.numeric if len(np.unique(x[:, j])) >= FEWEST_LEVELS)

    def runs(self, points: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """Return each run of some points: its point, its position among all, its log target."""
        position = np.full(len(self.merged.points), -1, dtype=np.int64)
        position[self.drawn[points]] = np.arange(len(points))
        of_run = position[self.merged.point]
        rows = np.flatnonzero(of_run >= 0)
        return of_run[rows], rows, self.merged.log_y[rows]

    def rehearsals(self, fits: Mapping[str, Regressor]) -> Iterator[FitTask]:
        """List the fits on folds, all members of a fold in a row."""
        for fold in _in_turns(self.folds):
            for name, regressor in fits.items():
                yield FitTask(name, fold, regressor.start())

    @cached_property
    def n_runs(self) -> Array:
        """How many runs each point stands for.

        Members are judged by all of them alike: the weights of points say which runs a smooth
        process cannot explain, and a member that can must not lose by that.
        """
        counts = np.bincount(self.merged.point, minlength=len(self.merged.points))
        return counts[self.drawn].astype(float)

    def points_for(self, spec: MemberSpec) -> Points:
        """Return the points as a member sees them."""
        weight = np.maximum(self.points.weight, spec.least_weight * self.n_runs)
        return replace(self.points, weight=weight)

    def assemble(self, fits: Mapping[str, Regressor], answers: Answers) -> RehearsedEnsemble:
        """Weigh the voters by their answers; a fold counts when all have answered it.

        Members that do not vote may have been fitted too; their answers come last.
        """
        names = sorted(fits, key=lambda name: name not in self.voters)
        voters = [name for name in names if name in self.voters]
        complete = [i for i in sorted(answers) if len(answers[i]) == len(fits)]
        folds = [self.folds[i] for i in complete]
        tables = [np.column_stack([answers[i][name] for name in names]) for i in complete]
        errors = [
            relative_errors(table[:, : len(voters)], self.points.log_y[f.test], self.n_runs[f.test])
            for f, table in zip(folds, tables, strict=True)
        ]
        measured = MeasuredRange.of(self.points.x[:, list(self.numeric)])
        vote = Vote.of(measured, [self.renumbered(f) for f in folds], errors, len(voters))
        vote = vote.counted(*votes_of(voters))
        members = tuple(Member(name, member_spec(name).technique, fits[name]) for name in voters)
        band = log_band(self.points.joined(self.beyond).log_y)
        runs = RunsMade.of(self.merged, *self._inside(vote, folds, tables), self.seed)
        regressor = EnsembleRegressor(members, vote, self.numeric, self.merged.shift, *band, runs)
        return RehearsedEnsemble(regressor, names, folds, tables)

    def _inside(
        self, vote: Vote, folds: Sequence[Fold], tables: Sequence[Array]
    ) -> tuple[Array, Array]:
        """Return residuals of the vote at points inside the data that it had not seen.

        Also return the number of runs of each point.
        """
        residuals, n_runs = [np.zeros(0)], [np.zeros(0)]
        for fold, table in zip(folds, tables, strict=True):
            if fold.kind == QuestionKind.INSIDE:
                votes = table[:, : vote.inside.shape[0]]
                log_y = vote.rehearsed(self.renumbered(fold), votes) + self.merged.shift
                residuals.append(self.points.log_y[fold.test] - log_y)
                n_runs.append(self.n_runs[fold.test])
        return np.concatenate(residuals), np.concatenate(n_runs)

    def renumbered(self, fold: Fold) -> Fold:
        """Return a fold whose columns are counted among the numeric ones."""
        position = {column: i for i, column in enumerate(self.numeric)}
        return replace(fold, columns=tuple(position[c] for c in fold.columns if c in position))


def fit_member(bench: Bench, task: FitTask) -> Regressor:
    """Fit one member on all points, or on the training points of a fold."""
    spec = member_spec(task.member)
    technique, params = spec.build()
    points = bench.points_for(spec)
    if task.fold is not None:
        rows = points.take(bench.folds[task.fold].train).as_rows()
        return technique.refit(rows, params, bench.seed, task.start)
    rows = points.sample(spec.most_points, bench.seed).joined(bench.beyond).as_rows()
    if spec.starts_merged:
        return technique.refit(rows, params, bench.seed, bench.log_gp)
    return technique.fit(technique.prepare(rows), params, bench.seed)


def answer(bench: Bench, task: FitTask) -> Array:
    """Fit a member on a fold and return its log predictions of the test points."""
    assert task.fold is not None
    x = bench.folds[task.fold].asked(bench.points.x)
    least = np.exp(log_band(bench.points.log_y)[0])  # a linear member may go below zero
    log_y: Array = np.log(np.maximum(fit_member(bench, task).predict(x), least))
    if not np.isfinite(log_y).all():
        raise ValueError("it predicts values that are not finite")
    return log_y


def _in_turns(folds: Sequence[Fold]) -> Iterable[int]:
    """Order folds so that each kind has had its share whenever time runs out."""
    of_kind: dict[str, list[int]] = {}
    for i, fold in enumerate(folds):
        of_kind.setdefault(fold.kind, []).append(i)
    places = {i: (k + 0.5) / len(own) for own in of_kind.values() for k, i in enumerate(own)}
    return sorted(range(len(folds)), key=lambda i: places[i])


class EnsembleTechnique(LogTechnique):
    """Fit every member, rehearse the questions, and weigh the members by the answers."""

    name = NAME
    regressor = EnsembleRegressor
    hyperparameters = (
        Hyperparameter("members", list(USUAL), read_members, is_list=True, has_words=True),
    )

    def fit(self, prepared: TrainingRows, params: Params, seed: int) -> EnsembleRegressor:
        """Fit one member after the other."""
        bench = Bench.of(prepared, params["members"], seed)
        voters = (FitTask(name) for name in bench.voters)
        fits = {task.member: fitted for task, fitted in _run(bench, fit_member, voters)}
        answers: dict[int, dict[str, Any]] = {}
        for task, log_y in _run(bench, answer, bench.rehearsals(fits)):
            answers.setdefault(task.fold, {})[task.member] = log_y
        return bench.assemble(fits, answers).regressor


def _run(
    bench: Bench, work: Callable[[Bench, FitTask], Any], tasks: Iterable[FitTask]
) -> Iterable[tuple[Any, Any]]:
    """Run tasks here, and raise the first error."""
    for task, result, *_ in SerialExecutor(bench).run(work, tasks):
        if isinstance(result, Exception):
            raise result
        yield task, result
