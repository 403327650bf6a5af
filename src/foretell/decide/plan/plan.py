"""Planning, the one path: models and a question in, the configuration to use and why out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from foretell.dataset import Dataset
from foretell.decide.plan.answer import Answer, Plan
from foretell.decide.plan.assess import Assessor, Figures, match_models
from foretell.decide.plan.choose import PlanChooser, Shortlist
from foretell.decide.plan.search import search
from foretell.decide.question.choices import space_of
from foretell.decide.question.objective import LIMITS, PlanRequest, Question, read_request
from foretell.decide.question.prices import Prices, Tariff
from foretell.decide.question.space import Grid, Listed, Space
from foretell.errors import Option, Remedy, UsageError
from foretell.predictor import Predictor, Predictors, listed_predictors
from foretell.spaces.quantities import CARBON, COST, ENERGY, MEMORY, POWER, TIME

#: Spaces with at most this many cells (configurations times columns of all models) are looked at
#: as a whole, which takes some seconds; larger and continuous ones are searched.
MOST_CELLS = 6_000_000


def make_plan(
    models: Predictors,
    request: PlanRequest | Mapping[str, Any] | Path | str,
    candidates: pd.DataFrame | Dataset | Path | str | None = None,
) -> Plan:
    """Choose the configuration to use.

    Parameters
    ----------
    models
        One model of a time, and others of energy or memory if there are any; also what
        ``fit_model`` returns, for one target or for several.
    request
        What to vary, fix and minimize, prices and limits: as a dict or a TOML file.
    candidates
        A table of configurations to choose from, in place of what the request varies.
    """
    predictors = listed_predictors(models)
    return Planner.of(predictors, read_request(request), candidates).plan()


@dataclass(frozen=True)
class Planner:
    """A question that was checked, and is ready to be answered."""

    space: Space
    assessor: Assessor
    chooser: PlanChooser
    seed: int

    @classmethod
    def of(
        cls,
        predictors: Sequence[Predictor],
        asked: PlanRequest,
        candidates: pd.DataFrame | Dataset | Path | str | None = None,
        excluded: pd.DataFrame | None = None,
    ) -> Planner:
        """Check that models, space, prices and limits fit together.

        ``excluded`` lists configurations that must not be chosen.
        """
        matched = match_models(predictors)
        space = space_of(asked, candidates, predictors, excluded)
        prices = asked.prices or Prices()
        assessor = Assessor(matched, Tariff.of(prices, space))
        question = asked.question(
            {kind: None if p.has_intervals else p.target for kind, (p, _) in matched.items()}
        )
        if space.size == 1:  # there is nothing to choose: predict it, however far outside it is
            question = replace(question, allow_far=True)
        check_known(assessor.kinds, question, asked.minimize)
        minimize = asked.minimize or (COST if COST in assessor.kinds else assessor.kinds[0])
        return cls(space, assessor, PlanChooser(question, minimize, assessor.kinds), asked.seed)

    @cached_property
    def exhaustible(self) -> Space | None:
        """The space if all of it can be looked at, without what rules forbid; None if not."""
        n_columns = sum(len(p.columns) for p, _ in self.assessor.predictors.values())
        most_rows = MOST_CELLS // n_columns
        if not isinstance(self.space, Grid):
            return self.space
        if self.space.is_listed and self.space.size <= most_rows:
            return self.space
        rules = self.space.rules
        allowed = self.space.pruned(most_rows) if rules.has_conditions else None
        return None if allowed is None else Listed(allowed[list(self.space.axes)], rules)

    @property
    def is_searched(self) -> bool:
        """Whether the space is too large to look at as a whole."""
        return self.exhaustible is None

    def plan(self) -> Plan:
        """Look at the configurations, and answer."""
        return self.answer(self.shortlist())

    def shortlist(self) -> Shortlist:
        """Find the configurations that matter for the answer."""
        if self.is_searched:
            assert isinstance(self.space, Grid)
            return search(self.space, self.assessor, self.chooser, self.seed)
        shortlist = Shortlist(self.chooser)
        for figures in self.walk(self.chooser.question.probabilities):
            shortlist.add(figures)
        return shortlist

    def walk(self, probabilities: Sequence[float]) -> Iterator[Figures]:
        """Assess all configurations that the rules allow, some at a time."""
        assert self.exhaustible is not None, "too many configurations; search them"
        for block in self.exhaustible.blocks():
            if len(block):
                yield self.assessor.assess(block, probabilities)

    def answer(self, shortlist: Shortlist) -> Plan:
        """Answer the question from the configurations that matter."""
        if shortlist.figures is None:
            raise self._nothing_left()
        return Answer(self, shortlist, shortlist.figures).plan()

    def _nothing_left(self) -> UsageError:
        rules: Remedy = (Option("only"), ", ", Option("most"), " and ", Option("least"))
        if self.is_searched:
            return UsageError(
                "none of the configurations drawn from a very large space is allowed",
                remedy=("narrow ", Option("vary"), " to what is allowed by ", *rules),
            )
        return UsageError(
            f"no configuration is left to choose from: the conditions exclude all "
            f"{self.space.size:,.0f}",
            remedy=("relax ", *rules),
        )


def check_known(kinds: Sequence[str], question: Question, minimize: str | None) -> None:
    """Refuse limits and objectives for quantities that are not known."""
    wanted = {Option(word): LIMITS[word] for word in question.limits}
    if minimize is not None:
        wanted[Option("minimize", minimize)] = minimize
    for option, kind in wanted.items():
        if kind not in kinds:
            raise UsageError(
                f"the {kind} of a configuration is not known", option=option,
                remedy=("give ", *_SOURCES[kind]),
            )  # fmt: skip


#: What makes a quantity known.
_SOURCES: dict[str, Remedy] = {
    TIME: ("a model of a time, whose target ends in _s, _ms, _min or _h",),
    COST: ("a model of a time, and price_per_hour in ", Option("prices"),
           " or as a column of the candidates"),
    ENERGY: ("a model of energy, whose target ends in _j, or power_w in ", Option("prices")),
    CARBON: ("a model of energy or power_w, and carbon_g_per_kwh in ", Option("prices")),
    MEMORY: ("a model of memory, whose target ends in _bytes or _mib",),
    POWER: ("power_w in ", Option("prices")),
}  # fmt: skip
