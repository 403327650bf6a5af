"""The learning loop: measure, fit, advise in turns until the plan is sure or the budget spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from foretell.dataset import Dataset, read_dataset, read_description
from foretell.decide.advise.advice import Advice
from foretell.decide.advise.belief.informed import inform, informed_planner
from foretell.decide.advise.next_run import advise
from foretell.decide.advise.next_sweep import next_sweep
from foretell.decide.advise.options import AdviceOptions, Budget, TooLittleError, options_of
from foretell.decide.advise.past_runs import PastRuns
from foretell.decide.advise.spent import Account
from foretell.decide.question.objective import PlanRequest, read_request
from foretell.errors import (
    DatasetError,
    NothingUsableError,
    Option,
    Remedy,
    StorageError,
    UsageError,
)
from foretell.files.directory import locked
from foretell.learn.possible_runs import PossibleRuns, never_changed
from foretell.learn.result import SPENT, SURE, Learned, LearnOptions, Round
from foretell.measure.measure import MeasuredSweep, MeasureOptions, measure_sweep, prepare_sweep
from foretell.measure.sweep import Sweep, read_sweep
from foretell.measure.table import Record, to_row
from foretell.measure.table_sweeps import appended_sweeps, dumped
from foretell.model.directory import BEST
from foretell.model.fit import fit_model
from foretell.spaces.rows import without
from foretell.statuses import Status

if TYPE_CHECKING:
    from foretell.model.saved.model import SavedModel

TABLE = "runs.csv"
FEWEST_RUNS = 3  # that a model can be fitted to
_CONTINUE: Remedy = ("Raise ", Option("budget"), " and call again to continue")


def learn_plan(
    sweep: Path | str | Mapping[str, Any],
    request: PlanRequest | Mapping[str, Any] | Path | str,
    output: Path | str,
    options: LearnOptions | Mapping[str, Any] | None = None,
) -> Learned:
    """Measure what matters for a plan, and nothing else.

    The same call continues after an interruption: no run is made twice.

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
        self.possible.check()
        _ = self._advice_options  # checked before anything is measured
        start = self._start()
        self.account = self._account(start)
        try:
            self.output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{self.output} cannot be made: {error.strerror}") from None
        with locked(self.output / "learn.lock", self.output):
            begun = appended_sweeps(self.table)[-1:]  # one that was not finished, perhaps
            self._complete(self._measure(*begun) if begun else self._measure(start, is_start=True))
            while True:
                advice, reason = self._next(read_dataset(self.table))
                if reason is not None:
                    break
                assert advice is not None
                runs = [proposal.configuration for proposal in advice.proposals]
                self._measure(next_sweep(dumped(self.sweep), runs, self.rounds[-1].n_runs))
        models = {target: self._path(target) for target in self.options.targets}
        last = self.rounds[-1]
        return Learned(last.plan, self.rounds, reason, self.account.budget, self.table, models)

    @cached_property
    def possible(self) -> PossibleRuns:
        """What can be measured."""
        return PossibleRuns(self.sweep, self.request)

    @property
    def table(self) -> Path:
        """The runs so far."""
        return self.output / TABLE

    def _path(self, target: str) -> Path:
        """Return the file of a model; a single one gets the name that other verbs look for."""
        is_only = len(self.options.targets) == 1
        return self.output / (BEST if is_only else f"{target}.foretell")

    @property
    def folder(self) -> Path:
        """Where the job may have modules of its own."""
        is_file = isinstance(self.source, str | Path)
        return Path(self.source).resolve().parent if is_file else Path.cwd()  # type: ignore[arg-type]

    def _account(self, start: Mapping[str, Any]) -> Account:
        """Read the budget, and check all that can be checked before anything is measured."""
        runs = [run.configuration for run in prepare_sweep(start, folder=self.folder).runs]
        self.first = pd.DataFrame(runs)
        options = self.options
        return Account.open(options.budget, options.targets, self.request, runs, self.sweep.warm_up)

    def _start(self) -> dict[str, Any]:
        """Return the first runs as a sweep: those of an earlier call, if there was one."""
        begun = read_description(self.table).get("sweep")
        if isinstance(begun, dict) and begun.get("workload") == dumped(self.sweep)["workload"]:
            return begun
        return next_sweep(dumped(self.sweep), self.possible.first())

    def _measure(self, sweep: dict[str, Any], *, is_start: bool = False) -> MeasuredSweep:
        """Make runs until the budget is used up; at the start, only those that fit into it."""

        def may_start(records: Sequence[Record], runs: Sequence[Mapping[str, Any]]) -> bool:
            return self.account.affords(_frame(records), runs if is_start else ())

        options = MeasureOptions(
            on=self.options.on,
            append=not is_start,
            folder=self.folder,
            may_start=may_start if math.isfinite(self.account.budget.most) else None,
        )
        return measure_sweep(sweep, self.table, options)

    def _complete(self, measured: MeasuredSweep) -> None:
        """Make other small runs in place of first ones that failed or cost too much."""
        given = self.request.fix
        while True:
            tried = [{n: r["configuration"][n] for n in self.sweep.names} for r in measured.records]
            others = [run for run in self.possible.small() if run not in tried]
            is_enough = measured.n_ok >= FEWEST_RUNS
            if is_enough:
                same = never_changed(tried, given)
                others = [run for run in others if any(run[name] != same[name] for name in same)]
                if not others:
                    return
            elif not others:
                raise NothingUsableError(
                    f"only {measured.n_ok} of {len(measured.records)} runs went well, and there "
                    f"are no others to make; {self.table.with_suffix('.log')} has what they printed"
                )
            made = _frame(measured.records)
            run = next((run for run in others if self.account.affords(made, [run])), None)
            if run is None:
                raise self._too_little(made, others)
            proposed = next_sweep(dumped(self.sweep), [run], len(measured.records))
            measured = self._measure(proposed)

    def _too_little(
        self, made: pd.DataFrame, others: Sequence[Mapping[str, Any]]
    ) -> NothingUsableError:
        """Say that the budget allows too few runs for a model, and what to do."""
        least = min(self.account.guess(made, [run]) for run in others)
        n_ok = int((made["status"] == Status.OK).sum())
        lacking = f"{n_ok} of them went well, and a model needs {FEWEST_RUNS}"
        if n_ok >= FEWEST_RUNS:
            same = never_changed(made.to_dict("records"), self.request.fix)
            name = next(name for name in same if any(r[name] != same[name] for r in others))
            lacking = f"all with {name}={same[name]}, none with another value"
        return NothingUsableError(
            f"{self._ends_early(made)}, {lacking}. Another run takes about "
            f"{self.account.written(least)} or more.",
            option=self._budget,
            remedy=(*_CONTINUE, ", or add smaller values to the sweep."),
        )

    @property
    def _budget(self) -> Option:
        return Option("budget", self.account.written(self.account.budget.most))

    def _ends_early(self, made: pd.DataFrame) -> str:
        runs = "1 run" if len(made) == 1 else f"{len(made)} runs"
        return (
            f"the budget ends before there is a plan: {runs} took "
            f"{self.account.written(self.account.spent(made))}"
        )

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
                f"made. Without them: {error.text}",
                option=self._budget,
                remedy=(*_CONTINUE, "."),
            ) from None

    def _round(self, dataset: Dataset) -> tuple[Advice | None, str | None]:
        """Fit, plan, and ask what to measure next; say why to stop, if so."""
        models: list[SavedModel] = []
        for target in self.options.targets:
            models.append(fit_model(dataset, target=target, n_jobs=self.options.n_jobs).best)
            models[-1].save(self._path(target))
        budget, cost = self.account.budget, self.account.spent(dataset.frame)
        left = Budget(budget.kind, budget.most - cost)
        advice, reason = None, None
        try:
            options = replace(self._advice_options, budget=left)
            advice = advise(models, self.request, data=dataset, options=options)
            plan, chance = advice.plan, advice.best_chance
            reason = None if advice.proposals else SURE
        except TooLittleError:
            past = PastRuns.of(dataset, models)
            informed = inform(models, past, self.request.seed)
            plan = informed_planner(informed, past, self.request).plan()
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
            measure=self.possible.smaller() or None,
            least_chance=self.options.least_chance,
            sweep=dumped(self.sweep),
        )


def _frame(records: Sequence[Record]) -> pd.DataFrame:
    return pd.DataFrame([to_row(record) for record in records])
