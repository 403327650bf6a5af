from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.model.techniques import State, TrainingRows
from foretell.model.techniques.laws.scaling_law import ScalingLawRegressor, ScalingLawTechnique
from foretell.testing import check_technique

NODES = np.array([1.0, 2, 4, 8, 16])


def fit(x, y, weight=None, groups=(), interactions=True, terms="few"):
    technique = ScalingLawTechnique()
    rows = TrainingRows(x, y, np.ones(len(y)) if weight is None else weight, groups)
    return technique.fit(
        technique.prepare(rows), {"interactions": interactions, "terms": terms}, seed=0
    )


def runs(n=60, seed=0):
    """Columns of a size and of nodes."""
    random = np.random.default_rng(seed)
    return np.column_stack([random.uniform(100, 1000, n), random.choice(NODES, n)])


def leveled(n=60, n_levels=3):
    x = runs(n)
    level = np.arange(n) % n_levels
    groups = (tuple(range(2, 2 + n_levels)),)
    return np.hstack([x, np.eye(n_levels)[level]]), level, groups


def test_contract():
    check_technique(ScalingLawTechnique)


def test_work_divided_among_nodes_is_found_and_extrapolates():
    x = runs()
    model = fit(x, 14.2 + 0.0312 * x[:, 0] / x[:, 1])
    new = np.array([[4000.0, 16], [4000, 1], [500, 64]])
    assert model.predict(new) == pytest.approx(14.2 + 0.0312 * new[:, 0] / new[:, 1], rel=0.02)


def test_a_sum_of_overheads_is_found_and_extrapolates():
    """A law that no power law is near: it falls, and rises again beyond what was measured."""
    random = np.random.default_rng(3)
    nodes = random.integers(1, 17, 240).astype(float)
    x = np.column_stack(
        [nodes, random.choice([10.0, 20, 40, 80], 240), np.eye(3)[np.arange(240) % 3]]
    )

    def time_s(x):
        n, speed = x[:, 0], x[:, 2:] @ [1.0, 1.6, 0.7]
        return 22 * x[:, 1] / speed / n + 3 * np.log2(n + 1) + 0.4 * n + 5

    model = fit(x, time_s(x) * random.lognormal(0, 0.05, 240), groups=((2, 3, 4),))
    beyond = x.copy()
    beyond[:, 0] = 64
    off = np.abs(model.predict(beyond) / time_s(beyond) - 1)
    assert off.mean() < 0.1


def test_levels_have_speeds_of_their_own():
    x, level, groups = leveled(90)
    y = 3 + x[:, 0] / x[:, 1] / np.array([1.0, 2.0, 5.0])[level]
    beyond = x * np.array([10.0, 1, 1, 1, 1])
    expected = 3 + beyond[:, 0] / x[:, 1] / np.array([1.0, 2.0, 5.0])[level]
    assert fit(x, y, groups=groups).predict(beyond) == pytest.approx(expected, rel=0.02)


def test_many_terms_at_once_grow_no_faster_than_the_columns():
    x = runs()
    y = 5 + x[:, 0] ** 2 / x[:, 1]
    far = np.array([[1e5, 1.0]])
    many, few = (fit(x, y, terms=terms).predict(far)[0] for terms in ("many", "few"))
    assert few == pytest.approx(1e10, rel=0.05)
    assert many < 0.2 * few


def test_formula_is_in_the_units_of_the_table():
    x = runs()
    model = fit(x, 14.2 + 0.0312 * x[:, 0] / x[:, 1])
    shown = model.formula(["data_mb", "nodes"], "time_s")
    assert shown.startswith("time_s ≈ ")
    assert "0.0312·data_mb/nodes" in shown
    assert "14.2" in shown


def test_formula_shows_six_terms_and_counts_the_rest():
    random = np.random.default_rng(1)
    x = random.uniform(1, 50, (200, 4))
    y = 5 + x[:, 0] / x[:, 1] + x[:, 2] * x[:, 3] * random.lognormal(0, 0.3, 200)
    shown = fit(x, y).formula("abcd", "t")
    assert shown.endswith("more terms")
    assert shown.count(" + ") - shown.count("(1 + ") == 6


def test_an_outlier_moves_little():
    x = runs()
    y = 10 + 0.05 * x[:, 0] / x[:, 1]
    spoiled = y.copy()
    spoiled[7] *= 10
    assert fit(x, spoiled).predict(x) == pytest.approx(y, rel=0.01)


def test_relative_errors_count_so_that_short_runs_are_not_lost_beside_long_ones():
    x = np.geomspace(1, 1e6, 40)[:, None]
    assert fit(x, 3 + 2 * x[:, 0]).predict(x) == pytest.approx(3 + 2 * x[:, 0], rel=0.01)


def test_weight_is_multiplicity():
    random = np.random.default_rng(2)
    x = runs(30)
    y = 20 + x[:, 0] / x[:, 1] * random.lognormal(0, 0.2, 30)
    light = fit(x, y).predict(x)
    assert fit(x, y, np.full(30, 2.0)).predict(x) == pytest.approx(light, rel=1e-6)
    twice, both = np.vstack([x, x]), np.concatenate([y, 2 * y])
    heavy = fit(twice, both, np.repeat([40.0, 1.0], 30)).predict(x)
    assert np.median(heavy / light) == pytest.approx(1, abs=0.1)


def test_few_rows_get_no_products_and_a_note_says_so():
    x = runs(10)
    model = fit(x, 5 + x[:, 0] / x[:, 1])
    assert (model.terms[:, 1:] == -1).all()
    assert "too few" in model.notes()[0]
    assert not fit(runs(11), np.arange(11) + 1.0).notes()


