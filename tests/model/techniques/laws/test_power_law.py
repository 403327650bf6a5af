from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.model.techniques import State, TrainingRows
from foretell.model.techniques.laws.power_law import (
    PowerLawRegressor,
    PowerLawTechnique,
    outlier_weights,
)
from foretell.testing import check_technique

NAMES = ["data_mb", "nodes", "machine=c4", "machine=m4", "machine=r4"]
FACTORS = np.array([0.5, 1.0, 2.0])


def fit(x, y, penalty=1.0, weight=None, groups=()):
    technique = PowerLawTechnique()
    rows = TrainingRows(x, y, np.ones(len(y)) if weight is None else weight, groups)
    return technique.fit(technique.prepare(rows), {"penalty": penalty}, seed=0)


def law(n=60):
    random = np.random.default_rng(0)
    x = np.column_stack([random.uniform(100, 1000, n), random.choice([1.0, 2, 4, 8], n)])
    return x, 3.2 * x[:, 0] ** 0.98 * x[:, 1] ** -0.71


def leveled(n=60):
    x, y = law(n)
    level = np.arange(n) % 3
    return np.hstack([x, np.eye(3)[level]]), y * FACTORS[level], ((2, 3, 4),)


def test_contract():
    check_technique(PowerLawTechnique)


def test_exponents_are_recovered_and_extrapolate():
    x, y = law()
    model = fit(x, y, penalty=0)
    assert model.slopes / model.axes.deviation == pytest.approx([0.98, -0.71], rel=1e-9)
    assert model.predict(4 * x) == pytest.approx(y * 4**0.27, rel=1e-9)


def test_formula_names_factor_exponents_and_levels():
    x, y, groups = leveled()
    shown = fit(x, y, penalty=0, groups=groups).formula(NAMES, "time_s")
    assert shown == (
        "time_s ≈ 3.2·data_mb^0.98·nodes^-0.71·(machine=c4: 0.5, machine=m4: 1, machine=r4: 2)"
    )


def test_columns_without_a_logarithm_are_rates():
    x = np.linspace(-2, 3, 30)[:, None]
    model = fit(x, 5 * np.exp(0.3 * x[:, 0]), penalty=0)
    assert model.formula(["temperature"], "t") == "t ≈ 5·exp(0.3·temperature)"


def test_long_lists_of_levels_are_cut():
    level = np.arange(120) % 60
    model = fit(np.eye(60)[level], 1.0 + level, groups=(tuple(range(60)),))
    assert "and 54 more)" in model.formula([f"m={i}" for i in range(60)], "t")
    assert model.predict(np.eye(60)) == pytest.approx(1.0 + np.arange(60), rel=0.05)


def test_level_never_seen_counts_as_the_average():
    x, y, groups = leveled()
    model = fit(x, y, penalty=0, groups=groups)
    new = np.array([[500, 4, 0, 0, 0.0]])
    assert model.predict(new) == pytest.approx(3.2 * 500**0.98 * 4**-0.71, rel=1e-6)


def test_levels_dropped_by_a_selection_stay_apart_from_those_kept():
    x, y, _ = leveled()
    y = np.where(x[:, 2] == 1, 10.0, 40.0)
    model = fit(x[:, :3], y, penalty=0, groups=((2,),))
    assert model.predict(x[:, :3]) == pytest.approx(y, rel=1e-6)


def test_outliers_move_little():
    x, y = law()
    spoiled = y.copy()
    spoiled[:3] *= 20
    assert fit(x, spoiled, penalty=0).predict(x) == pytest.approx(y, rel=0.02)


def test_penalty_shrinks_the_exponents():
    x, y = law()
    sizes = [np.abs(fit(x, y, penalty).slopes).sum() for penalty in (0, 1, 100)]
    assert sizes[0] > sizes[1] > sizes[2]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.05)
    with pytest.raises(ValueError, match="at least 0"):
        PowerLawTechnique.hyperparameters[0].read(-1)


