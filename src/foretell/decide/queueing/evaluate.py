"""Response times of plans without evictions: of many plans from moments, of one by formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from foretell.decide.queueing.assess import Evaluator, Plan, Response
from foretell.decide.queueing.many import responses_of_many
from foretell.decide.queueing.predict import queue_figures
from foretell.decide.queueing.queue_file import ArrivalsTable
from foretell.decide.queueing.streams import Stream

PLANNED = "non-preemptive"
_FEW = 6


class ByMoments:
    """Answers for many plans at once.

    Means are exact. A p95 is within 0.5 % of the formulas for jobs of tasks. It may be a third off
    where services vary a lot or are of two kinds, which three moments do not tell.
    """

    def responses(
        self, rates_per_s: Sequence[float], plans: Sequence[Plan]
    ) -> list[list[Response]]:
        """Return the response times by plan and class."""
        if not plans:
            return []
        moments = np.array([[option.moments for option in plan] for plan in plans])
        means, p95s = responses_of_many(np.asarray(rates_per_s), moments)
        rows = zip(means.tolist(), p95s.tolist(), strict=True)
        return [[Response(*pair) for pair in zip(*row, strict=True)] for row in rows]


class ByEither:
    """Answers by exact formulas where plans are few, and otherwise by moments."""

    def __init__(self, formulas: Evaluator) -> None:
        self.formulas, self.moments = formulas, ByMoments()

    def responses(
        self, rates_per_s: Sequence[float], plans: Sequence[Plan]
    ) -> Sequence[Sequence[Response]]:
        """Return the response times by plan and class."""
        answers: Evaluator = self.formulas if len(plans) <= _FEW else self.moments
        return answers.responses(rates_per_s, plans)


class ByFormula:
    """Answers plan by plan.

    Attributes
    ----------
    otherwise
        Who answers where a distribution has jumps, so that no formula can be trusted.
    arrivals
        How jobs arrive; a Markov process becomes faster or slower as a whole.
    """

    def __init__(self, otherwise: Evaluator, arrivals: ArrivalsTable | None = None) -> None:
        self.otherwise, self.arrivals = otherwise, arrivals or ArrivalsTable()

    def responses(
        self, rates_per_s: Sequence[float], plans: Sequence[Plan]
    ) -> list[Sequence[Response]]:
        """Return the response times by plan and class."""
        return [self._of_plan(rates_per_s, plan) for plan in plans]

    def _of_plan(self, rates_per_s: Sequence[float], plan: Plan) -> Sequence[Response]:
        pairs = enumerate(zip(rates_per_s, plan, strict=True))
        streams = [Stream(str(k), rate, option.service) for k, (rate, option) in pairs]
        figures = queue_figures(PLANNED, streams, matrices=self.arrivals.with_rates(rates_per_s))
        found = [Response(c.mean_s, c.p95_s) for c in figures.classes]
        if any(math.isnan(response.p95_s) for response in found):
            return self.otherwise.responses(rates_per_s, [plan])[0]
        return found
