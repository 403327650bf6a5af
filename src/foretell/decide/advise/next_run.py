"""Advising, the one path: models and a question in, the next runs worth paying for out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import Dataset
from foretell.decide.advise.advice import CHANGE, OPEN, PLAN, Advice, Proposal
from foretell.decide.advise.belief.error_field import Array, ErrorField, log_sizes
from foretell.decide.advise.belief.informed import InformedPredictor, inform, informed_planner
from foretell.decide.advise.options import AdviceOptions, Budget, TooLittleError, options_of
from foretell.decide.advise.past_runs import PastRuns
from foretell.decide.advise.plausible import OPTIMISTIC, plausible
from foretell.decide.advise.run_value import Choice, Worth
from foretell.decide.advise.runs_to_measure import Source
from foretell.decide.plan.answer import Plan
from foretell.decide.plan.assess import Figures
from foretell.decide.plan.plan import Planner
from foretell.decide.question.objective import PlanRequest, read_request
from foretell.errors import NothingUsableError, Option, UsageError
from foretell.predictor import Predictors, listed_predictors
from foretell.spaces.quantities import TIME, write_quantity
from foretell.spaces.rows import places_in, plain_rows, without

_PESSIMISTIC = 0.95
_MOST_SIZE = 1.5  # of an error, in logs: a larger one means that nothing is known
#: How much the price of a run counts; 1 would leave expensive regions unexplored.
_PRICE_COUNTS = 0.25
#: The same where nothing has to be explored, because there is nothing to choose.
_PRICE_OF_TARGET = 0.5
#: How many possible errors of all predictions are drawn.
_N_DRAWN = 2000
#: After this many runs that did not improve the plan, the least certain ones are made, too.
_STALE = 6
#: An improvement that must not be missed, as a share, and a probability of it that is not small.
_MUCH, _MAY_WELL = 0.10, 0.01
_SMALLER_RUNS = ("allow smaller runs with ", Option("measure"))


def advise(
    models: Predictors,
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
        The runs made so far, with those that failed or hit a time limit.
    options
        A budget, how many runs to propose, and more: as an object, or as a dict of its attributes.
    """
    predictors, asked = listed_predictors(models), read_request(request)
    past = PastRuns.of(data, predictors)
    informed = inform(predictors, past, asked.seed)
    planner = informed_planner(informed, past, asked, candidates)
    if len(planner.chooser.question.certainties) == 1:
        raise UsageError(
            "the model has no intervals, so the value of a run is unknown; fit it in automatic mode"
        )
    chosen = options_of(AdviceOptions, options)
    return _Adviser(planner, informed, past, chosen, *plausible(planner)).advise()