def test_weight_is_multiplicity():
    random = np.random.default_rng(1)
    x, y = law(20)
    y = y * random.lognormal(0, 0.2, 20)
    heavy = fit(x, y, 0, np.where(np.arange(20) < 10, 40.0, 1.0))
    light = fit(x, y, 0)
    off = np.abs(np.log(np.array([heavy.predict(x), light.predict(x)]) / y))[:, :10].mean(axis=1)
    assert off[0] < off[1]


def test_student_weights_count_rows_as_often_as_they_stand_for():
    error = np.array([0.1, -0.2, 0.4, 3.0])
    count = np.array([3, 1, 2, 1])
    repeated = outlier_weights(np.repeat(error, count), np.ones(7))
    merged = outlier_weights(error, count.astype(float))
    assert merged == pytest.approx(repeated[np.cumsum(count) - 1])
    assert merged[-1] < 0.1


def test_importances_follow_what_moves_predictions():
    random = np.random.default_rng(0)
    x = random.uniform(1, 100, (80, 3))
    shares = fit(x, x[:, 0] ** 2 / x[:, 1]).importances()
    assert shares[0] > 1.5 * shares[1] > 100 * shares[2]


def test_constant_table_gives_the_constant():
    model = fit(np.ones((4, 2)), np.full(4, 7.0))
    assert model.predict(np.array([[1.0, 1], [3, 9]])) == pytest.approx([7, 7])
    assert model.importances() is None


def test_target_must_be_positive():
    with pytest.raises(ValueError, match="the target must be positive"):
        fit(np.ones((2, 1)), np.array([1.0, 0.0]))


columns = st.lists(
    st.one_of(st.integers(-3, 3), st.floats(1e-6, 1e9), st.just(0)), min_size=3, max_size=12
)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_table_gives_finite_positive_predictions_that_survive_saving(data):
    values = np.array(data.draw(columns), dtype=float)
    n = len(values)
    levels = np.eye(2)[np.arange(n) % 2]
    x = np.column_stack([values, values, np.full(n, 4.0), np.roll(values, 1), levels])
    y = np.array(data.draw(st.lists(st.floats(1e-6, 1e9), min_size=n, max_size=n)))
    model = fit(x, y, penalty=data.draw(st.sampled_from([0.0, 1.0])), groups=((4, 5),))
    wild = np.vstack([x, 1e6 * x, -x])
    predicted = model.predict(wild)
    assert np.isfinite(predicted).all() and (predicted > 0).all()
    rebuilt = PowerLawRegressor.from_state(model.to_state(), 6)
    assert np.array_equal(rebuilt.predict(wild), predicted)


def test_hostile_states_are_refused():
    x, y = law()
    state = fit(x, y).to_state()
    for arrays in ({"shares": np.array([2.0, -1.0])}, {"axes/second": np.array([1, -1])}):
        with pytest.raises(ValueError):
            PowerLawRegressor.from_state(State(state.values, {**state.arrays, **arrays}), 2)
    with pytest.raises(ValueError):
        PowerLawRegressor.from_state(State({**state.values, "low": 0.0}, state.arrays), 2)


def test_a_column_without_any_effect_has_no_factor_of_rounding_errors():
    nodes, size = (a.ravel() for a in np.meshgrid([1.0, 2, 4, 8], [10.0, 20, 40]))
    x = np.repeat(np.column_stack([nodes, size]), 2, axis=0)
    x = np.column_stack([x, np.tile(np.eye(2), (len(nodes), 1))])
    fitted = fit(x, 50 / x[:, 0], groups=((2, 3),))
    assert fitted.importances() == pytest.approx([1, 0, 0, 0], abs=0)
    assert "size" not in fitted.formula(["nodes", "size", "zone=a", "zone=b"], "time_s")
    assert "zone" not in fitted.formula(["nodes", "size", "zone=a", "zone=b"], "time_s")
