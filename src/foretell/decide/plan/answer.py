"""The answer: what is told of the few configurations that matter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.decide.plan.assess import Figures
from foretell.decide.plan.choose import N_KEPT, N_RUNNERS_UP, Shortlist
from foretell.decide.plan.text import number_text
from foretell.decide.question.objective import LIMITS, Question
from foretell.decide.question.space import Space
from foretell.spaces.quantities import COST, TIME

if TYPE_CHECKING:
    from foretell.decide.plan.plan import Planner

#: Where the probability that a limit holds is looked up, and the ends of intervals.
_SHARES = tuple(round(0.01 * i, 2) for i in range(1, 100))
_LOWER, _UPPER = _SHARES.index(0.05), _SHARES.index(0.95)
_TRUST = ("inside", "near", "far", "unknown level")


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
        from foretell.decide.plan.text import plan_text

        return plan_text(self)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; numbers that are not known are None."""
        from foretell.decide.plan.text import plan_json

        return plan_json(self)


@dataclass(frozen=True)
class Answer:
    """Writes the plan from what was found to matter."""

    planner: Planner
    shortlist: Shortlist
    figures: Figures

    def plan(self) -> Plan:
        """Tell what is chosen, what else could be, and why not."""
        planner, figures = self.planner, self.figures
        chooser = planner.chooser
        rows = chooser.chosen(figures, chooser.asked, len(figures))
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
        figures = assessor.assess(frame, [*_SHARES, question.confidence])
        estimates = {
            kind: Estimate(
                float(figures.value(kind)[0]),
                float(figures.at(kind, _LOWER)[0]),
                float(figures.at(kind, _UPPER)[0]),
            )
            for kind in assessor.kinds
        }
        passports = [p.forecast(frame) for p, _ in assessor.predictors.values()]
        worst = max(passports, key=lambda f: (_TRUST.index(f.trust[0]), f.expected_error[0]))
        return Option(
            configuration={str(n): _plain(v) for n, v in frame.iloc[0].items()},
            estimates=estimates,
            certainties={
                word: _certainty(figures, LIMITS[word], most)
                for word, most in question.limits.items()
            },
            margins={
                word: 1 - float(figures.at(LIMITS[word], len(_SHARES))[0]) / most
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
        told: dict[str, Option | None] = {}  # as they read: 6.8 and 6.8000001 are one to people
        for row in np.concatenate([rows[:N_KEPT], *nearly]).tolist():
            settings = repr(
                [number_text(v) for v in figures.frame.iloc[row].to_numpy(dtype=object)]
            )
            if settings not in told and len(told) <= N_RUNNERS_UP:
                told[settings] = self._option(np.array([row]))
        return [option for option in list(told.values())[1:] if option is not None]

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


def _certainty(shares: Figures, kind: str, most: float) -> float:
    """Return the largest share of runs that keep a limit; 0.99 is at least, 0 below 0.01."""
    holds = [p for i, p in enumerate(_SHARES) if shares.at(kind, i)[0] <= most]
    return max(holds, default=0.0)


def _varied(space: Space) -> list[str]:
    """Return the columns that are chosen; all, where there is nothing to choose."""
    return [name for name in space.names if len(space.values(name)) > 1] or space.names


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if is_whole else value