@dataclass
class _Adviser:
    """What advice rests on: among others, the plan so far and what else may turn out to be best."""

    planner: Planner
    predictors: Sequence[InformedPredictor]
    past: PastRuns
    options: AdviceOptions
    plan: Plan
    choices: Figures

    def advise(self) -> Advice:
        """Find what may be planned and what may be measured, and pick the runs that matter."""
        choice = self._choice()
        far_chance = float(choice.much_better(_MUCH).sum())
        affordable = [] if self._is_precise else self._leading_to_a_plan(choice, self._affordable())
        is_hopeless = not self.is_target and choice.can_keep_limits < self.options.least_chance
        worths = {} if is_hopeless else self._worths(choice, affordable)
        best = max((w.chance for w in worths.values()), default=0.0)
        proposals: list[Proposal] = []
        left = self.budget.most
        while worths and len(proposals) < self.options.n_runs:
            run = self._least_certain(choice, affordable) if self._is_stale(choice) else None
            if run is None:
                run = self._most_valuable(choice, worths)
                proposals.append(self._proposal(choice, run, worths[run]))
            else:
                proposals.append(self._open_proposal(choice, run))
            left -= float(self._cost[run])
            affordable = [r for r in affordable if r != run and self._cost[r] <= left]
            for field in choice.fields.values():
                field.see_runs(np.array([len(choice) + run]), np.ones(1))
            choice = replace(choice)  # drops what was computed from the fields before
            worths = self._worths(choice, affordable)
        if not proposals and not is_hopeless and (open_ := self._open_runs(choice, affordable)):
            proposals = [self._open_proposal(choice, max(open_, key=open_.__getitem__))]
        if not proposals and (check := self._check(choice, affordable)) is not None:
            proposals = [check]
        return Advice(
            plan=self.plan,
            proposals=proposals,
            budget=self.budget,
            least_chance=self.options.least_chance,
            best_chance=best,
            far_chance=far_chance,
            left_chance=max((w.chance for w in worths.values()), default=0.0),
            left_gain=max((w.gain for w in worths.values()), default=0.0),
            noise=max(self.past.noise.values()) if self.past.has_repeats else float("nan"),
            n_runs=len(self.runs),
            n_unaffordable=int((self._cost > self.budget.most).sum()),
            n_too_long=int(self._is_too_long.sum()),
            n_repeats=int((self._n_before > 0).sum()) if not self._may_repeat else 0,
            n_past=int(self.past.n_runs.sum()) + len(self.past.too_long) + len(self.past.broken),
            is_target=self.is_target,
            precise_to=self.options.precision if self._is_precise else None,
        )

    @cached_property
    def budget(self) -> Budget:
        """What measuring may cost."""
        return Budget.of(self.options.budget, self.planner.assessor.kinds)

    @property
    def is_target(self) -> bool:
        """Whether there is nothing to choose."""
        return len(self.choices) == 1

    @property
    def _is_precise(self) -> bool:
        """Whether the interval of the plan is as narrow as asked for."""
        planned, asked = self.plan.chosen, self.options.precision
        if planned is None or asked is None:
            return False
        found = planned.estimates[self.planner.chooser.minimize]
        return bool(max(found.upper / found.value, found.value / found.lower) <= 1 + asked)

    @cached_property
    def runs(self) -> Figures:
        """The runs that could be made."""
        planner, options = self.planner, self.options
        source = Source(
            planner.space, self.predictors, self.past, options.measure, options.rules, planner.seed
        )
        frame = without(source.runs(self.choices.frame), self.past.broken).reset_index(drop=True)
        if not len(frame):
            raise UsageError(
                "there is no run to choose from: each failed before, or the sweep excludes it",
                remedy=("allow other runs with ", Option("measure")),
            )
        return self.planner.assessor.assess(frame, (OPTIMISTIC, _PESSIMISTIC))

    def _affordable(self) -> list[int]:
        """Return the runs that may be proposed; raise an error if all are too long or too dear."""
        if self._is_too_long.all():
            limit = write_quantity(self.options.time_limit_s, TIME)
            raise NothingUsableError(
                f"each of {len(self.runs)} runs would take longer than the time limit of {limit}",
                remedy=("raise time_limit_s in the sweep, or ", *_SMALLER_RUNS),
            )
        is_made = np.zeros(len(self.runs), dtype=bool) if self._may_repeat else self._n_before > 0
        possible = np.flatnonzero(~self._is_too_long & ~is_made)
        found = [int(r) for r in possible if self._cost[r] <= self.budget.most]
        if len(possible) and not found:
            currency = self.planner.assessor.tariff.prices.currency
            least, most = (
                write_quantity(value, self.budget.kind, currency)
                for value in (float(self._cost[possible].min()), self.budget.most)
            )
            raise TooLittleError(
                f"is below the cheapest run, which takes about {least}",
                option=Option("budget", most),
                remedy=("raise it, or ", *_SMALLER_RUNS),
            )
        return found

    def _leading_to_a_plan(self, choice: Choice, affordable: list[int]) -> list[int]:
        """Return the runs after which something may be planned within the budget.

        If all that may be chosen is far outside the data, smaller jobs must leave enough to run it.
        """
        leading = [run for run in affordable if choice.place_of[run] >= 0]
        is_planned = self.planner.chooser.allowed(self.choices).any()
        if is_planned or not leading:
            return affordable
        left = self.budget.most - min(float(self._cost[run]) for run in leading)
        return [run for run in affordable if run in leading or self._cost[run] <= left]

    @property
    def _may_repeat(self) -> bool:
        """Whether runs that were made before may be proposed: if asked for, or noise was seen."""
        return self.options.repeats or self.past.has_repeats

    @cached_property
    def _n_before(self) -> NDArray[np.int64]:
        """How often each run was made before."""
        places = places_in(self.runs.frame, self.past.measured)
        counts = np.append(self.past.n_runs, 0.0)  # position -1 means never
        return counts[places].astype(np.int64)

    @cached_property
    def _cost(self) -> Array:
        return self.options.n_passes * self.runs.value(self.budget.kind)

    @cached_property
    def _is_too_long(self) -> NDArray[np.bool_]:
        """Say which runs would hit the time limit: they did before, or are predicted to."""
        limit_s = self.options.time_limit_s
        found = np.zeros(len(self.runs), dtype=bool)
        if TIME in self.planner.assessor.predictors:
            predictor, unit = self.planner.assessor.predictors[TIME]
            found |= predictor.predict(self.runs.frame) * unit > limit_s
        # Without a limit in the sweep, there is no sign that it was raised since.
        is_late = self.past.limit_s >= limit_s if np.isfinite(limit_s) else self.past.limit_s > 0
        return found | (places_in(self.runs.frame, self.past.too_long[is_late]) >= 0)

    def _choice(self) -> Choice:
        """Combine what predictions, past runs and time limits say about the errors."""
        n_choices, n_runs = len(self.choices), len(self.runs)
        columns = list(self.past.measured.columns)
        parts = [self.choices.frame, self.runs.frame, self.past.too_long]
        frame = pd.concat([part[columns] for part in parts], ignore_index=True)
        predicted = self.planner.assessor.known(frame, (OPTIMISTIC, _PESSIMISTIC))
        processes = {predictor.target: predictor.process for predictor in self.predictors}
        fields: dict[str, ErrorField] = {}
        for kind, (predictor, unit) in self.planner.assessor.predictors.items():
            known, target = predicted[kind], predictor.target
            noise = self.past.noise[target]
            lower, upper = (known.quantiles.at(p) for p in (OPTIMISTIC, _PESSIMISTIC))
            sizes = np.minimum(log_sizes(lower, upper, noise), _MOST_SIZE)
            alike, deviates = processes[target].alike(
                frame, _N_DRAWN, self.planner.seed + len(fields)
            )
            field = ErrorField.of(sizes, alike, deviates, noise)
            at_least = self.past.at_least.get(target, np.zeros(0)) * unit
            for place, least in enumerate(at_least, start=n_choices + n_runs):
                if np.isfinite(least) and least > 0:
                    field.see_at_least(place, float(np.log(least / known.value[place])))
            fields[kind] = field.first(n_choices + n_runs)
        chooser = self.planner.chooser
        is_allowed = chooser.allowed(self.choices)
        return Choice(
            self.choices,
            chooser,
            fields,
            is_allowed if is_allowed.any() else np.ones(n_choices, dtype=bool),
            chooser.is_doubtful(self.choices),
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

    def _most_valuable(self, choice: Choice, worths: Mapping[int, Worth]) -> int:
        """Return the run that may improve the plan the most for its cost.

        What may be planned counts by how much better it may be, next to what other runs tell.
        """
        gains = {run: worth.gain for run, worth in worths.items()}
        places = {run: int(choice.place_of[run]) for run in worths if choice.place_of[run] >= 0}
        if not self.is_target:
            for run, place in places.items():
                if place != choice.chosen or self._n_before[run] == 0:
                    gains[run] = max(gains[run], float(choice.improvements[place]))
        power = _PRICE_OF_TARGET if self.is_target else _PRICE_COUNTS
        return max(gains, key=lambda run: gains[run] / self._cost[run] ** power)

    def _is_stale(self, choice: Choice) -> bool:
        """Say whether to look elsewhere: every second time after some runs without improvement."""
        places = places_in(choice.figures.frame, self.past.measured)
        measured = [place for place in choice.ranked if places[place] >= 0]
        if not measured:
            return False
        n_since = len(self.past.measured) - 1 - int(places[measured[0]])
        return n_since >= _STALE and (n_since - _STALE) % 2 == 0

    def _open_runs(self, choice: Choice, affordable: Sequence[int]) -> dict[int, float]:
        """Return runs of what may be much better than the plan, with the probability of it.

        None are left if the plan is near the best with enough certainty.
        """
        if self.is_target:
            return {}
        chances = choice.much_better(_MUCH)
        if chances.sum() < self.options.least_chance:
            return {}
        found = {
            r: float(chances[choice.place_of[r]]) for r in affordable if choice.place_of[r] >= 0
        }
        return {run: chance for run, chance in found.items() if chance > 0}

    def _least_certain(self, choice: Choice, affordable: Sequence[int]) -> int | None:
        """Return the run with the widest interval, of those that may well be much better."""
        kind = choice.chooser.minimize
        width = self.runs.at(kind, _PESSIMISTIC) / self.runs.at(kind, OPTIMISTIC)
        found = self._open_runs(choice, affordable).items()
        return max((r for r, p in found if p >= _MAY_WELL), key=lambda r: width[r], default=None)

    def _open_proposal(self, choice: Choice, run: int) -> Proposal:
        return replace(self._proposal(choice, run, choice.worth(run)), checks=OPEN)

    def _check(self, choice: Choice, affordable: Sequence[int]) -> Proposal | None:
        """Propose to run the plan itself, or a change of it, if it was never run.

        A model may be sure and wrong: small runs may show that two threads are no faster, which
        need not hold for the large job.
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
        """Return the plan if it was never run, or else the changes of one column never tried.

        They are positions among the choices, the best first; none is much worse than the plan.
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
            n_before=int(self._n_before[run]),
        )
