"""Planning, the one path: models and a question in, the configuration to use and why out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import Dataset, read_dataset
from foretell.decide.assess import Assessor, Figures, match_models
from foretell.decide.choose import N_RUNNERS_UP, Chooser, Shortlist
from foretell.decide.objective import LIMITS, PlanRequest, Question, option, read_request
from foretell.decide.prices import Prices, Tariff
from foretell.decide.search import search
from foretell.decide.space import Grid, Listed, Rules, Space, check_columns, make_grid
from foretell.errors import UsageError, listing, suggest
from foretell.predictor import Predictor
from foretell.spaces.expressions import Expression
from foretell.spaces.quantities import COST, TIME
from foretell.spaces.values import Scalar

#: Up to so many configurations times columns are looked at one by one, which takes some seconds;
#: larger and continuous spaces are searched.
MOST_CELLS = 6_000_000
_INTERVAL = (0.05, 0.95)
#: Where the probability that a limit holds is looked up.
_SHARES = tuple(round(0.01 * i, 2) for i in range(1, 100))


@dataclass(frozen=True)
class Estimate:
    """A predicted quantity, and the interval that holds 90 % of such runs; NaN if unknown."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Option:
    """One configuration, and what is predicted of it.

    Attributes
    ----------
    estimates
        By kind of quantity, in base units: seconds, joules, grams, bytes, and the currency.
    certainties
        For each limit, the probability that it holds.
    margins
        For each limit, which share of it is left over at the confidence asked for.
    outside
        Where it leaves the data of some model; empty if nowhere.
    """

    configuration: dict[str, Any]
    estimates: dict[str, Estimate]
    certainties: dict[str, float]
    margins: dict[str, float]
    trust: str
    outside: str
    expected_error: float

    @property
    def certainty(self) -> float:
        """The probability of the limit that is least sure to hold; 1 without limits."""
        return min(self.certainties.values(), default=1.0)


