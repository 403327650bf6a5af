"""Learning, the stages in turns: advise, measure, fit, until a plan is sure or the budget spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from foretell.dataset import Dataset, read_dataset, read_description
from foretell.decide.advise.first_runs import first_runs, small_runs
from foretell.decide.advise.next_run import Advice, advise
from foretell.decide.advise.next_sweep import next_sweep
from foretell.decide.advise.options import (
    LEAST_CHANCE,
    AdviceOptions,
    Budget,
    TooLittleError,
    options_of,
)
from foretell.decide.advise.past_runs import PastRuns
from foretell.decide.advise.spent import Account
from foretell.decide.plan.answer import Plan
from foretell.decide.plan.plan import Planner
from foretell.decide.question.equal_rows import without
from foretell.decide.question.objective import PlanRequest, read_request
from foretell.errors import DatasetError, NothingUsableError, StorageError, UsageError, suggest
from foretell.files.directory import locked
from foretell.measure.measure import MeasuredSweep, MeasureOptions, measure_sweep, prepare_sweep
from foretell.measure.sweep import Sweep, read_sweep
from foretell.measure.table import Record, to_row
from foretell.measure.table_sweeps import appended_sweeps, dumped
from foretell.model.directory import BEST
from foretell.model.fit import fit_model
from foretell.spaces.expressions import Expression
from foretell.spaces.values import Range, Scalar, Values, listed
from foretell.statuses import Status

if TYPE_CHECKING:
    from foretell.model.saved.model import SavedModel

TABLE = "runs.csv"
FEWEST_RUNS = 3  # of which a model can be fitted
SURE, SPENT = "sure", "spent"


@dataclass(frozen=True)
class Round:
    """What is known before the next run.

    Attributes
    ----------
    runs
        The runs that are made next; none at the end.
    n_runs, spent
        How many runs were made so far, and what they have cost, of the kind of the budget.
    chance
        How likely the most telling run changes the plan.
    """

    n_runs: int
    runs: list[dict[str, Any]]
    spent: float
    kind: str
    chance: float
    plan: Plan


@dataclass(frozen=True)
class LearnOptions:
    """How to learn.

    Attributes
    ----------
    targets
        The columns to model: a time, and others if they matter for the plan.
    budget
        What all runs may cost together: a time such as "30m", an energy, or money with prices. A
        run that was started is finished, so the last one may exceed it.
    n_runs
        How many runs to make between two fits.
    n_jobs
        Worker processes of a fit.
    progress
        Called with a Round before its runs are made.
    """

    targets: Sequence[str] = ("wall_time_s",)
    budget: str | float | None = None
    least_chance: float = LEAST_CHANCE
    n_runs: int = 1
    n_jobs: int | None = None
    on: str | None = None
    progress: Callable[[Round], None] | None = None


@dataclass(frozen=True)
class Learned:
    """The end of learning.

    Attributes
    ----------
    reason
        ``sure``: no affordable run would change the plan; ``spent``: the budget is used up.
    """

    plan: Plan
    rounds: list[Round]
    reason: str
    budget: Budget
    table: Path
    models: dict[str, Path]

    def __repr__(self) -> str:
        return repr(self.plan)


def learn_plan(
    sweep: Path | str | Mapping[str, Any],
    request: PlanRequest | Mapping[str, Any] | Path | str,
    output: Path | str,
    options: LearnOptions | Mapping[str, Any] | None = None,
) -> Learned:
    """Measure what matters for a plan, and nothing else.

    The same call continues what was stopped: no run is made twice.

    Parameters
    ----------
    sweep
        The job, and the values that can be measured.
    request
        As for a plan.
    output
        A directory for the table of runs and the models.
    """
    asked, of_sweep = read_request(request), read_sweep(sweep)
    asked = asked.model_copy(update={"derive": {**of_sweep.derive, **asked.derive}})
    return _Learner(sweep, of_sweep, asked, Path(output), options_of(LearnOptions, options)).run()


@dataclass
class _Learner:
    source: Path | str | Mapping[str, Any]
    sweep: Sweep
    request: PlanRequest
    output: Path
    options: LearnOptions
    rounds: list[Round] = field(default_factory=list)
    account: Account = field(init=False)
    first: pd.DataFrame = field(init=False)

    def run(self) -> Learned:
        """Make the first runs, then one round after the other."""
        _check_columns(self.sweep, self.request)
        start = self._start()
        self.account = self._account(start)
        try:
            self.output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{self.output} cannot be made: {error.strerror}") from None
        with locked(self.output / "learn.lock", self.output):
            self._make_up(self._first(start))
            while True:
                advice, reason = self._next(read_dataset(self.table))
                if reason is not None:
                    break
                assert advice is not None
                runs = [proposal.configuration for proposal in advice.proposals]
                proposed = next_sweep(dumped(self.sweep), runs, self.rounds[-1].n_runs)
                self._measure(proposed)
        models = {target: self._path(target) for target in self.options.targets}
        last = self.rounds[-1]
        return Learned(last.plan, self.rounds, reason, self.account.budget, self.table, models)

    @property
    def table(self) -> Path:
        """The runs so far."""
        return self.output / TABLE

    def _path(self, target: str) -> Path:
        """Return where a model lies; the only one where other verbs look for it."""
        is_only = len(self.options.targets) == 1
        return self.output / (BEST if is_only else f"{target}.foretell")

    @property
    def folder(self) -> Path:
        """Where modules of the job may lie."""
        is_file = isinstance(self.source, str | Path)
        return Path(self.source).resolve().parent if is_file else Path.cwd()  # type: ignore[arg-type]

    def _account(self, start: Mapping[str, Any]) -> Account:
        """Read the budget, and all else that can be checked before anything is measured."""
        runs = [run.configuration for run in prepare_sweep(start, folder=self.folder).runs]
        self.first = pd.DataFrame(runs)
        options = self.options
        return Account.open(options.budget, options.targets, self.request, runs, self.sweep.warm_up)

    def _first(self, start: dict[str, Any]) -> MeasuredSweep:
        """Make the first runs that the budget has room for, or finish what came after them."""
        for unfinished in appended_sweeps(self.table)[-1:]:
            return self._measure(unfinished)
        return self._measure(start, is_start=True)

    def _measure(self, sweep: dict[str, Any], *, is_start: bool = False) -> MeasuredSweep:
        """Make runs while anything is left of the budget; at the start, only those it affords."""

        def may_start(records: Sequence[Record], runs: Sequence[Mapping[str, Any]]) -> bool:
            made = _frame(records)
            return self.account.affords(made, runs) if is_start else self.account.has_room(made)

        options = MeasureOptions(
            on=self.options.on,
            append=not is_start,
            folder=self.folder,
            may_start=may_start if math.isfinite(self.account.budget.most) else None,
        )
        return measure_sweep(sweep, self.table, options)

    def _start(self) -> dict[str, Any]:
        """Return the first runs as a sweep: those of an earlier question, if there was one."""
        begun = read_description(self.table).get("sweep")
        if isinstance(begun, dict) and begun.get("workload") == dumped(self.sweep)["workload"]:
            return begun
        values = {name: self._values(name) for name in self.sweep.names}
        runs = [run for run in first_runs(values, self.request.fix) if self._may_be_made(run)]
        if not runs:
            raise UsageError("no run is left to start with: 'only' and 'exclude' rule all out")
        return next_sweep(dumped(self.sweep), runs)

    def _may_be_made(self, run: Mapping[str, Any]) -> bool:
        rules = self._advice_options.rules
        return all(_holds(expression, run) in {None, wanted} for expression, wanted in rules)

    def _make_up(self, measured: MeasuredSweep) -> None:
        """Make other small runs in place of first ones that failed or cost too much."""
        values = {name: self._values(name) for name in self.sweep.names}
        possible = [r for r in small_runs(values, self.request.fix) if self._may_be_made(r)]
        while True:
            tried = [{n: r["configuration"][n] for n in values} for r in measured.records]
            others = [run for run in possible if run not in tried]
            is_enough = measured.n_ok >= FEWEST_RUNS
            if is_enough:
                same = _never_changed(tried, self.request.fix)
                others = [run for run in others if any(run[name] != same[name] for name in same)]
            made = _frame(measured.records)
            run = next((run for run in others if self.account.affords(made, [run])), None)
            if is_enough and not others:
                return
            if run is None and others:
                raise NothingUsableError(self._too_little(made, others))
            if run is None:
                raise NothingUsableError(
                    f"only {measured.n_ok} of {len(measured.records)} runs went well, and there "
                    f"are no others to make; {self.table.with_suffix('.log')} has what they printed"
                )
            proposed = next_sweep(dumped(self.sweep), [run], len(measured.records))
            measured = self._measure(proposed)

    def _too_little(self, made: pd.DataFrame, others: Sequence[Mapping[str, Any]]) -> str:
        """Say that no model comes of the runs that the budget allows, and what to do."""
        least = min(self.account.guess(made, [run]) for run in others)
        n_ok = int((made["status"] == Status.OK).sum())
        lacking = f"{n_ok} of them went well, and a model needs {FEWEST_RUNS}"
        if n_ok >= FEWEST_RUNS:
            same = _never_changed(made.to_dict("records"), self.request.fix)
            name = next(name for name in same if any(r[name] != same[name] for r in others))
            lacking = (
                f"all with {name}={same[name]}, which says nothing of {self.request.fix[name]}"
            )
        return (
            f"{self._ends_early(made)}, {lacking}. Another run takes about "
            f"{self.account.written(least)} or more. Raise --budget, and the same command goes on; "
            "or let the sweep have smaller values."
        )

    def _ends_early(self, made: pd.DataFrame) -> str:
        most, spent = self.account.budget.most, self.account.spent(made)
        runs = "1 run" if len(made) == 1 else f"{len(made)} runs"
        return (
            f"--budget {self.account.written(most)} ends before there is a plan: {runs} took "
            f"{self.account.written(spent)}"
        )

    def _values(self, name: str) -> list[Scalar]:
        """Return what can be measured of a column: by the sweep, and by what may be planned."""
        found = _listed(self.sweep.parameters.get(name, []))
        found += [c[name] for c in self.sweep.configurations if name in c]
        if name in self.request.vary:
            found = _listed(self.request.vary[name])
        return found

    def _next(self, dataset: Dataset) -> tuple[Advice | None, str | None]:
        dataset.require(self.options.targets)
        try:
            return self._round(dataset)
        except (UsageError, DatasetError) as error:
            missing = without(self.first, dataset.frame)
            if missing.empty:
                raise
            raise NothingUsableError(
                f"{self._ends_early(dataset.frame)}, and {len(missing)} of the first runs were not "
                f"made. Without them: {error.text} Raise --budget, and the same command goes on."
            ) from None

    def _round(self, dataset: Dataset) -> tuple[Advice | None, str | None]:
        """Fit what is known, plan, and ask what to measure next; say why to stop, if so."""
        models = [self._fit(dataset, target) for target in self.options.targets]
        budget, cost = self.account.budget, self.account.spent(dataset.frame)
        left = Budget(budget.kind, budget.most - cost)
        advice, reason = None, None
        try:
            options = replace(self._advice_options, budget=left)
            advice = advise(models, self.request, data=dataset, options=options)
            plan, chance = advice.plan, advice.best_chance
            reason = None if advice.proposals else SURE
        except TooLittleError:
            broken = PastRuns.of(dataset, models).broken
            plan = Planner.of(models, self.request, excluded=broken).plan()
            chance, reason = float("nan"), SPENT
        runs = [] if advice is None else [p.configuration for p in advice.proposals]
        self.rounds.append(Round(len(dataset.frame), runs, cost, budget.kind, chance, plan))
        if self.options.progress is not None:
            self.options.progress(self.rounds[-1])
        return advice, reason

    @cached_property
    def _advice_options(self) -> AdviceOptions:
        return AdviceOptions(
            n_runs=self.options.n_runs,
            measure=self._smaller() or None,
            least_chance=self.options.least_chance,
            sweep=dumped(self.sweep),
        )

    def _fit(self, dataset: Dataset, target: str) -> SavedModel:
        model = fit_model(dataset, target=target, n_jobs=self.options.n_jobs).best
        model.save(self._path(target))
        return model

    def _smaller(self) -> dict[str, Values]:
        """Return the values up to the job's, of the columns that are given."""
        axes: dict[str, Values] = {}
        for name, value in self.request.fix.items():
            found = self._values(name) if name in self.sweep.names else []
            if len(found) > 1 and not any(isinstance(v, str | bool) for v in [value, *found]):
                axes[name] = [v for v in found if v < value] + [value]  # type: ignore[operator]
        return axes


