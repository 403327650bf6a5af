import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator

from foretell import ForetellRegressor

QUICK = {"techniques": {"LRRidge": {"alpha": [0.01, 1]}, "DecisionTree": {"max_depth": [4, 8]}}}


#: Checks in which the mode matters. The others look at the same code in both modes, and take
#: minutes in automatic mode.
OF_BOTH_MODES = {
    "check_dtype_object", "check_estimators_dtypes", "check_estimators_nan_inf",
    "check_fit2d_1feature", "check_fit2d_1sample", "check_fit_idempotent", "check_regressors_int",
    "check_regressors_train",
}  # fmt: skip

NOT_RUN = {"check_array_api_input"}  # scikit-learn skips it unless it dispatches array libraries


def checks(estimator, names=None):
    """List scikit-learn's checks of an estimator, or those of some names."""
    return [
        pytest.param(one, check, id=f"{check.func.__name__}-{number}")
        for number, (one, check) in enumerate(estimator_checks_generator(estimator))
        if check.func.__name__ in (names or {check.func.__name__} - NOT_RUN)
    ]


@pytest.mark.parametrize("estimator, check", checks(ForetellRegressor(QUICK)))
def test_scikit_learn_checks_with_a_campaign(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator, check", checks(ForetellRegressor(), OF_BOTH_MODES))
def test_scikit_learn_checks_in_automatic_mode(estimator, check):
    check(estimator)


def runs(n=60, seed=0, noise=0.1):
    random = np.random.default_rng(seed)
    X = pd.DataFrame({"nodes": random.integers(1, 9, n), "machine": random.choice(["m4", "c4"], n)})
    slower = np.where(X["machine"] == "m4", 1.0, 2.0)
    return X, (10 + 80 / X["nodes"]) * slower * random.lognormal(0, noise, n)


def test_default_is_automatic_mode():
    nodes = np.tile([1.0, 2, 3, 4, 6, 8], 4)[:, None]
    time_s = 10 + 80 / nodes[:, 0]
    model = ForetellRegressor().fit(nodes, time_s)
    assert model.model_.technique == "Ensemble"
    assert model.predict(nodes) == pytest.approx(time_s, rel=0.05)


@pytest.mark.parametrize("campaign", [None, QUICK])
def test_columns_of_text_are_categories(campaign):
    X, y = runs()
    model = ForetellRegressor(campaign).fit(X, y)
    assert set(model.model_.categories) == {"machine"}
    rows = pd.DataFrame({"nodes": [4, 4], "machine": ["m4", "c4"]})
    fast, slow = model.predict(rows)
    assert slow / fast == pytest.approx(2, rel=0.15)
    assert model.n_features_in_ == 2
    with pytest.raises(ValueError, match="feature names"):
        model.predict(rows.rename(columns={"machine": "kind"}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: (X, y[:-1]), "inconsistent"),
        (lambda X, y: (X, [*y[:-1], np.nan]), "NaN"),
        (lambda X, y: (X.replace("m4", None), y), "missing"),
    ],
)
def test_bad_rows_beside_text_are_value_errors(change, words):
    with pytest.raises(ValueError, match=words):
        ForetellRegressor(QUICK).fit(*change(*runs(20)))


@pytest.mark.parametrize("campaign", [None, QUICK])
@pytest.mark.parametrize(
    "bad", [{"nodes": [np.nan]}, {"machine": [None]}, {"nodes": ["x"]}, {"nodes": [0]}], ids=str
)
def test_bad_rows_to_predict_are_value_errors(campaign, bad):
    model = ForetellRegressor(campaign).fit(*runs())
    rows = pd.DataFrame({"nodes": [4], "machine": ["m4"], **bad})
    for method in (model.predict, model.forecast):
        with pytest.raises(ValueError, match=next(iter(bad))):
            method(rows)


