from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.model.techniques import TrainingRows
from foretell.model.techniques.trees.light_trees import LightTreesRegressor, LightTreesTechnique
from foretell.testing import check_technique


def fit(x, y, weight=None, groups=(), n_estimators=30):
    technique = LightTreesTechnique()
    rows = TrainingRows(x, y, np.ones(len(y)) if weight is None else weight, groups)
    return technique.fit(technique.prepare(rows), {"n_estimators": n_estimators}, seed=0)


def test_contract():
    check_technique(LightTreesTechnique)


def test_a_cliff_in_the_product_of_two_columns_is_found():
    random = np.random.default_rng(0)
    x = random.uniform(1, 32, (400, 2))
    y = np.where(x[:, 0] * x[:, 1] > 100, 50.0, 10.0)  # the memory of the machine is full
    new = random.uniform(1, 32, (400, 2))
    product = new.prod(axis=1)
    new, product = (
        new[np.abs(np.log(product / 100)) > 0.1],
        product[np.abs(np.log(product / 100)) > 0.1],
    )
    predicted = fit(x, y, n_estimators=150).predict(new)
    truth = np.where(product > 100, 50.0, 10.0)
    assert np.mean(np.abs(predicted / truth - 1)) < 0.03


def test_training_rows_are_reproduced_in_any_unit():
    x = np.arange(1.0, 21)[:, None]
    for unit in (1e-9, 1.0, 1e9):
        y = unit * (1 + np.arange(20) % 7)
        assert fit(x, y).predict(x) == pytest.approx(y, rel=1e-6)


def test_weight_is_multiplicity():
    x = np.ones((2, 1))
    y = np.array([1.0, np.e**4])
    assert fit(x, y, np.array([3.0, 1.0])).predict(x) == pytest.approx(np.e)


def test_importances_go_back_to_the_columns():
    random = np.random.default_rng(0)
    x = np.hstack([random.uniform(1, 100, (200, 3)), np.eye(2)[np.arange(200) % 2]])
    shares = fit(x, x[:, 0] * x[:, 1], groups=((3, 4),)).importances()
    assert shares.sum() == pytest.approx(1)
    assert shares[:2].min() > 5 * shares[2:].max()


def test_many_logarithms_are_not_combined():
    random = np.random.default_rng(0)
    x = random.uniform(1, 9, (40, 9))
    assert fit(x, x[:, 0]).trees.n_features == 9
    assert fit(x[:, :8], x[:, 0]).trees.n_features == 8 + 2 * 28


def test_levels_are_told_apart_and_one_never_seen_is_something_between():
    level = np.arange(180) % 60
    x = np.eye(60)[level]
    model = fit(x, 1.0 + level, groups=(tuple(range(60)),))
    assert model.predict(x) == pytest.approx(1.0 + level)
    assert 1 <= model.predict(np.zeros((1, 60)))[0] <= 60


def test_target_must_be_positive():
    with pytest.raises(ValueError, match="the target must be positive"):
        fit(np.ones((2, 1)), np.array([1.0, 0.0]))


columns = st.lists(
    st.one_of(st.integers(-3, 3), st.floats(1e-6, 1e9), st.just(0)), min_size=3, max_size=12
)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_table_is_predicted_within_its_range_and_survives_saving(data):
    values = np.array(data.draw(columns), dtype=float)
    n = len(values)
    levels = np.eye(2)[np.arange(n) % 2]
    x = np.column_stack([values, values, np.full(n, 4.0), np.roll(values, 1), levels])
    y = np.array(data.draw(st.lists(st.floats(1e-6, 1e9), min_size=n, max_size=n)))
    model = fit(x, y, groups=((4, 5),), n_estimators=5)
    wild = np.vstack([x, 1e6 * x, -x])
    predicted = model.predict(wild)
    assert (predicted >= y.min() * (1 - 1e-9)).all() and (predicted <= y.max() * (1 + 1e-9)).all()
    rebuilt = LightTreesRegressor.from_state(model.to_state(), 6)
    assert rebuilt.predict(wild) == pytest.approx(predicted, rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_a_level_without_any_effect_has_no_negative_share(seed):
    random = np.random.default_rng(seed)
    nodes = np.repeat(np.arange(1.0, 6), 2)
    zone = np.tile(np.eye(2), (5, 1))
    y = random.uniform(1, 100) / nodes + random.uniform(0, 5)
    fitted = fit(np.column_stack([nodes, zone]), y, groups=((1, 2),), n_estimators=150)
    shares = fitted.importances()
    assert (shares >= 0).all()
    assert shares[1:] == pytest.approx(0, abs=1e-9)
    LightTreesRegressor.from_state(fitted.to_state(), 3)


def test_fewer_trees_are_the_first_of_many():
    random = np.random.default_rng(0)
    x, y = random.uniform(1, 9, (30, 2)), random.lognormal(0, 1, 30)
    new = random.uniform(1, 9, (50, 2))
    many = fit(x, y, n_estimators=60)
    for n_trees in (1, 25, 26, 60):  # some are grown together
        assert (many.at(n_trees).predict(new) == fit(x, y, n_estimators=n_trees).predict(new)).all()
