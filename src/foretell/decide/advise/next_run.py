"""Advising, the one path: models and a question in, the next runs worth paying for out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from foretell.dataset import Dataset
from foretell.decide.advise.error_field import Array, ErrorField, Scales, log_sizes
from foretell.decide.advise.options import AdviceOptions, Budget, TooLittleError, options_of
from foretell.decide.advise.past_runs import PastRuns
from foretell.decide.advise.plausible import OPTIMISTIC, plausible
from foretell.decide.advise.run_value import Choice, Worth
from foretell.decide.advise.runs_to_measure import Source
from foretell.decide.plan.answer import Plan
from foretell.decide.plan.assess import Figures
from foretell.decide.plan.plan import Planner
from foretell.decide.question.equal_rows import places_in, plain_rows, without
from foretell.decide.question.objective import PlanRequest, read_request
from foretell.errors import NothingUsableError, UsageError
from foretell.predictor import Predictor
from foretell.spaces.quantities import TIME, write_quantity

_PESSIMISTIC = 0.95
_MOST_SIZE = 1.5  # of an error, in logs: beyond it, nothing is known anyway
_MOST_PAST = 800
#: What a run may confirm.
PLAN, CHANGE = "plan", "change"
#: How fast what a run tells of its surroundings falls with the likeness of errors there.
_NEAR = 8


@dataclass(frozen=True)
class Proposal:
    """One run to make.

    Attributes
    ----------
    cost
        What it is predicted to take, in the unit of the budget.
    time_s
        Its predicted time; NaN where no model tells.
    chance, gain
        How likely it changes the plan, and the expected improvement of the plan as a share; with a
        single configuration to predict, the share by which its interval narrows.
    instead
        The configuration that would be planned most often if the plan changed.
    checks
        What it confirms, where no run is worth its cost otherwise: PLAN, which was never run; or
        CHANGE, what differs from it in a column of which no other value was run next to it.
    """

    configuration: dict[str, Any]
    cost: float
    time_s: float
    chance: float
    gain: float
    instead: dict[str, Any] | None
    checks: str = ""


@dataclass(frozen=True)
class Advice:
    """The answer.

    Attributes
    ----------
    plan
        What would be planned without any further run.
    proposals
        The runs to make, the most valuable for its cost first; none when the stop rule says so.
    best_chance, left_chance
        How likely the most telling affordable run changes the plan: now, and after the proposals.
    left_gain
        What the best run after them would bring.
    n_runs, n_unaffordable, n_too_long
        How many runs were looked at; how many of them exceed the budget, and how many would run
        into the time limit, as far as is known.
    n_past
        How many runs were made before.
    is_target
        Whether a single configuration is to be predicted, so that there is nothing to choose.
    """

    plan: Plan
    proposals: list[Proposal]
    budget: Budget
    least_chance: float
    best_chance: float
    left_chance: float
    left_gain: float
    n_runs: int
    n_unaffordable: int
    n_too_long: int
    n_past: int
    is_target: bool

    @property
    def cost(self) -> float:
        """What all proposed runs take."""
        return sum(p.cost for p in self.proposals)

    def __repr__(self) -> str:
        from foretell.decide.advise.text import advice_text

        return advice_text(self)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        from foretell.decide.advise.text import advice_json

        return advice_json(self)


def advise(
    models: Predictor | Sequence[Predictor],
    request: PlanRequest | Mapping[str, Any] | Path | str,
    *,
    data: pd.DataFrame | Dataset | Path | str | None = None,
    candidates: pd.DataFrame | Dataset | Path | str | None = None,
    options: AdviceOptions | Mapping[str, Any] | None = None,
) -> Advice:
    """Propose the next runs: those that most improve the plan for what they cost.

    Parameters
    ----------
    models, request, candidates
        As for a plan.
    data
        The runs made so far. What was measured is known, and what ran into a time limit takes at
        least so long.
    options
        A budget, how many runs to propose, and more: as an object, or as a dict of its attributes.
    """
    predictors = list(models) if isinstance(models, Sequence) else [models]
    past = PastRuns.of(data, predictors)
    planner = Planner.of(predictors, read_request(request), candidates, past.broken)
    if len(planner.chooser.question.certainties) == 1:
        raise UsageError(
            "the model knows no intervals, so nobody can say what a run would tell; fit it in "
            "automatic mode: foretell fit TABLE --target ..."
        )
    return _Adviser(planner, predictors, past, options_of(AdviceOptions, options)).advise()


@dataclass
class _Adviser:
    planner: Planner
    predictors: Sequence[Predictor]
    past: PastRuns
    options: AdviceOptions

    def advise(self) -> Advice:
        """Find what may be planned and what may be measured, and weigh one against the other."""
        plan = self.planner.plan()
        choice = self._choice()
        affordable = self._affordable()
        worths = self._worths(choice, affordable)
        best = max((w.chance for w in worths.values()), default=0.0)
        proposals: list[Proposal] = []
        left = self.budget.most
        while worths and len(proposals) < self.options.n_runs:
            run = max(worths, key=lambda r: (worths[r].gain / self._cost[r], -self._cost[r]))
            proposals.append(self._proposal(choice, run, worths[run]))
            left -= float(self._cost[run])
            affordable = [r for r in affordable if r != run and self._cost[r] <= left]
            for field in choice.fields.values():
                field.see_run(len(choice) + run)
            choice = replace(choice)  # what was worked out of the fields is no longer so
            worths = self._worths(choice, affordable)
        if not proposals and (check := self._check(choice, affordable)) is not None:
            proposals = [check]
        return Advice(
            plan=plan,
            proposals=proposals,
            budget=self.budget,
            least_chance=self.options.least_chance,
            best_chance=best,
            left_chance=max((w.chance for w in worths.values()), default=0.0),
            left_gain=max((w.gain for w in worths.values()), default=0.0),
            n_runs=len(self.runs),
            n_unaffordable=int((self._cost > self.budget.most).sum()),
            n_too_long=int(self._is_too_long.sum()),
            n_past=int(self.past.n_runs.sum()) + len(self.past.too_long) + len(self.past.broken),
            is_target=self.is_target,
        )

    @cached_property
    def budget(self) -> Budget:
        """What measuring may cost."""
        return Budget.of(self.options.budget, self.planner.assessor.kinds)

    @cached_property
    def is_target(self) -> bool:
        """Whether there is nothing to choose."""
        return len(self.choices) == 1

    @cached_property
    def choices(self) -> Figures:
        """The configurations that may turn out to be best."""
        return plausible(self.planner)

    @cached_property
    def runs(self) -> Figures:
        """The runs that could be made."""
        source = Source(
            self.planner.space,
            self.predictors,
            self.past,
            self.options.measure,
            self.options.rules,
            self.planner.seed,
        )
        frame = without(source.runs(self.choices.frame), self.past.broken).reset_index(drop=True)
        if not len(frame):
            raise UsageError(
                "there is no run to choose from: each went wrong before, or the sweep excludes it"
            )
        return self.planner.assessor.assess(frame, (OPTIMISTIC, _PESSIMISTIC))

    def _affordable(self) -> list[int]:
        """Return the runs within the budget; raise an error when there is none."""
        possible = np.flatnonzero(~self._is_too_long)
        if not len(possible):
            raise NothingUsableError(
                f"each of {len(self.runs)} runs would take longer than the time limit of "
                f"{write_quantity(self.options.time_limit_s, TIME)}; raise time_limit_s in the "
                "sweep, or measure smaller ones: --measure COLUMN=VALUES"
            )
        found = [int(r) for r in possible if self._cost[r] <= self.budget.most]
        if not found:
            currency = self.planner.assessor.tariff.prices.currency
            least, most = (
                write_quantity(value, self.budget.kind, currency)
                for value in (float(self._cost[possible].min()), self.budget.most)
            )
            raise TooLittleError(
                f"--budget {most} is below the cheapest run, which takes about {least}; raise it, "
                "or measure smaller ones: --measure COLUMN=VALUES"
            )
        return found

    @cached_property
    def _cost(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        return self.options.n_passes * self.runs.value(self.budget.kind)

    @cached_property
    def _is_too_long(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Say which runs would be killed: they were before, or are predicted to take too long."""
        limit_s = self.options.time_limit_s
        found = np.zeros(len(self.runs), dtype=bool)
        if TIME in self.planner.assessor.predictors:
            predictor, unit = self.planner.assessor.predictors[TIME]
            found |= predictor.predict(self.runs.frame) * unit > limit_s
        # Where nobody names the limit, nobody says that it was raised.
        is_late = self.past.limit_s >= limit_s if np.isfinite(limit_s) else self.past.limit_s > 0
        return found | (places_in(self.runs.frame, self.past.too_long[is_late]) >= 0)

    def _choice(self) -> Choice:
        """Put together what is known of the errors: from models, past runs and time limits."""
        n_choices, n_runs = len(self.choices), len(self.runs)
        columns = list(self.past.measured.columns)
        rng = np.random.default_rng([self.planner.seed, 3])
        n_past = len(self.past.measured)
        kept = np.sort(rng.permutation(n_past)[:_MOST_PAST])
        parts = [self.choices.frame, self.runs.frame, self.past.measured.iloc[kept]]
        frame = pd.concat([p[columns] for p in [*parts, self.past.too_long]], ignore_index=True)
        alike = Scales.of(self.predictors).alike(frame, frame)
        predicted = self.planner.assessor.known(frame, (OPTIMISTIC, _PESSIMISTIC))
        seen = n_choices + n_runs + np.arange(len(kept))
        fields = {}
        for kind, (predictor, unit) in self.planner.assessor.predictors.items():
            known = predicted[kind]
            noise = self.past.noise[predictor.target]
            sizes = log_sizes(known.quantiles[:, 0], known.quantiles[:, 1], noise)
            sizes = np.minimum(sizes, _MOST_SIZE)
            field = ErrorField.of(sizes, alike, noise)
            field.see_runs(seen, self.past.n_runs[kept])
            field.widen(_remaining(alike[:, seen], sizes))
            at_least = self.past.at_least.get(predictor.target, np.zeros(0)) * unit
            for place, least in enumerate(at_least, start=n_choices + n_runs + len(kept)):
                if np.isfinite(least) and least > 0:
                    field.see_at_least(place, float(np.log(least / known.value[place])))
            fields[kind] = field.first(n_choices + n_runs)
        question = self.planner.chooser.question
        is_allowed = ~self.choices.is_far | question.allow_far
        return Choice(
            self.choices,
            self.planner.chooser,
            fields,
            is_allowed if is_allowed.any() else np.ones(n_choices, dtype=bool),
            places_in(self.runs.frame, self.choices.frame),
            self.planner.seed,
        )

    def _worths(self, choice: Choice, runs: Sequence[int]) -> dict[int, Worth]:
        """Return the runs that are worth their cost, and what they may bring."""
        if self.is_target:
            found = {run: choice.narrowing(run) for run in runs}
            return {r: w for r, w in found.items() if w.gain >= self.options.least_chance}
        found = {run: choice.worth(run) for run in runs}
        return {r: w for r, w in found.items() if w.chance >= self.options.least_chance}

    def _check(self, choice: Choice, affordable: Sequence[int]) -> Proposal | None:
        """Propose to run the plan itself, or a change of it, if no run ever was it.

        A model may be sure and wrong. That two threads are no faster was seen in small runs, and
        nobody has tried them on the job.
        """
        if self.is_target or not len(self.past.measured):
            return None
        runs = {int(choice.place_of[r]): r for r in reversed(affordable)}
        for place in self._untried(choice):
            if place in runs:
                checks = PLAN if place == choice.chosen else CHANGE
                worth = choice.worth(runs[place])
                return replace(self._proposal(choice, runs[place], worth), checks=checks)
        return None

    def _untried(self, choice: Choice) -> list[int]:
        """Return the plan, or what differs from it in a column that no run tried next to it.

        They are places among the choices, the best first; none that is much worse than the plan.
        """
        frame = choice.figures.frame
        planned = frame.iloc[[choice.chosen]]
        if places_in(planned, self.past.measured)[0] < 0:
            return [choice.chosen]
        names = [n for n in self.past.measured.columns if n not in self.planner.space.rules.derive]
        past = [self.past.measured, self.past.too_long, self.past.broken]
        tried = pd.concat([table.reindex(columns=names) for table in past if len(table)])
        found = set()
        for name in names:
            rest = [other for other in names if other != name]
            beside = [places_in(f[rest], planned[rest]) == 0 for f in (frame, tried)]
            if tried[name][beside[1]].nunique() == 1:  # that of the plan
                found |= set(np.flatnonzero(beside[0]).tolist()) - {choice.chosen}
        return [place for place in choice.ranked if place in found and choice.is_close(place)]

    def _proposal(self, choice: Choice, run: int, worth: Worth) -> Proposal:
        times = self.runs.value(TIME) if TIME in self.planner.assessor.kinds else None
        instead = worth.instead
        return Proposal(
            configuration=plain_rows(self.runs.frame.iloc[[run]])[0],
            cost=float(self._cost[run]),
            time_s=float("nan") if times is None else float(times[run]),
            chance=worth.chance,
            gain=worth.gain,
            instead=None
            if instead is None
            else plain_rows(choice.figures.frame.iloc[[instead]])[0],
        )


def _remaining(alike: Array, sizes: Array) -> Array:
    """Return how large errors are, whatever was measured elsewhere: only near runs are they less.

    The intervals of a model are those of configurations that it has not seen, given all runs.
    """
    known = alike.max(axis=1, initial=0.0) ** _NEAR
    remaining: Array = sizes * np.sqrt(1 - known)
    return remaining
