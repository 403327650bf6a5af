"""CostSampler passes Optuna's own tests of samplers, and prefers cheap trials at first."""

import warnings
from collections.abc import Callable

import numpy as np
import optuna
import pytest
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    MultiObjectiveSamplerTestCase,
    RelativeSamplerTestCase,
)

from foretell.errors import UsageError
from foretell.tune.optuna import CostSampler

optuna.logging.set_verbosity(optuna.logging.ERROR)
pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


class TestOverTPE(BasicSamplerTestCase, MultiObjectiveSamplerTestCase):
    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return CostSampler


def _together():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return CostSampler(TPESampler(n_startup_trials=0, multivariate=True))


class TestOverTPEThatDrawsTogether(RelativeSamplerTestCase):
    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return _together


class TestOverRandom(BasicSamplerTestCase):
    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: CostSampler(RandomSampler(), n_trials=3)


def first_values(sampler, n):
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda t: t.suggest_float("x", 1, 100) * 0, n_trials=n)
    return np.array([t.params["x"] for t in study.trials])


def cost(params):
    return np.array([p["x"] for p in params])


def test_cheap_trials_are_likelier_at_first_and_not_in_the_end():
    values = first_values(CostSampler(RandomSampler(seed=1), n_trials=400, cost=cost, seed=2), 400)
    assert values[:100].mean() < 0.8 * values[-100:].mean()
    assert values[-40:].mean() == pytest.approx(50.5, abs=12)


def test_alpha_is_the_share_of_the_budget_that_is_left():
    sampler = CostSampler(n_trials=10)
    study = optuna.create_study(sampler=sampler)
    assert sampler.alpha(study) == 1.0
    study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=4)
    assert sampler.alpha(study) == pytest.approx(0.6)
    assert CostSampler(budget_s=1e-9).alpha(study) == 0.0
    assert CostSampler().alpha(study) == 1.0


def test_draws_are_chosen_with_the_probabilities_of_the_rule():
    """One of two draws, 1 s and 4 s, at alpha 1: four of five times the cheap one."""
    sampler = CostSampler(RandomSampler(), cost=lambda ps: np.array([p["c"] for p in ps]), seed=0)
    study = optuna.create_study()
    chosen = [sampler._chosen(study, [{"c": 1.0}, {"c": 4.0}]) for _ in range(2000)]
    assert np.mean(chosen) == pytest.approx(0.2, abs=0.03)


def test_costs_are_learnt_from_trials_that_ended():
    from datetime import datetime, timedelta

    from foretell.tune.optuna.costs import LearntCosts

    start = datetime(2026, 1, 1)
    trials = []
    for x in [1, 2, 4, 8, 16, 32, 3, 7]:
        trial = optuna.trial.create_trial(
            params={"x": x, "kind": "a"},
            distributions={
                "x": optuna.distributions.IntDistribution(1, 32),
                "kind": optuna.distributions.CategoricalDistribution(("a", "b")),
            },
            value=0.0,
        )
        trial.datetime_start, trial.datetime_complete = start, start + timedelta(seconds=10 * x)
        trials.append(trial)
    costs = LearntCosts(trials)([{"x": 5, "kind": "a"}, {"x": 20, "kind": "a"}])
    assert costs == pytest.approx([50, 200], rel=0.15)


def test_a_study_with_several_threads_is_sampled():
    study = optuna.create_study(sampler=CostSampler(n_trials=20))
    study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=20, n_jobs=4)
    assert len(study.trials) == 20


@pytest.mark.parametrize("wrong", [{"n_trials": 0}, {"budget_s": -1.0}, {"n_draws": 0}])
def test_budgets_that_are_none_are_refused(wrong):
    with pytest.raises(UsageError, match="must be above 0"):
        CostSampler(**wrong)
