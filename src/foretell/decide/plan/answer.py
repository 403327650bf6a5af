"""The answer: the chosen configuration, the others worth knowing, and the reasons."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.decide.plan.assess import Figures
from foretell.decide.plan.choose import N_KEPT, N_RUNNERS_UP, Shortlist
from foretell.decide.plan.text import Write, number_text, plan_json, plan_text
from foretell.decide.question.objective import LIMITS, Question
from foretell.predictor import TRUST_FAR, TRUST_INSIDE, TRUST_NEAR, TRUST_UNKNOWN
from foretell.spaces.quantities import CARBON, COST, ENERGY, MEMORY, POWER, TIME

if TYPE_CHECKING:
    from foretell.decide.plan.plan import Planner

#: The probabilities at which a limit is looked up, to find the one with which it holds.
_SHARES = tuple(round(0.01 * i, 2) for i in range(1, 100))
_LOWER, _UPPER = 0.05, 0.95  # the ends of an interval of 90 %
#: From the most to the least trusted.
_TRUST = (TRUST_INSIDE, TRUST_NEAR, TRUST_FAR, TRUST_UNKNOWN)
_STARTED = (TIME, COST, ENERGY, CARBON)
#: The names of quantities as columns of a table.
_COLUMNS = {TIME: "time_s", COST: "cost", ENERGY: "energy_j", CARBON: "carbon_g",
            MEMORY: "memory_bytes", POWER: "power_w"}  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """A predicted quantity, and an interval that should hold 90 % of such runs; NaN if unknown."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Candidate:
    """One configuration, and what is predicted for it.

    Attributes
    ----------
    estimates
        By kind of quantity, in base units: seconds, joules, grams, bytes, and the currency.
    start_up
        The part of an estimate that the start-up of machines takes; empty if nothing is known.
    certainties
        For each limit, the probability that it holds.
    margins
        For each limit, the share of it that is left over at the confidence asked for.
    outside
        Where it leaves the data of some model; empty if nowhere.
    score
        What it is compared by: the prediction of the objective, or where that is doubtful a
        quantile of it: that of the risk, far outside the data the pessimistic end; infinite if it
        has none.
    """

    configuration: dict[str, Any]
    estimates: dict[str, Estimate]
    start_up: dict[str, float]
    certainties: dict[str, float]
    margins: dict[str, float]
    trust: str
    outside: str
    expected_error: float
    score: float

    @property
    def certainty(self) -> float:
        """The probability of the limit that is least likely to hold; 1 without limits."""
        return min(self.certainties.values(), default=1.0)


@dataclass(frozen=True)
class PassedOver:
    """A configuration with a better but doubtful prediction: outside the data, or never run.

    ``chance``: the probability that it really is better than what is predicted for the chosen one.
    """

    candidate: Candidate
    chance: float


@dataclass(frozen=True)
class Plan:
    """The answer.

    Attributes
    ----------
    chosen
        None if nothing meets the limits; ``closest`` then comes nearest.
    by_certainty
        The best configuration for each probability of keeping the limits; None if there is none.
    binding
        The limits without which a better configuration would be chosen.
    passed_over
        What looks better outside the data, or was never run, but is too uncertain for the risk
        that was asked for.
    far
        A better configuration that was not considered: no interval supports its prediction.
    n_far
        How many configurations were not considered for that reason.
    is_searched
        Whether the space was searched, not looked at as a whole.
    has_estimated_energy
        Whether energy is power × time, because no model predicts it.
    front
        The configurations that no other beats in time, cost and energy at once.
    """

    question: Question
    minimize: str
    varied: list[str]
    currency: str
    chosen: Candidate | None
    closest: Candidate | None
    runners_up: list[Candidate]
    by_certainty: dict[float, Candidate | None]
    binding: list[str]
    passed_over: PassedOver | None
    far: Candidate | None
    n_seen: int
    n_far: int
    is_searched: bool
    has_estimated_energy: bool
    front: pd.DataFrame

    def __repr__(self) -> str:
        return plan_text(self)

    def to_json(self, write: Write = str) -> dict[str, Any]:
        """Return plain values; unknown numbers are None.

        ``write`` writes the names of options in the text.
        """
        return plan_json(self, write)


