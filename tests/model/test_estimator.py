import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from foretell import ForetellRegressor

QUICK = {"LRRidge": {"alpha": [0.01, 1]}, "DecisionTree": {"max_depth": [4, 8]}}


@parametrize_with_checks([ForetellRegressor(techniques=QUICK)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_default_techniques_learn_a_law():
    nodes = np.tile([1.0, 2, 3, 4, 6, 8], 4)[:, None]
    time_s = 10 + 80 / nodes[:, 0]
    model = ForetellRegressor(features={"inverse": ["*"]}).fit(nodes, time_s)
    assert model.predict(nodes) == pytest.approx(time_s, rel=0.05)


def test_column_names_of_a_frame_are_kept():
    frame = pd.DataFrame({"nodes": [1.0, 2, 4, 8], "size": [1.0, 1, 2, 2]})
    model = ForetellRegressor(QUICK).fit(frame, [9.0, 5, 6, 4])
    assert model.model_.columns == ["nodes", "size"]


def test_works_inside_a_pipeline_and_cross_validation():
    random = np.random.default_rng(0)
    x = random.uniform(1, 10, (40, 2))
    y = 3 * x[:, 0] + x[:, 1]
    scores = cross_val_score(make_pipeline(StandardScaler(), ForetellRegressor(QUICK)), x, y, cv=3)
    assert scores.min() > 0.95


def test_wrong_option_is_a_value_error_that_says_so():
    with pytest.raises(ValueError, match="unknown technique 'LRRidg'"):
        ForetellRegressor(["LRRidg"]).fit(np.arange(6.0)[:, None], np.arange(6.0))


def test_positive_targets_are_ranked_by_relative_error_and_others_by_rmse():
    x = np.arange(12.0)[:, None]
    assert ForetellRegressor(QUICK).fit(x, x[:, 0] + 1).fit_.campaign.score == "mape"
    assert ForetellRegressor(QUICK).fit(x, x[:, 0] - 5).fit_.campaign.score == "rmse"


def test_feature_named_as_the_target_is_kept():
    target = np.tile([1.0, 2, 3, 4], 4)
    frame = pd.DataFrame({"target": target, "target_": target**2})
    model = ForetellRegressor({"LRRidge": {"alpha": 1e-6}}).fit(frame, 10 + 5 * target)
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


def test_one_technique_may_be_named_without_a_list():
    x = np.arange(12.0)[:, None]
    model = ForetellRegressor("LRRidge").fit(x, x[:, 0] + 1)
    assert model.model_.technique == "LRRidge"
