"""The process of log times: its covariance, its fit, the cleaning before it, and the technique."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.model.techniques import TrainingRows, complete
from foretell.model.techniques.points.axes import Axes
from foretell.model.techniques.points.merging import best_shift, merge, merge_robustly
from foretell.model.techniques.processes import log_gp
from foretell.model.techniques.processes._kernel import FORMS, Kernel, Training
from foretell.model.techniques.processes._process import (
    Points,
    Process,
    _cost,
    _posterior,
    fit_process,
)
from foretell.model.techniques.processes.log_gp import LogGPRegressor, LogGPTechnique, find_totals

GROUPS = ((2, 3, 4),)


def table(n=14, seed=0):
    """A size, nodes, and a category of three levels."""
    random = np.random.default_rng(seed)
    x = np.column_stack([random.uniform(10, 100, n), random.choice([1.0, 2, 4, 8], n)])
    return np.hstack([x, np.eye(3)[random.integers(0, 3, n)]])


def points(n=14, seed=0, noise=0.05):
    x = table(n, seed)
    log_y = np.log(5 + x[:, 0] / x[:, 1]) + 0.3 * x[:, 3]
    log_y += np.random.default_rng(seed + 1).normal(0, noise, n)
    weight = np.random.default_rng(seed + 2).integers(1, 4, n).astype(float)
    return Points(x, log_y, weight, GROUPS)


def training(form, data, products=((0, 1),)):
    kernel = Kernel(Axes.of(data.x, data.groups, products), FORMS[form])
    return kernel, Training(kernel, kernel.coordinates(data.x), data.weight)


def somewhere(kernel, seed=0):
    """Return parameters near the prior, but at no special place."""
    return kernel.median + 0.3 * np.random.default_rng(seed).normal(size=len(kernel.median))


def standardized(log_y):
    return (log_y - log_y.mean()) / log_y.std()


# The covariance


@pytest.mark.parametrize("form", FORMS)
def test_gradient_of_the_cost_is_what_small_steps_say(form):
    data = points()
    kernel, rows = training(form, data)
    values, theta = standardized(data.log_y), somewhere(kernel)
    _, gradient = _cost(rows, values, theta)
    step = 1e-5
    for i in range(len(theta)):
        aside = np.eye(len(theta))[i] * step
        above, below = (_cost(rows, values, theta + s * aside)[0] for s in (1, -1))
        assert gradient[i] == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-6), i


@pytest.mark.parametrize("form", FORMS)
def test_covariance_is_symmetric_and_positive_definite(form):
    data = points()
    kernel, rows = training(form, data)
    covariance, _ = rows.covariance(somewhere(kernel))
    assert covariance == pytest.approx(covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > 0


@pytest.mark.parametrize("form", FORMS)
def test_prediction_of_new_rows_has_the_covariance_of_training_rows(form):
    """Predictions sum the trend in closed form; the covariance among training rows does not."""
    data = points()
    kernel, rows = training(form, data)
    theta = somewhere(kernel)
    covariance, _ = rows.covariance(theta)
    without_noise = covariance - np.diag(rows.noise(theta))
    alpha = np.random.default_rng(3).normal(size=len(data))
    process = Process(form, kernel.axes, theta, data.x, alpha, 0.0, 1.0)
    assert process.predict(data.x) == pytest.approx(without_noise @ alpha)


@pytest.mark.parametrize("form", FORMS)
def test_each_value_predicted_from_the_others_is_as_if_it_was_really_left_out(form):
    data = points()
    kernel, rows = training(form, data)
    values, theta = standardized(data.log_y), somewhere(kernel)
    _, left_out = _posterior(rows, values, theta)
    for i in range(len(data)):
        others = np.arange(len(data)) != i
        part = data.take(others)
        fewer = Training(kernel, kernel.coordinates(part.x), part.weight)
        alpha, _ = _posterior(fewer, values[others], theta)
        process = Process(form, kernel.axes, theta, part.x, alpha, 0.0, 1.0)
        assert left_out[i] == pytest.approx(process.predict(data.x[i : i + 1])[0], abs=1e-8)


def test_far_outside_only_the_trend_goes_on():
    """In logarithms and without curves and products, a trend is straight."""
    data = points()
    process = fit_process(data, "residual").process
    x = np.repeat(data.x[:1], 3, axis=0)
    x[:, 0] = 1e4 * np.array([1.0, 10, 100])
    near, middle, far = process.predict(x)
    assert far - middle == pytest.approx(middle - near, abs=1e-9)


def test_rows_may_be_predicted_in_any_company():
    data = points(40)
    process = fit_process(data, "smooth").process
    together = process.predict(data.x)
    alone = np.concatenate([process.predict(data.x[i : i + 1]) for i in range(40)])
    assert together == pytest.approx(alone, abs=1e-9)
    assert process.predict(data.x[:0]).shape == (0,)


# Merging and cleaning


def rows(x, y, weight=None, groups=()):
    return TrainingRows(x, y, np.ones(len(y)) if weight is None else weight, groups)


def repeated(n_repeats=3, noise=0.02, seed=0):
    """Runs of a law on a grid, each repeated, and their true values."""
    random = np.random.default_rng(seed)
    grid = np.array([(s, n) for s in (10.0, 20, 40, 80) for n in (1.0, 2, 4, 8)])
    x = np.repeat(grid, n_repeats, axis=0)
    truth = 5 + 3 * x[:, 0] / x[:, 1]
    return x, truth, truth * random.lognormal(0, noise, len(x))


def test_repeats_are_merged_to_their_median_in_order_of_appearance():
    x = np.array([[3.0], [1.0], [3.0], [3.0], [1.0]])
    found, point = merge(rows(x, np.exp([1.0, 5, 9, 2, 7])))
    assert found.x.ravel().tolist() == [3, 1]
    assert found.log_y == pytest.approx([2, 6])
    assert found.weight.tolist() == [3, 2]
    assert point.tolist() == [0, 1, 0, 0, 1]


def test_noise_is_told_by_repeats():
    x, _, y = repeated(n_repeats=8, noise=0.1, seed=1)
    assert merge(rows(x, y))[0].noise == pytest.approx(0.1, rel=0.2)
    single, _ = merge(rows(x[::8], y[::8]))
    assert single.noise is None


def test_outliers_weigh_little_and_ordinary_runs_fully():
    x, _, y = repeated(n_repeats=2)
    wild = [3, 17]
    y[wild] *= 5
    merged = merge_robustly(rows(x, y))
    weight = merged.points.weight
    spoiled = merged.point[wild]
    others = np.setdiff1d(np.arange(16), spoiled)
    assert (weight[spoiled] < 1.2).all()  # of two runs
    assert np.median(weight[others]) > 1.5
    assert (weight <= 2 + 1e-12).all()


def test_the_value_of_a_configuration_is_that_of_its_sound_runs():
    x, truth, y = repeated(n_repeats=3)
    y[[0, 20, 40]] *= 5
    merged = merge_robustly(rows(x, y))
    assert np.exp(merged.points.log_y) == pytest.approx(truth[::3], rel=0.05)


def test_runs_that_count_often_weigh_as_many():
    x, _, y = repeated(n_repeats=1)
    single = merge_robustly(rows(x, y)).points.weight
    triple = merge_robustly(rows(x, y, np.full(len(y), 3.0))).points.weight
    assert triple == pytest.approx(3 * single, rel=0.2)


def test_target_must_be_positive():
    with pytest.raises(ValueError, match="must be positive"):
        merge(rows(np.ones((3, 1)), np.array([1.0, 0.0, 2.0])))


def test_the_shift_is_downward_for_noise_as_too_high_is_punished_more():
    residuals = np.random.default_rng(0).normal(0, 0.5, 500)
    shift = best_shift(residuals)

    def error(shift):
        return np.abs(1 - np.exp(shift - residuals)).mean()

    assert -0.05 <= shift < -0.04  # no further than 5 %, whatever the noise
    assert error(shift) < 0.98 * error(0)


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=40))
def test_the_shift_moves_no_further_than_some_run(residuals):
    shift = best_shift(np.array(residuals))
    assert min(0, *residuals) <= shift <= max(0, *residuals)


def test_a_column_over_many_decades_has_a_process():
    random = np.random.default_rng(0)
    x = np.column_stack([10.0 ** random.integers(0, 13, 40), random.choice([1.0, 2, 4], 40)])
    truth = 1e-3 + 1e-9 * x[:, 0] / x[:, 1]
    model = fit(x, truth * random.lognormal(0, 0.02, 40))
    assert np.median(np.abs(model.predict(x) / truth - 1)) < 0.1


# The technique


def fit(x, y, groups=(), seed=0, **params):
    technique = LogGPTechnique()
    params = {"form": "smooth", "totals": True, "beyond": "trend", **params}
    return technique.fit(technique.prepare(rows(x, y, groups=groups)), params, seed)


def test_a_power_law_goes_on_outside_the_data():
    x, _, _ = repeated(n_repeats=1)
    y = 2 * x[:, 0] ** 1.5 / x[:, 1] ** 0.7
    new = np.array([[160.0, 8], [80, 16], [5, 1]])
    assert fit(x, y).predict(new) == pytest.approx(
        2 * new[:, 0] ** 1.5 / new[:, 1] ** 0.7, rel=0.05
    )


@pytest.mark.parametrize("form", ["smooth", "rough", "sparse"])
def test_every_form_follows_the_data_it_was_fitted_on(form):
    x, truth, y = repeated()
    assert fit(x, y, form=form).predict(x) == pytest.approx(truth, rel=0.06)


def test_levels_differ_and_one_never_seen_lies_among_them():
    random = np.random.default_rng(0)
    level = np.arange(36) % 3
    x = np.hstack([random.uniform(10, 100, (36, 1)), np.eye(3)[level]])
    y = x[:, 0] * np.array([1.0, 2.0, 4.0])[level]
    model = fit(x, y, groups=((1, 2, 3),))
    assert model.predict(x) == pytest.approx(y, rel=0.03)
    unknown = model.predict(np.array([[50.0, 0, 0, 0]]))[0]
    assert 50 < unknown < 200


def cliff(n=60):
    """Nodes, memory of each, and a time that leaps where all memory together is too small."""
    random = np.random.default_rng(0)
    x = np.column_stack([random.uniform(1, 16, n), random.uniform(1, 16, n)])
    smooth = 100 / np.sqrt(x[:, 0])
    return x, smooth * np.where(x[:, 0] * x[:, 1] < 30, 8.0, 1.0)


def test_a_cliff_in_a_total_is_seen_in_that_total():
    x, y = cliff()
    points = Points(x, np.log(y), np.ones(len(y)))
    assert (0, 1) in find_totals(points, seed=0)


def test_without_a_cliff_no_total_is_needed():
    x, _, y = repeated()
    merged, _ = merge(rows(x, y))
    assert find_totals(merged, seed=0) == ()


def test_a_flat_process_stays_beyond_the_data_what_it_was_at_the_border():
    x = np.array([[1.0], [2.0], [4.0], [8.0], [16.0]])
    model = fit(x, 80 / x[:, 0], beyond="flat")
    border, far, inside = model.predict(np.array([[16.0], [64.0], [4.0]]))
    assert far == border < inside
    rebuilt = LogGPRegressor.from_state(model.to_state(), 1)
    assert rebuilt.predict(np.array([[64.0]])) == pytest.approx(far, rel=1e-12)


def test_totals_are_left_out_on_request():
    x, y = cliff(40)
    assert fit(x, y, totals=False).totals == ()


def test_a_total_that_is_a_column_by_itself_is_none():
    x, y = cliff(40)
    twice = np.column_stack([x[:, 0], 8 * x[:, 0]])
    assert find_totals(Points(twice, np.log(y), np.ones(len(y))), seed=0) == ()


def test_predictions_stay_within_reason_however_far():
    x, _, y = repeated(n_repeats=1)
    wild = np.array([[1e300, 1e-300], [0, 0], [-1e9, 1e9]])
    predicted = fit(x, y).predict(wild)
    assert np.isfinite(predicted).all()
    assert (predicted > 0).all()


def test_refit_on_fewer_rows_starts_from_the_parameters_there_are():
    x, truth, y = repeated()
    technique = LogGPTechnique()
    whole = fit(x, y, totals=False)
    few = slice(0, 30)
    params = {"form": "smooth", "totals": False, "beyond": "trend"}
    again = technique.refit(rows(x[few], y[few]), params, 0, whole)
    assert again.predict(x[few]) == pytest.approx(truth[few], rel=0.06)
    assert again.totals == whole.totals


def test_shares_name_the_column_that_matters():
    random = np.random.default_rng(0)
    x = random.uniform(1, 50, (40, 2))
    shares = fit(x, x[:, 1] ** 2).importances()
    assert shares.sum() == pytest.approx(1)
    assert shares[1] > 0.95


def test_bounds_out_of_order_are_refused():
    x, _, y = repeated(n_repeats=1)
    model = replace(fit(x, y, totals=False), low=5.0, high=1.0)
    with pytest.raises(ValueError, match="out of order"):
        LogGPRegressor.from_state(model.to_state(), 2)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_any_small_table_gives_positive_predictions_and_survives_saving(data):
    column = st.one_of(st.integers(-3, 3).map(float), st.floats(1e-3, 1e6), st.just(0.0))
    values = np.array(data.draw(st.lists(column, min_size=3, max_size=8)))
    n = len(values)
    x = np.column_stack([values, 8 * values, np.full(n, 4.0), np.eye(2)[np.arange(n) % 2]])
    y = np.array(data.draw(st.lists(st.floats(1e-3, 1e6), min_size=n, max_size=n)))
    model = fit(x, y, groups=((3, 4),))
    wild = np.vstack([x, 1e3 * x, -x])
    predicted = model.predict(wild)
    assert np.isfinite(predicted).all()
    assert (predicted > 0).all()
    rebuilt = LogGPRegressor.from_state(model.to_state(), 5)
    assert np.array_equal(rebuilt.predict(wild), predicted)


def wide(n_columns, n_rows=12):
    random = np.random.default_rng(0)
    x = random.uniform(1, 100, (n_rows, n_columns))
    return Points(x, np.log(5 + 3 * x[:, 0] / x[:, 1]), np.ones(n_rows))


@pytest.mark.parametrize("n_columns", [30, 400, 1500])
def test_shares_of_many_columns_take_bounded_work(n_columns, monkeypatch):
    points = wide(n_columns)
    process = fit_process(points, "smooth", most_steps=1).process
    fitted = LogGPRegressor(process, 0.0, 0.0, -10, 10)
    n_predicted = []
    predict = Process.predict
    monkeypatch.setattr(
        Process, "predict", lambda self, x: n_predicted.append(len(x)) or predict(self, x)
    )
    shares = fitted.importances()
    n_correlations = sum(n_predicted) * len(points) * n_columns
    assert n_correlations < 2 * log_gp._MOST_WORK
    assert len(n_predicted) < 100
    assert shares.sum() == pytest.approx(1)


@pytest.mark.parametrize("n_columns", [4, 400])
def test_the_trend_of_wide_and_narrow_tables_is_that_of_the_covariance(n_columns):
    points = wide(n_columns)
    process = fit_process(points, "smooth", most_steps=1).process
    new = wide(n_columns, 20).x[12:]
    kernel = process.kernel
    both = kernel.coordinates(np.vstack([new, points.x]))
    _, parts = Training(kernel, both, np.ones(len(both.z))).covariance(process.theta)
    expected = (4 + parts.trend + parts.pairs)[: len(new), len(new) :] @ process.alpha
    trend = process._trend.at(kernel.coordinates(new).trend)
    np.testing.assert_allclose(trend, expected, rtol=1e-8, atol=1e-8)


def test_of_too_many_pairs_of_columns_none_is_tried_as_a_total(monkeypatch):
    fits = []
    monkeypatch.setattr(log_gp, "fit_process", lambda *args, **_: fits.append(args))
    assert find_totals(wide(400), seed=0) == ()
    assert fits == []


def test_members_that_differ_beyond_the_data_alone_are_fitted_once(monkeypatch):
    technique, rows = LogGPTechnique(), points(30).as_rows()
    start = technique.fit(rows, complete(technique, {}), seed=0)
    fits = []
    monkeypatch.setattr(
        log_gp,
        "fit_process",
        lambda *args, **kwargs: fits.append(0) or fit_process(*args, **kwargs),
    )
    trend, flat, other = (
        technique.refit(rows, complete(technique, {"beyond": beyond}), seed, start)
        for beyond, seed in (("trend", 0), ("flat", 0), ("trend", 1))
    )
    assert trend.process is flat.process
    assert (trend.is_flat, flat.is_flat) == (False, True)
    assert other.process is not trend.process
    assert len(fits) == 2