@dataclass(frozen=True)
class Plan:
    """The answer.

    Attributes
    ----------
    chosen
        None when nothing keeps the limits; ``closest`` then comes nearest.
    by_certainty
        The best configuration for each certainty; None where there is none.
    binding
        The limits without which a better configuration would be chosen.
    far
        A better configuration that lies far outside the data, and was not considered.
    is_searched
        Whether the space was searched, not looked at as a whole.
    has_estimated_energy
        Whether energy is power × time, for want of a model of it.
    front
        What no configuration beats in time, cost and energy at once.
    """

    question: Question
    minimize: str
    varied: list[str]
    currency: str
    chosen: Option | None
    closest: Option | None
    runners_up: list[Option]
    by_certainty: dict[float, Option | None]
    binding: list[str]
    far: Option | None
    n_seen: int
    n_far: int
    is_searched: bool
    has_estimated_energy: bool
    front: pd.DataFrame

    def __repr__(self) -> str:
        from foretell.decide.plan_text import plan_text

        return plan_text(self)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; numbers that are not known are None."""
        from foretell.decide.plan_text import plan_json

        return plan_json(self)


def make_plan(
    models: Predictor | Sequence[Predictor],
    request: PlanRequest | Mapping[str, Any] | Path | str,
    candidates: pd.DataFrame | Dataset | Path | str | None = None,
) -> Plan:
    """Choose the configuration to use.

    Parameters
    ----------
    models
        One model of a time, and others of energy or memory if there are any.
    request
        What to vary, fix and minimize, prices and limits: as a dict or a TOML file.
    candidates
        A table of configurations to choose from, in place of what the request varies.
    """
    predictors = list(models) if isinstance(models, Sequence) else [models]
    asked = read_request(request)
    planner = Planner.of(predictors, asked, candidates)
    return planner.plan()


@dataclass(frozen=True)
class Planner:
    """A question that is ready to be answered."""

    space: Space
    assessor: Assessor
    chooser: Chooser
    seed: int

    @classmethod
    def of(
        cls,
        predictors: Sequence[Predictor],
        asked: PlanRequest,
        candidates: pd.DataFrame | Dataset | Path | str | None = None,
    ) -> Planner:
        """Check that models, space, prices and limits go together."""
        matched = match_models(predictors)
        space = _space(asked, candidates, predictors)
        prices = asked.prices or Prices()
        assessor = Assessor(matched, Tariff.of(prices, space))
        question = asked.question(has_intervals=_has_intervals(predictors, space))
        _check_known(assessor, question, asked.minimize)
        minimize = asked.minimize or (COST if COST in assessor.kinds else assessor.kinds[0])
        return cls(space, assessor, Chooser(question, minimize, assessor.kinds), asked.seed)

    @property
    def is_searched(self) -> bool:
        """Whether there is too much to look at everything."""
        n_columns = sum(len(p.columns) for p, _ in self.assessor.predictors.values())
        return self.space.size * n_columns > MOST_CELLS and isinstance(self.space, Grid)

    def plan(self) -> Plan:
        """Look at the configurations, and answer."""
        shortlist = self.shortlist()
        if shortlist.figures is None:
            raise UsageError(
                "no configuration is left to choose from: 'only' and --max exclude every one of "
                f"{self.space.size:,.0f}; widen them"
            )
        return _Answer(self, shortlist, shortlist.figures).plan()

    def shortlist(self) -> Shortlist:
        """Find what matters for the answer."""
        if self.is_searched:
            assert isinstance(self.space, Grid)
            return search(self.space, self.assessor, self.chooser, self.seed)
        shortlist = Shortlist(self.chooser)
        for block in self.space.blocks():
            if len(block):
                shortlist.add(self.assessor.assess(block, self.chooser.question.certainties))
        return shortlist


def _space(
    asked: PlanRequest,
    candidates: pd.DataFrame | Dataset | Path | str | None,
    predictors: Sequence[Predictor],
) -> Space:
    rules = _rules(asked)
    needed = {
        name: f"the model of {p.target} needs '{name}'{_measured(p, name)}"
        for p in predictors
        for name in p.columns
    }
    spoken = set() if asked.prices is None else asked.prices.columns
    spoken = spoken | {n for e in (*rules.only, *rules.derive.values()) for n in e.names}
    known = list(dict.fromkeys([*needed, *sorted(spoken), *rules.derive]))
    space: Space
    if candidates is None:
        given = {*asked.vary, *asked.fix, *rules.derive}
        constant = _never_varied(predictors, given) if asked.vary or asked.fix else {}
        space = make_grid(asked.vary, {**asked.fix, **constant}, rules)
    else:
        if asked.vary:
            raise UsageError("candidates are listed, so nothing can be varied; remove one of them")
        frame = read_dataset(candidates).frame
        twice = [name for name in asked.fix if name in frame.columns]
        if twice:
            raise UsageError(f"'{twice[0]}' is a column of the candidates, and fixed; remove one")
        constant = _never_varied(predictors, {*frame.columns, *asked.fix, *rules.derive})
        space = Listed(frame.assign(**asked.fix, **constant), rules)
    rules.check(space.names[: len(space.names) - len(rules.derive)])
    check_columns(space, needed, known)
    _check_values(space, predictors, allow_far=asked.allow_far)
    return space


def _rules(asked: PlanRequest) -> Rules:
    only = [Expression(text) for text in asked.only]
    only += [Expression(f"{_name(name)} <= {most!r}") for name, most in asked.most.items()]
    only += [Expression(f"{_name(name)} >= {least!r}") for name, least in asked.least.items()]
    derive = {name: Expression(text) for name, text in asked.derive.items()}
    return Rules(derive, tuple(only))


def _never_varied(predictors: Sequence[Predictor], given: set[str]) -> dict[str, Scalar]:
    """Return the value of each column that had only one in training, and that nobody gave."""
    found: dict[str, Scalar] = {}
    for predictor in predictors:
        found |= {name: low for name, (low, high) in predictor.ranges.items() if low == high}
        found |= {
            name: levels[0] for name, levels in predictor.categories.items() if len(levels) == 1
        }
    return {name: value for name, value in found.items() if name not in given}


def _name(name: str) -> str:
    if not name.isidentifier():
        raise UsageError(f"a limit on '{name}' needs a column whose name has letters, digits and _")
    return name


def _measured(predictor: Predictor, name: str) -> str:
    """Say what was measured of a column."""
    if name in predictor.ranges:
        low, high = predictor.ranges[name]
        return f" (measured: {low:g} to {high:g})"
    return f" (measured: {listing(predictor.categories.get(name, []))})"


def _check_values(space: Space, predictors: Sequence[Predictor], *, allow_far: bool) -> None:
    """Refuse levels that no run had, and texts where numbers belong."""
    for predictor in predictors:
        for name, levels in predictor.categories.items():
            unknown = sorted({str(v) for v in space.values(name)} - set(levels))
            if unknown and not allow_far:
                raise UsageError(
                    f"'{name}' was never measured at {listing(unknown)}. "
                    f"{suggest(unknown[0], levels)} --allow-far plans with it all the same."
                )
        for name in predictor.ranges:
            texts = [v for v in space.values(name) if not _is_number(v)]
            if texts:
                raise UsageError(f"'{name}' is a number in the model, and '{texts[0]}' is none")


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError):
        return False


def _has_intervals(predictors: Sequence[Predictor], space: Space) -> bool:
    one = pd.DataFrame({n: [space.values(n)[0]] for n in space.names if len(space.values(n))})
    found = [p.outlook(space.rules.derived(one), [0.9]).quantiles for p in predictors]
    return bool(np.isfinite(found).all())


def _check_known(assessor: Assessor, question: Question, minimize: str | None) -> None:
    """Refuse limits and objectives that nothing is known of."""
    wanted = {option(word): LIMITS[word] for word in question.limits}
    if minimize is not None:
        wanted[f"--minimize {minimize}"] = minimize
    for words, kind in wanted.items():
        if kind not in assessor.kinds:
            raise UsageError(f"{words} needs {_REMEDIES[kind]}")


_REMEDIES = {
    "time": "a model of a time, whose target ends in _s, _ms, _min or _h",
    "cost": "a model of a time, and price_per_hour: in a file (--prices prices.toml), or as a "
    "column of the candidates",
    "energy": "a model of energy, whose target ends in _j, or power_w in --prices prices.toml",
    "carbon": "an energy (a model, or power_w) and carbon_g_per_kwh in --prices prices.toml",
    "memory": "a model of memory, whose target ends in _bytes or _mib",
    "power": "power_w in --prices prices.toml",
}


@dataclass(frozen=True)
class _Answer:
    """Writes the plan from what was found to matter."""

    planner: Planner
    shortlist: Shortlist
    figures: Figures

    def plan(self) -> Plan:
        planner, figures = self.planner, self.figures
        chooser = planner.chooser
        rows = chooser.chosen(figures, chooser.asked, 1 + N_RUNNERS_UP)
        certainties = chooser.question.certainties
        by_certainty = {
            p: self._option(chooser.chosen(figures, i)) for i, p in enumerate(certainties)
        }
        space = planner.space
        return Plan(
            question=chooser.question,
            minimize=chooser.minimize,
            varied=_varied(space),
            currency=planner.assessor.tariff.prices.currency,
            chosen=self._option(rows[:1]),
            closest=None if len(rows) else self._option(chooser.closest(figures)),
            runners_up=self._runners_up(rows),
            by_certainty=by_certainty,
            binding=self._binding(rows[:1]),
            far=self._far(rows[:1]),
            n_seen=self.shortlist.n_seen,
            n_far=self.shortlist.n_far,
            is_searched=planner.is_searched,
            has_estimated_energy=planner.assessor.has_estimated_energy,
            front=self._front(),
        )

    def _option(self, rows: NDArray[np.int64]) -> Option | None:
        if not len(rows):
            return None
        frame = self.figures.frame.iloc[rows[:1]].reset_index(drop=True)
        assessor, question = self.planner.assessor, self.planner.chooser.question
        ends = assessor.assess(frame, _INTERVAL)
        shares = assessor.assess(frame, _SHARES)
        asked = assessor.assess(frame, [question.confidence])
        estimates = {
            kind: Estimate(
                float(ends.value(kind)[0]), float(ends.at(kind, 0)[0]), float(ends.at(kind, 1)[0])
            )
            for kind in assessor.kinds
        }
        passports = [p.forecast(frame) for p, _ in assessor.predictors.values()]
        worst = max(passports, key=lambda f: (_TRUST.index(f.trust[0]), f.expected_error[0]))
        return Option(
            configuration={str(n): _plain(v) for n, v in frame.iloc[0].items()},
            estimates=estimates,
            certainties={
                word: _certainty(shares, LIMITS[word], most)
                for word, most in question.limits.items()
            },
            margins={
                word: 1 - float(asked.at(LIMITS[word], 0)[0]) / most
                for word, most in question.limits.items()
            },
            trust=str(worst.trust[0]),
            outside=worst.outside[0],
            expected_error=float(worst.expected_error[0]),
        )

    def _runners_up(self, rows: NDArray[np.int64]) -> list[Option]:
        """Return the next best; where too few keep the limits, the best that nearly do."""
        chooser, figures = self.planner.chooser, self.figures
        if not len(rows):
            return []
        nearly = [chooser.chosen(figures, i) for i in reversed(range(chooser.asked))]
        nearly += [chooser.without(figures, word) for word in chooser.question.limits]
        found = dict.fromkeys(np.concatenate([rows, *nearly]).tolist())
        others = [np.array([row]) for row in found][1 : 1 + N_RUNNERS_UP]
        return [option for row in others if (option := self._option(row)) is not None]

    def _binding(self, chosen: NDArray[np.int64]) -> list[str]:
        chooser, objective = self.planner.chooser, self._objective
        bound = objective[chosen[0]] if len(chosen) else np.inf
        found = []
        for word in chooser.question.limits:
            free = chooser.without(self.figures, word)
            if len(free) and objective[free[0]] < bound * (1 - 1e-9):
                found.append(word)
        if not len(chosen) and not found:  # each of several is missed
            closest = chooser.closest(self.figures)
            option = self._option(closest)
            found = [w for w, margin in option.margins.items() if margin < 0] if option else []
        return found

    def _far(self, chosen: NDArray[np.int64]) -> Option | None:
        chooser = self.planner.chooser
        if chooser.question.allow_far:
            return None
        far = chooser.far_ones(self.figures)
        bound = self._objective[chosen[0]] if len(chosen) else np.inf
        return self._option(far) if len(far) and self._objective[far[0]] < bound else None

    @cached_property
    def _objective(self) -> NDArray[np.float64]:
        return self.figures.value(self.planner.chooser.minimize)

    def _front(self) -> pd.DataFrame:
        chooser = self.planner.chooser
        figures = self.figures.take(chooser.front(self.figures))
        units = {"time": "time_s", "energy": "energy_j", "carbon": "carbon_g",
                 "memory": "memory_bytes", "power": "power_w"}  # fmt: skip
        found = figures.frame.copy()
        for kind in chooser.kinds:
            name = units.get(kind, kind)
            name = f"planned_{name}" if name in found.columns else name
            found[name] = figures.value(kind)
            if kind != "power" and chooser.question.confidence > 0.5:
                share = f"{100 * chooser.question.confidence:g}"
                found[f"{name}_p{share}"] = figures.at(kind, chooser.asked)
        found["keeps_limits"] = chooser.holds(figures, chooser.asked)
        found["is_far"] = figures.is_far
        kinds = [k for k in (TIME, COST) if k in chooser.kinds] or [chooser.minimize]
        order = np.argsort(figures.value(kinds[0]), kind="stable")
        return found.iloc[order].reset_index(drop=True)


_TRUST = ("inside", "near", "far", "unknown level")


def _certainty(shares: Figures, kind: str, most: float) -> float:
    """Return the largest share of runs that keep a limit; 0.99 is at least, 0 below 0.01."""
    holds = [p for i, p in enumerate(_SHARES) if shares.at(kind, i)[0] <= most]
    return max(holds, default=0.0)


def _varied(space: Space) -> list[str]:
    """Return the columns that are chosen; all, where there is nothing to choose."""
    return [name for name in space.names if len(space.values(name)) > 1] or space.names


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
