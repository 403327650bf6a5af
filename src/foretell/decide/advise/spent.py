"""What runs that were made have cost, and whether another one is within the budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.decide.advise.first_runs import job_size
from foretell.decide.advise.options import Budget
from foretell.decide.plan.assess import Figures, Known, kinds_told, match_targets
from foretell.decide.plan.plan import check_known
from foretell.decide.question.objective import PlanRequest
from foretell.decide.question.prices import Prices, Tariff
from foretell.decide.question.space import Listed
from foretell.spaces.quantities import TIME, write_quantity
from foretell.statuses import Status

_WALL_TIME, _ATTEMPTS = "wall_time_s", "n_attempts"


@dataclass(frozen=True)
class Account:
    """What measuring may cost, and what it did.

    Attributes
    ----------
    targets
        The columns that are modeled, one of them a time.
    given
        What the job to plan for has; prices may speak of it though no run has such a column.
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
        """Read a budget; refuse what can be told to be wrong before any of the runs is made."""
        prices = request.prices or Prices()
        account = cls(Budget(TIME), targets, prices, request.fix, n_warm_up)
        tariff = Tariff.of(prices, Listed(account.with_given(pd.DataFrame(list(runs)))))
        kinds = kinds_told(match_targets(targets), tariff)
        check_known(kinds, request.question(), request.minimize)
        return replace(account, budget=Budget.of(written, kinds))

    def with_given(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add what is given to a table of runs, where it has no such column."""
        return frame.assign(**{n: v for n, v in self.given.items() if n not in frame.columns})

    def spent(self, frame: pd.DataFrame) -> float:
        """Return what all runs of a table took together, of the kind of the budget."""
        return float(np.nansum(self._costs(frame))) if len(frame) else 0.0

    def has_room(self, frame: pd.DataFrame) -> bool:
        """Say whether anything is left of the budget after these runs."""
        return self.spent(frame) < self.budget.most

    def affords(self, frame: pd.DataFrame, runs: Sequence[Mapping[str, Any]]) -> bool:
        """Say whether further runs are within what is left, as far as one can guess."""
        spent = self.spent(frame)
        return spent < self.budget.most and spent + self.guess(frame, runs) <= self.budget.most

    def guess(self, frame: pd.DataFrame, runs: Sequence[Mapping[str, Any]]) -> float:
        """Guess what runs will cost, when there is no model yet; 0 where nothing is known.

        They are taken to be as long as the first run that went well, in proportion to the job.
        Later runs do not count: so a guess stays, and what was stopped goes on with the same runs.
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
        """Write an amount of what the budget is of."""
        return write_quantity(amount, self.budget.kind, self.prices.currency)

    def _costs(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Return what each run took; one that went wrong counts with its wall time, if any."""
        frame = self.with_given(frame)
        known = {}
        for quantity, (target, unit) in match_targets(self.targets).items():
            values = _column(frame, target) * unit
            if quantity == TIME:
                values = np.where(np.isfinite(values), values, _column(frame, _WALL_TIME))
            values = np.nan_to_num(values) * (self.n_warm_up + _column(frame, _ATTEMPTS, 1.0))
            known[quantity] = Known(values, values[:, None])
        bill = Tariff.of(self.prices, Listed(frame)).bill(frame)
        figures = Figures(frame, self.prices, known, bill, np.zeros(len(frame), dtype=bool))
        return figures.value(self.budget.kind)


def _column(frame: pd.DataFrame, name: str, otherwise: float = np.nan) -> NDArray[np.float64]:
    if name not in frame.columns:
        return np.full(len(frame), otherwise)
    return pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=float)
