"""Planning, the one path: models and a question in, the configuration to use and why out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from foretell.dataset import Dataset
from foretell.decide.plan.answer import Answer, Plan
from foretell.decide.plan.assess import Assessor, match_models
from foretell.decide.plan.choose import Chooser, Shortlist
from foretell.decide.plan.search import search
from foretell.decide.question.choices import space_of
from foretell.decide.question.objective import LIMITS, PlanRequest, Question, option, read_request
from foretell.decide.question.prices import Prices, Tariff
from foretell.decide.question.space import Grid, Listed, Space
from foretell.errors import UsageError
from foretell.predictor import Predictor
from foretell.spaces.quantities import COST

#: Up to so many configurations times columns are looked at one by one, which takes some seconds;
#: larger and continuous spaces are searched.
MOST_CELLS = 6_000_000


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
        excluded: pd.DataFrame | None = None,
    ) -> Planner:
        """Check that models, space, prices and limits go together.

        ``excluded`` lists configurations that must not be chosen.
        """
        matched = match_models(predictors)
        space = space_of(asked, candidates, predictors, excluded)
        prices = asked.prices or Prices()
        assessor = Assessor(matched, Tariff.of(prices, space))
        question = asked.question(_without_intervals(matched))
        check_known(assessor.kinds, question, asked.minimize)
        minimize = asked.minimize or (COST if COST in assessor.kinds else assessor.kinds[0])
        return cls(space, assessor, Chooser(question, minimize, assessor.kinds), asked.seed)

    @cached_property
    def exhaustible(self) -> Space | None:
        """The space, as all of it can be looked at: as it is, or without what rules forbid."""
        n_columns = sum(len(p.columns) for p, _ in self.assessor.predictors.values())
        most_rows = MOST_CELLS // n_columns
        if not isinstance(self.space, Grid):
            return self.space
        if self.space.is_listed and self.space.size <= most_rows:
            return self.space
        rules = self.space.rules
        allowed = self.space.pruned(most_rows) if rules.only or rules.within else None
        return None if allowed is None else Listed(allowed[list(self.space.axes)], rules)

    @property
    def is_searched(self) -> bool:
        """Whether there is too much to look at everything."""
        return self.exhaustible is None

    def plan(self) -> Plan:
        """Look at the configurations, and answer."""
        shortlist = self.shortlist()
        if shortlist.figures is None:
            raise UsageError(self._nothing_left())
        return Answer(self, shortlist, shortlist.figures).plan()

    def _nothing_left(self) -> str:
        rules = "'only', --max and --min"
        if self.is_searched:
            return (
                f"none of the configurations drawn from a very large space is allowed by {rules}; "
                "narrow --vary to what they allow"
            )
        return (
            f"no configuration is left to choose from: {rules} exclude every one of "
            f"{self.space.size:,.0f}; widen them"
        )

    def shortlist(self) -> Shortlist:
        """Find what matters for the answer."""
        if self.exhaustible is None:
            assert isinstance(self.space, Grid)
            return search(self.space, self.assessor, self.chooser, self.seed)
        shortlist = Shortlist(self.chooser)
        for block in self.exhaustible.blocks():
            if len(block):
                shortlist.add(self.assessor.assess(block, self.chooser.question.certainties))
        return shortlist


def _without_intervals(matched: Mapping[str, tuple[Predictor, float]]) -> dict[str, str | None]:
    """Return the target of each model that has no intervals; None for one that has."""
    return {
        kind: None if predictor.has_intervals else predictor.target
        for kind, (predictor, _) in matched.items()
    }


def check_known(kinds: Sequence[str], question: Question, minimize: str | None) -> None:
    """Refuse limits and objectives that nothing is known of."""
    wanted = {option(word): LIMITS[word] for word in question.limits}
    if minimize is not None:
        wanted[f"--minimize {minimize}"] = minimize
    for words, kind in wanted.items():
        if kind not in kinds:
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
