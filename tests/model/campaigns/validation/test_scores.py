import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from foretell.model.campaigns.validation.scores import score

positive = st.floats(0.01, 1e6)
pairs = st.lists(st.tuples(positive, positive), min_size=2, max_size=30)


@given(pairs)
def test_mape_rmse_and_r2_are_those_of_scikit_learn(rows):
    truth, prediction = np.array(rows).T
    scores = score(truth, prediction)
    expected = metrics.mean_absolute_percentage_error(truth, prediction)
    assert scores.mape == pytest.approx(expected)
    assert scores.rmse == pytest.approx(metrics.root_mean_squared_error(truth, prediction))
    if np.ptp(truth) > 1e-6 * truth.max():
        assert scores.r2 == pytest.approx(metrics.r2_score(truth, prediction), rel=1e-6, abs=1e-6)


def test_median_and_90th_percentile_show_the_tail_a_mean_hides():
    truth = np.full(11, 100.0)
    prediction = np.array([101.0] * 10 + [300.0])
    scores = score(truth, prediction)
    assert scores.median_ape == pytest.approx(0.01)
    assert scores.p90_ape == pytest.approx(0.01)
    assert scores.mape == pytest.approx((10 * 0.01 + 2) / 11)


def test_r2_of_one_row_is_undefined_and_no_crash():
    scores = score(np.array([2.0]), np.array([1.0]))
    assert np.isnan(scores.r2)
    assert scores.to_json()["r2"] is None
    assert scores.mape == 0.5


def test_relative_errors_are_undefined_where_the_truth_is_zero():
    scores = score(np.array([0.0, 1.0]), np.array([1.0, 1.0]))
    assert np.isnan(scores.mape)
    assert scores.rmse == pytest.approx(np.sqrt(0.5))


def test_scores_beyond_the_largest_number_are_plain_json_and_no_warning(recwarn):
    scores = score(np.array([1e200, 2e200]), np.array([2e200, 2e200]))
    assert scores.to_json() == pytest.approx(
        {"mape": 0.5, "rmse": None, "r2": None, "median_ape": 0.5, "p90_ape": 0.9}
    )
    assert not recwarn
