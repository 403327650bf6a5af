"""A sampler that minds costs: of several draws of another sampler, cheap ones are likelier."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from foretell.errors import Option, UsageError
from foretell.tune.optuna.costs import LearntCosts, ended_trials

Array = NDArray[np.float64]
#: The seconds of a step, by parameters, of which some may be missing.
Cost = Callable[[Sequence[Mapping[str, Any]]], Array]


class CostSampler(BaseSampler):
    """Takes one of several draws of another sampler, with a probability by its predicted cost.

    The probability is proportional to cost^-alpha, where alpha is the share of the budget that is
    left: cheap trials first, and in the end those that the other sampler thinks best.

    Parameters
    ----------
    base
        The other sampler; by default Optuna's own.
    n_trials, budget_s
        The budget of the study: trials or seconds. Without one, alpha stays 1.
    cost
        Returns the seconds of a step for a list of parameters; by default learned from trials that
        have ended.
    n_draws
        How many draws there are to choose from: of each parameter, or of whole configurations if
        the other sampler draws parameters together.

    >>> import optuna
    >>> optuna.logging.set_verbosity(optuna.logging.ERROR)
    >>> study = optuna.create_study(sampler=CostSampler(n_trials=5, seed=1))
    >>> study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=5)
    """

    def __init__(
        self,
        base: BaseSampler | None = None,
        *,
        n_trials: int | None = None,
        budget_s: float | None = None,
        cost: Cost | None = None,
        n_draws: int = 8,
        seed: int | None = None,
    ) -> None:
        for name, value in (("n_trials", n_trials), ("budget_s", budget_s), ("n_draws", n_draws)):
            if value is not None and not value > 0:
                raise UsageError(f"must be above 0, not {value:g}", option=Option(name))
        self._base = TPESampler(seed=seed) if base is None else base
        self._n_trials, self._budget_s = n_trials, budget_s
        self._cost, self._n_draws = cost, n_draws
        self._random = np.random.default_rng(seed)
        self._learnt: tuple[int, Cost] = (-1, LearntCosts([]))

    def reseed_rng(self) -> None:
        """Draw other numbers from now on, as each of several workers must."""
        self._base.reseed_rng()
        self._random = np.random.default_rng()

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the parameters that the other sampler draws together."""
        return self._base.infer_relative_search_space(study, trial)

    def sample_relative(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        """Draw several times what is drawn together, and take one."""
        if not search_space:
            return self._base.sample_relative(study, trial, search_space)
        draws = [
            self._base.sample_relative(study, trial, search_space) for _ in range(self._n_draws)
        ]
        return draws[self._chosen(study, draws)]

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw one parameter several times, and take one by the costs with those drawn before."""
        draws = [
            self._base.sample_independent(study, trial, param_name, param_distribution)
            for _ in range(self._n_draws)
        ]
        return draws[self._chosen(study, [{**trial.params, param_name: v} for v in draws])]

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Tell the other sampler."""
        self._base.before_trial(study, trial)

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Tell the other sampler."""
        self._base.after_trial(study, trial, state, values)

    def _chosen(self, study: optuna.Study, draws: Sequence[Mapping[str, Any]]) -> int:
        """Choose one of several draws."""
        costs = np.maximum(np.asarray(self._costs(study)(draws), dtype=float), 1e-12)
        weights = (costs / costs.min()) ** -self.alpha(study)
        if not np.isfinite(weights).all():
            return 0
        return int(self._random.choice(len(draws), p=weights / weights.sum()))

    def alpha(self, study: optuna.Study) -> float:
        """Return the share of the budget that is left."""
        trials = study.get_trials(deepcopy=False)
        ended = [t for t in trials if t.state.is_finished()]
        shares = [0.0]
        if self._n_trials is not None:
            shares.append(len(ended) / self._n_trials)
        if self._budget_s is not None:
            starts = [t.datetime_start for t in trials if t.datetime_start is not None]
            ends = [t.datetime_complete for t in ended if t.datetime_complete is not None]
            spent_s = (max(ends) - min(starts)).total_seconds() if starts and ends else 0.0
            shares.append(spent_s / self._budget_s)
        return 1.0 - min(max(shares), 1.0)

    def _costs(self, study: optuna.Study) -> Cost:
        if self._cost is not None:
            return self._cost
        ended = ended_trials(study)
        if len(ended) != self._learnt[0]:
            self._learnt = (len(ended), LearntCosts(ended))
        return self._learnt[1]
