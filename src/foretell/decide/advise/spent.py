"""What the runs so far have cost, and whether another one fits into the budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.decide.advise.first_runs import job_size
from foretell.decide.advise.options import Budget
from foretell.decide.plan.assess import Figures, Known, known_kinds, match_targets
from foretell.decide.plan.plan import check_known
from foretell.decide.question.objective import PlanRequest
from foretell.decide.question.prices import Prices, Tariff
from foretell.decide.question.space import Listed
from foretell.predictor import Quantiles
from foretell.spaces.quantities import TIME, write_quantity
from foretell.statuses import Status

_WALL_TIME, _ATTEMPTS = "wall_time_s", "n_attempts"


@dataclass(frozen=True)
class Account:
    """What measuring may cost, and what it has cost.

    Attributes
    ----------
    targets
        The columns that are modeled, one of them a time.
    given
        The values of the job to plan for; prices may use them even if no run has such a column.
    n_warm_up
        How often a run executes the job before it is measured.
    """

    budget: Budget
    targets: Sequence[str]
    prices: Prices
    given: Mapping[str, Any]
    n_warm_up: int = 0

    @classmethod
    def open(
        cls,
        written: str | float | None,
        targets: Sequence[str],
        request: PlanRequest,
        runs: Sequence[Mapping[str, Any]],
        n_warm_up: int = 0,
    ) -> Account:
        """Read a budget, and check all that can be checked before the first run."""
        prices = request.prices or Prices()
        account = cls(Budget(TIME), targets, prices, request.fix, n_warm_up)
        tariff = Tariff.of(prices, Listed(account.with_given(pd.DataFrame(list(runs)))))
        kinds = known_kinds(match_targets(targets), tariff)
        check_known(kinds, request.question(), request.minimize)
        return replace(account, budget=Budget.of(written, kinds))

    def with_given(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add the values of the job to a table of runs that has no such columns."""
        frame = frame.copy()
        for name, value in self.given.items():
            if name not in frame.columns:
                frame[name] = value
        return frame

    def spent(self, frame: pd.DataFrame) -> float:
        """Return what all runs of a table took together, in the quantity of the budget."""
        return float(np.nansum(self._costs(frame))) if len(frame) else 0.0

    def affords(self, frame: pd.DataFrame, runs: Sequence[Mapping[str, Any]] = ()) -> bool:
        """Say whether something is left of the budget, and further runs probably cost no more."""
        spent, most = self.spent(frame), self.budget.most
        return spent < most and (not runs or spent + self.guess(frame, runs) <= most)

    def guess(self, frame: pd.DataFrame, runs: Sequence[Mapping[str, Any]]) -> float:
        """Guess what runs will cost before there is a model; 0 if no run went well yet.

        They are assumed to take as long as the first run that went well, in proportion to the size
        of the job. Later runs are not used: the guess stays the same, so that learning that was
        interrupted continues with the same runs.
        """
        good = frame[frame["status"] == Status.OK] if len(frame) else frame
        if good.empty:
            return 0.0
        first = {str(name): value for name, value in good.iloc[0].items()}
        rows = []
        for run in runs:
            ratio = job_size(run, self.given) / job_size(first, self.given)
            measured = {name: first.get(name, np.nan) for name in {*self.targets, _WALL_TIME}}
            scaled = {name: ratio * float(value) for name, value in measured.items()}
            rows.append({**first, **run, **scaled, _ATTEMPTS: 1})
        return float(np.nansum(self._costs(pd.DataFrame(rows))))

    def written(self, amount: float) -> str:
        """Write an amount in the unit of the budget."""
        return write_quantity(amount, self.budget.kind, self.prices.currency)

    def _costs(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Return what each run took; a run that failed counts with its wall time, if it has one."""
        frame = self.with_given(frame)
        known = {}
        for quantity, (target, unit) in match_targets(self.targets).items():
            values = _column(frame, target) * unit
            if quantity == TIME:
                values = np.where(np.isfinite(values), values, _column(frame, _WALL_TIME))
            values = np.nan_to_num(values) * (self.n_warm_up + _column(frame, _ATTEMPTS, 1.0))
            known[quantity] = Known(values, Quantiles((0.5,), values[:, None]))
        bill = Tariff.of(self.prices, Listed(frame)).bill(frame)
        is_inside = np.ones(len(frame), dtype=bool)  # they were run
        figures = Figures(frame, self.prices, known, bill, ~is_inside, ~is_inside, is_inside)
        return figures.value(self.budget.kind)


def _column(frame: pd.DataFrame, name: str, otherwise: float = np.nan) -> NDArray[np.float64]:
    if name not in frame.columns:
        return np.full(len(frame), otherwise)
    return pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=float)