def _frame(records: Sequence[Record]) -> pd.DataFrame:
    return pd.DataFrame([to_row(record) for record in records])


def _never_changed(tried: Sequence[Mapping[Any, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that are given for the job and had one value in all runs, and that."""
    found = {name: {run[name] for run in tried if name in run} for name in given}
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def _listed(values: Values) -> list[Scalar]:
    if isinstance(values, Range) and values.is_continuous:
        values = values.model_copy(update={"n": 5, "whole": values.is_whole})
    return list(listed(values))


def _holds(expression: Expression, run: Mapping[str, Any]) -> bool | None:
    """Say whether a rule holds for a run; None if it speaks of columns that are derived."""
    return bool(expression.value(run)) if set(expression.names) <= set(run) else None


def _check_columns(sweep: Sweep, request: PlanRequest) -> None:
    """Refuse a question that the sweep cannot answer, before anything is measured."""
    request.question()
    asked = {*request.vary, *request.fix}
    for name in sweep.names:
        values = _listed(sweep.parameters.get(name, [None, None]))  # type: ignore[list-item]
        if name not in asked and name not in request.derive and len(values) > 1:
            raise UsageError(
                f"the sweep has several values of '{name}', and the plan must say which: --fix "
                f"{name}=VALUE, or --vary {name}=... if it is to be chosen"
            )
    spoken = set() if request.prices is None else request.prices.columns
    for name in asked - set(sweep.names) - set(sweep.derive) - spoken:
        raise UsageError(f"'{name}' is no parameter of the sweep. {suggest(name, sweep.names)}")
