"""What matters to a model: shares of variance of its predictions, whatever the technique."""

import itertools

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.model.saved.shares import column_shares, measured_levels, model_shares

LEVELS = {"nodes": [1, 2, 4], "data_mb": [10, 20, 40, 80], "machine": ["m", "c"], "is_fast": [True]}


@pytest.fixture(scope="module")
def runs():
    frame = pd.DataFrame(list(itertools.product(*LEVELS.values())), columns=list(LEVELS))
    frame["time_s"] = frame["data_mb"] / frame["nodes"] ** 0.5
    return frame.loc[frame.index.repeat(2)].reset_index(drop=True)


@pytest.mark.parametrize("technique", ["DecisionTree", "XGBoost"])
def test_shares_are_those_of_the_logarithm_of_predictions(runs, technique):
    campaign = {
        "data": {"target": "time_s", "skip_columns": ["is_fast"]},
        "search": {"splits": {"method": "All"}},
        "validation": {"method": "All"},
        "techniques": {technique: {}},
    }
    fit = foretell.fit_model(campaign, runs)
    found = column_shares(fit.best)
    logs = {"nodes": 0.25 * np.log([1, 2, 4]).var(), "data_mb": np.log([10, 20, 40, 80]).var()}
    assert found["data_mb"] == pytest.approx(logs["data_mb"] / sum(logs.values()), abs=0.03)
    assert "machine" not in found
    assert sum(found.values()) == pytest.approx(1)
    assert fit.results.leaderboard[0].shares == found


def test_levels_are_those_measured_and_columns_of_one_value_have_none(runs):
    campaign = {
        "data": {"target": "time_s", "skip_columns": ["is_fast"]},
        "search": {"splits": {"method": "All"}},
        "validation": {"method": "All"},
        "techniques": {"DecisionTree": {}},
    }
    model = foretell.fit_model(campaign, runs[runs["nodes"] == 2]).best
    levels = measured_levels(model)
    assert "nodes" not in levels
    assert levels["data_mb"] == [10, 20, 40, 80]
    assert sorted(levels["machine"]) == ["c", "m"]
    found = model_shares(model, {"data_mb": levels["data_mb"]}, {"machine": "c"})
    assert found.first == {"data_mb": 1.0}
    assert column_shares(model, without_effect=levels) == {}