@pytest.mark.parametrize(
    "campaign", [None, {"techniques": {"DecisionTree": {"max_depth": 30, "min_samples_leaf": 1}}}]
)
def test_forecasts_tell_the_errors_on_new_rows_and_never_training_errors(campaign):
    random = np.random.default_rng(0)
    x = random.uniform(1, 9, (80, 1))
    y = (10 + 80 / x[:, 0]) * random.lognormal(0, 0.2, 80)
    model = ForetellRegressor(campaign).fit(x, y)
    if campaign is not None:
        assert model.predict(x) == pytest.approx(y)  # it learned every row by heart
    new = random.uniform(1.2, 8.8, (1000, 1))
    truth = (10 + 80 / new[:, 0]) * random.lognormal(0, 0.2, 1000)
    found = model.forecast(new, 0.9)
    assert np.nanmedian(found.expected_error) > 0.1
    assert ((found.lower <= truth) & (truth <= found.upper)).mean() > 0.8


def test_column_names_of_a_frame_are_kept():
    frame = pd.DataFrame({"nodes": [1.0, 2, 4, 8], "size": [1.0, 1, 2, 2]})
    model = ForetellRegressor(QUICK).fit(frame, [9.0, 5, 6, 4])
    assert model.model_.columns == ["nodes", "size"]


def test_works_inside_a_pipeline_and_cross_validation():
    random = np.random.default_rng(0)
    x = random.uniform(1, 10, (40, 2))
    y = 3 * x[:, 0] + x[:, 1]
    for campaign in (None, QUICK):
        pipeline = make_pipeline(FunctionTransformer(), ForetellRegressor(campaign))
        assert cross_val_score(pipeline, x, y, cv=3).min() > 0.9


def test_wrong_option_is_a_value_error_that_says_so():
    wrong = {"techniques": {"LRRidg": {}}}
    with pytest.raises(ValueError, match="'LRRidg'"):
        ForetellRegressor(wrong).fit(np.arange(6.0)[:, None], np.arange(6.0))


@pytest.mark.parametrize("campaign", ["auto", ["LRRidge"], 3])
def test_campaign_of_another_type_is_refused_by_name(campaign):
    with pytest.raises(ValueError, match=r"campaign must be None.* or a dict"):
        ForetellRegressor(campaign).fit(np.arange(6.0)[:, None], np.arange(6.0))


def test_automatic_mode_refuses_targets_that_are_not_positive():
    with pytest.raises(ValueError, match=r'positive .*use a campaign with score = "rmse"'):
        ForetellRegressor().fit(np.arange(6.0)[:, None], np.arange(6.0) - 3)


def test_positive_targets_are_ranked_by_relative_error_and_others_by_rmse():
    x = np.arange(12.0)[:, None]
    assert ForetellRegressor(QUICK).fit(x, x[:, 0] + 1).fit_.campaign.score == "mape"
    assert ForetellRegressor(QUICK).fit(x, x[:, 0] - 5).fit_.campaign.score == "rmse"


def test_feature_named_as_the_target_is_kept():
    target = np.tile([1.0, 2, 3, 4], 4)
    frame = pd.DataFrame({"target": target, "target_": target**2})
    ridge = {"techniques": {"LRRidge": {"alpha": 1e-6}}}
    model = ForetellRegressor(ridge).fit(frame, 10 + 5 * target)
    assert model.model_.columns == ["target", "target_"]
    assert model.predict(frame) == pytest.approx(10 + 5 * target, rel=1e-3)


def test_random_state_may_be_none_or_a_generator():
    x = np.arange(12.0)[:, None]

    def seed(state):
        return ForetellRegressor(QUICK, random_state=state).fit(x, x[:, 0] + 1).fit_.campaign.seed

    np.random.seed(3)
    first, second = seed(None), seed(None)
    np.random.seed(3)
    assert first == seed(None) != second
    assert seed(np.random.RandomState(1)) == seed(np.random.RandomState(1))
    assert seed(np.int64(5)) == 5
