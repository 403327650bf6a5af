"""A law, and what it leaves over."""

from __future__ import annotations

import numpy as np
import pytest

from foretell.model.techniques import State, TrainingRows
from foretell.model.techniques.laws.hybrid import HybridRegressor, HybridTechnique
from foretell.model.techniques.laws.scaling_law import ScalingLawTechnique
from foretell.testing import check_technique


def rows(x, y, groups=()):
    return TrainingRows(x, y, np.ones(len(y)), groups)


def fit(x, y, law="ScalingLaw", rest="process", groups=()):
    technique = HybridTechnique()
    prepared = technique.prepare(rows(x, y, groups))
    return technique.fit(prepared, {"law": law, "rest": rest}, seed=0)


def bumpy(n=60, seed=0):
    """A law with a bump in the middle of the sizes, which no law of ours has."""
    random = np.random.default_rng(seed)
    x = np.column_stack([random.uniform(10, 1000, n), random.choice([1.0, 2, 4, 8], n)])
    return x, time_of(x)


def time_of(x):
    bump = 1 + 0.5 * np.exp(-((np.log(x[:, 0] / 100) / 0.5) ** 2))
    return (5 + 3 * x[:, 0] / x[:, 1]) * bump


def error(predicted, truth):
    return np.mean(np.abs(predicted / truth - 1))


def test_contract():
    check_technique(HybridTechnique)


@pytest.mark.parametrize("rest", ["process", "trees"])
def test_the_rest_sees_what_the_law_does_not(rest):
    x, y = bumpy()
    new, truth = bumpy(90, seed=1)
    law = ScalingLawTechnique()
    alone = law.fit(law.prepare(rows(x, y)), {"interactions": True, "terms": "many"}, seed=0)
    both = fit(x, y, rest=rest)
    assert error(both.predict(new), truth) < 0.6 * error(alone.predict(new), truth)


@pytest.mark.parametrize("rest", ["process", "trees"])
@pytest.mark.parametrize("law", ["ScalingLaw", "PowerLaw"])
def test_outside_the_data_the_law_goes_on_and_the_rest_stays(law, rest):
    x, y = bumpy()
    model = fit(x, y, law, rest)
    new = np.array([[4000.0, 8], [8000, 8], [1000, 32]])
    factor = model.predict(new) / model.law.predict(new)
    border = np.clip(new, x.min(axis=0), x.max(axis=0))
    assert factor == pytest.approx(model.predict(border) / model.law.predict(border))
    assert factor[0] == pytest.approx(factor[1])


def test_a_law_that_is_exact_leaves_nothing_to_the_rest():
    x, _ = bumpy()
    model = fit(x, 5 + 3 * x[:, 0] / x[:, 1])
    new = np.array([[2000.0, 4], [1000, 16], [50, 2]])
    assert model.predict(new) == pytest.approx(5 + 3 * new[:, 0] / new[:, 1], rel=0.03)


def test_levels_are_told_apart():
    x, _ = bumpy()
    level = np.arange(len(x)) % 2
    y = (5 + 3 * x[:, 0] / x[:, 1]) * np.where(level, 3.0, 1.0)
    model = fit(np.hstack([x, np.eye(2)[level]]), y, groups=((2, 3),))
    assert error(model.predict(np.hstack([x, np.eye(2)[level]])), y) < 0.03


def test_shares_are_those_of_the_law():
    x, y = bumpy()
    model = fit(x, y)
    assert model.importances().sum() == pytest.approx(1)
    assert np.array_equal(model.importances(), model.law.importances())


def test_refit_on_some_rows_is_close_to_a_fit():
    x, y = bumpy()
    whole = fit(x, y)
    params = {"law": "ScalingLaw", "rest": "process"}
    again = HybridTechnique().refit(rows(x[:45], y[:45]), params, 0, whole.start())
    assert error(again.predict(x), y) < 0.1


@pytest.mark.parametrize(
    ("key", "value"), [("law_name", "LightTrees"), ("rest_name", "LogGP"), ("law", 3)]
)
def test_a_state_with_another_law_or_rest_is_refused(key, value):
    x, y = bumpy(20)
    state = fit(x, y).to_state()
    with pytest.raises(ValueError):
        HybridRegressor.from_state(State({**state.values, key: value}, state.arrays), 2)