def test_many_levels_have_coefficients_of_their_own():
    x, level, groups = leveled(180, 60)
    y = 10 + level + 0.01 * x[:, 0]
    assert fit(x, y, groups=groups).predict(x) == pytest.approx(y, rel=0.1)


def test_interactions_can_be_turned_off():
    x = runs()
    model = fit(x, 5 + x[:, 0] / x[:, 1], interactions=False)
    assert (model.terms[:, 1:] == -1).all()
    assert not model.notes()


def test_level_never_seen_is_predicted_like_the_average_level():
    x, level, groups = leveled()
    model = fit(x, np.array([10.0, 20.0, 60.0])[level], groups=groups)
    assert model.predict(np.array([[500, 4, 0, 0, 0.0]])) == pytest.approx([30], rel=1e-6)


def test_levels_dropped_by_a_selection_are_fitted_together():
    x, level, _ = leveled()
    y = np.array([10.0, 30.0, 30.0])[level]
    model = fit(x[:, :3], y, groups=((2,),))
    assert model.predict(x[:, :3]) == pytest.approx(y, rel=1e-6)


def test_importances_go_to_the_columns_that_matter():
    random = np.random.default_rng(0)
    x = random.uniform(1, 100, (80, 3))
    shares = fit(x, 0.1 + x[:, 0] / x[:, 1]).importances()
    assert shares[2] < 0.05
    assert shares[0] == pytest.approx(shares[1], abs=0.05)


def test_constant_table_gives_the_constant():
    model = fit(np.ones((5, 2)), np.full(5, 7.0))
    assert model.predict(np.array([[1.0, 1], [3, 9]])) == pytest.approx([7, 7])
    assert model.importances() is None
    assert model.formula(["a", "b"], "t") == "t ≈ 7"


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan])
def test_target_must_be_positive(bad):
    with pytest.raises(ValueError, match="the target must be positive"):
        fit(runs(3), np.array([1.0, 2, bad]))


def test_solver_that_runs_in_circles_is_replaced(monkeypatch):
    x = runs()
    y = 14 + 0.03 * x[:, 0] / x[:, 1]

    def circle(*args, **kwargs):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr(scipy.optimize, "nnls", circle)
    assert fit(x, y).predict(x) == pytest.approx(y, rel=0.01)


def test_predictions_stay_positive_and_within_reach_of_the_data():
    x, level, groups = leveled()
    y = 1 + x[:, 0] / x[:, 1] + level
    model = fit(x, y, groups=groups)
    wild = np.array([[1e300, 1e-300, 0, 0, 0], [-5, -5, 1, 1, 1], [0, 0, 0, 0, 0]])
    reach = 2 * np.log(y.max() / y.min()) + 1
    predicted = np.log(model.predict(wild))
    assert (predicted >= np.log(y.min()) - reach - 1e-9).all()
    assert (predicted <= np.log(y.max()) + reach + 1e-9).all()


columns = st.lists(
    st.one_of(st.integers(-3, 3), st.floats(1e-6, 1e9), st.just(0)), min_size=3, max_size=12
)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_table_gives_finite_positive_predictions_that_survive_saving(data):
    values = np.array(data.draw(columns), dtype=float)
    n = len(values)
    x = np.column_stack(
        [values, values, np.full(n, 4.0), np.roll(values, 1), np.eye(2)[np.arange(n) % 2]]
    )
    y = np.array(data.draw(st.lists(st.floats(1e-6, 1e9), min_size=n, max_size=n)))
    model = fit(x, y, groups=((4, 5),))
    predicted = model.predict(x)
    assert np.isfinite(predicted).all() and (predicted > 0).all()
    rebuilt = ScalingLawRegressor.from_state(model.to_state(), 6)
    assert np.array_equal(rebuilt.predict(x), predicted)


def test_hostile_states_are_refused():
    x = runs()
    state = fit(x, 5 + x[:, 0]).to_state()

    def refused(values=None, **arrays):
        arrays = {name.replace("__", "/"): array for name, array in arrays.items()}
        hostile = State({**state.values, **(values or {})}, {**state.arrays, **arrays})
        with pytest.raises(ValueError):
            ScalingLawRegressor.from_state(hostile, 2)

    refused(terms=np.full_like(state.arrays["terms"], 99))
    refused(terms=np.full_like(state.arrays["terms"], -2))
    refused(laws=-state.arrays["laws"] - 1)
    refused(evidence=-state.arrays["evidence"])
    refused(contributions=-state.arrays["contributions"] - 1)
    refused(axes__mean=np.full(2, 1e6))
    refused(axes__second=np.array([0, -1]))
    refused(axes__second=np.array([-7, -1]))
    refused(axes__high=state.arrays["axes/low"])
    refused({"low": -1.0})
    refused({"low": 2.0, "high": 1.0})


def test_a_term_that_stands_twice_is_refused_as_a_small_file_could_ask_for_gigabytes():
    x = runs()
    state = fit(x, 14.2 + 0.0312 * x[:, 0] / x[:, 1]).to_state()
    names = ("terms", "contributions")
    twice = {n: np.concatenate([state.arrays[n]] * 2) for n in names}
    twice["laws"] = np.hstack([state.arrays["laws"]] * 2)
    with pytest.raises(ValueError, match="stands twice"):
        ScalingLawRegressor.from_state(State(state.values, {**state.arrays, **twice}), 2)