@dataclass(frozen=True)
class Answer:
    """Builds the plan from the configurations that matter."""

    planner: Planner
    shortlist: Shortlist
    figures: Figures

    def plan(self) -> Plan:
        """Say what is chosen, what else could be, and why it is not."""
        planner, figures = self.planner, self.figures
        chooser = planner.chooser
        rows = chooser.chosen(figures, chooser.question.confidence, len(figures))
        space = planner.space
        return Plan(
            question=chooser.question,
            minimize=chooser.minimize,
            varied=[n for n in space.names if len(space.values(n)) > 1] or space.names,
            currency=planner.assessor.tariff.prices.currency,
            chosen=self._candidate(rows[:1]),
            closest=None if len(rows) else self._candidate(chooser.closest(figures)),
            runners_up=self._runners_up(rows),
            by_certainty={
                p: self._candidate(chooser.chosen(figures, p)) for p in chooser.question.certainties
            },
            binding=self._binding(rows[:1]),
            passed_over=self._passed_over(rows[:1]),
            far=self._far(rows[:1]),
            n_seen=self.shortlist.n_seen,
            n_far=self.shortlist.n_far,
            is_searched=planner.is_searched,
            has_estimated_energy=planner.assessor.has_estimated_energy,
            front=self._front(),
        )

    def _candidate(self, rows: NDArray[np.int64]) -> Candidate | None:
        """Describe the first of some rows."""
        if not len(rows):
            return None
        frame = self.figures.frame.iloc[rows[:1]].reset_index(drop=True)
        assessor, question = self.planner.assessor, self.planner.chooser.question
        figures = assessor.assess(frame, [*_SHARES, question.confidence])
        prices = assessor.tariff.prices
        started = _STARTED if prices.start_up_s or prices.start_up_cost else ()
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
        return Candidate(
            configuration={str(n): _plain(v) for n, v in frame.iloc[0].items()},
            estimates=estimates,
            start_up={k: float(figures.start_up(k)[0]) for k in assessor.kinds if k in started},
            certainties={
                # 0.99 means at least that, 0 less than 0.01
                word: max(
                    (p for p in _SHARES if figures.at(LIMITS[word], p)[0] <= most), default=0.0
                )
                for word, most in question.limits.items()
            },
            margins={
                word: 1 - float(figures.at(LIMITS[word], question.confidence)[0]) / most
                for word, most in question.limits.items()
            },
            trust=str(worst.trust[0]),
            outside=worst.outside[0],
            expected_error=float(worst.expected_error[0]),
            score=float(self._scores[rows[0]]),
        )

    def _runners_up(self, rows: NDArray[np.int64]) -> list[Candidate]:
        """Return the next best; if too few meet the limits, the best of those that nearly do."""
        chooser, figures = self.planner.chooser, self.figures
        if not len(rows):
            return []
        less_sure = [p for p in chooser.question.certainties if p < chooser.question.confidence]
        nearly = [chooser.chosen(figures, p) for p in reversed(less_sure)]
        nearly += [chooser.without(figures, word) for word in chooser.question.limits]
        # Compared as they are written: 6.8 and 6.8000001 look the same.
        told: dict[str, Candidate | None] = {}
        for row in np.concatenate([rows[:N_KEPT], *nearly]).tolist():
            settings = repr(
                [number_text(v) for v in figures.frame.iloc[row].to_numpy(dtype=object)]
            )
            if settings not in told and len(told) <= N_RUNNERS_UP:
                told[settings] = self._candidate(np.array([row]))
        return [candidate for candidate in list(told.values())[1:] if candidate is not None]

    def _binding(self, chosen: NDArray[np.int64]) -> list[str]:
        chooser = self.planner.chooser
        scores = self._scores
        bound = scores[chosen[0]] if len(chosen) else np.inf
        found = []
        for word in chooser.question.limits:
            free = chooser.without(self.figures, word)
            if len(free) and scores[free[0]] < bound * (1 - 1e-9):
                found.append(word)
        if not len(chosen) and not found:  # each of several is missed
            closest = self._candidate(chooser.closest(self.figures))
            margins = closest.margins if closest else {}
            found = [word for word, margin in margins.items() if margin < 0]
        return found

    def _passed_over(self, chosen: NDArray[np.int64]) -> PassedOver | None:
        chooser, figures = self.planner.chooser, self.figures
        doubtful = chooser.best_doubtful(figures)
        if not len(chosen) or not len(doubtful):
            return None
        bound = self._objective[chosen[0]]
        candidate = self._candidate(doubtful)
        if candidate is None or self._objective[doubtful[0]] >= bound * (1 - 1e-9):
            return None
        frame = figures.frame.iloc[doubtful].reset_index(drop=True)
        assessed = self.planner.assessor.assess(frame, _SHARES)
        better = [p for p in _SHARES if assessed.at(chooser.minimize, p)[0] < bound]
        return PassedOver(candidate, max(better, default=0.0))

    def _far(self, chosen: NDArray[np.int64]) -> Candidate | None:
        chooser = self.planner.chooser
        if chooser.question.allow_far:
            return None
        far = chooser.best_unsupported(self.figures)
        bound = self._objective[chosen[0]] if len(chosen) else np.inf
        return self._candidate(far) if len(far) and self._objective[far[0]] < bound else None

    @cached_property
    def _scores(self) -> NDArray[np.float64]:
        return self.planner.chooser.scores(self.figures)

    @cached_property
    def _objective(self) -> NDArray[np.float64]:
        return self.figures.value(self.planner.chooser.minimize)

    def _front(self) -> pd.DataFrame:
        chooser = self.planner.chooser
        confidence = chooser.question.confidence
        figures = self.figures.take(chooser.front(self.figures))
        found = figures.frame.copy()
        for kind in chooser.kinds:
            name = _COLUMNS[kind]
            name = f"planned_{name}" if name in found.columns else name
            found[name] = figures.value(kind)
            if kind != POWER and confidence > 0.5:
                found[f"{name}_p{100 * confidence:g}"] = figures.at(kind, confidence)
        if TIME in chooser.kinds and figures.prices.start_up_s:
            found["start_up_s"] = figures.start_up(TIME)
        found["keeps_limits"] = chooser.holds(figures, confidence)
        found["is_far"] = figures.is_far
        kinds = [k for k in (TIME, COST) if k in chooser.kinds] or [chooser.minimize]
        order = np.argsort(figures.value(kinds[0]), kind="stable")
        return found.iloc[order].reset_index(drop=True)


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if is_whole else value
