"""Terms of a formula that are only rounding errors are left out of it."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.model.features.feature import Factor, Feature
from foretell.model.saved.export import export_model
from foretell.model.saved.terms import matters
from foretell.model.techniques.linear._least_squares import LinearRegressor

RANGES = {"x": (2.0, 50.0), "z": (-1.0, 4.0), "p": (0.0, 9.0)}


@pytest.mark.parametrize(
    ("factors", "largest"),
    [
        ((Factor("x"),), 50),
        ((Factor("z"),), 4),
        ((Factor("x", ("inverse",)),), 0.5),
        ((Factor("x", ("log",)),), np.log(50)),
        ((Factor("x", ("log", "inverse")),), 1 / np.log(2)),
        ((Factor("p", ("sqrt",)),), 3),
        ((Factor("x"), Factor("z")), 200),
        ((Factor("machine", level="c4"),), 1),
        ((Factor("machine", level="c4"), Factor("x")), 50),
        ((Factor("is_hot"),), 1),
    ],
)
def test_term_matters_from_a_billionth_of_the_smallest_prediction(factors, largest):
    feature = Feature("f", factors)
    limit = 1e-9 * 7.0 / largest
    found = matters(np.array([0.99, -0.99, 1.01, -1.01]) * limit, [feature] * 4, RANGES, 7.0)
    assert found.tolist() == [False, False, True, True]


@pytest.mark.parametrize("factor", [Factor("z", ("inverse",)), Factor("p", ("log",))])
def test_term_without_a_bound_is_kept(factor):
    feature = Feature("f", (factor,))
    assert matters(np.array([1e-200, 0.0]), [feature] * 2, RANGES, 7.0).tolist() == [True, False]


def model():
    frame = pd.DataFrame({"x": [1.0, 2, 3, 4] * 3, "z": [1.0, 5, 2, 8, 3, 9] * 2})
    frame["t"] = 3 + 2 * frame["x"]
    campaign = {"data": {"target": "t"}, "techniques": {"LRRidge": {"alpha": 1e-9}}}
    fitted = foretell.fit_model(campaign, frame).best
    noisy = LinearRegressor(np.array([2.0, 1e-15]), 3.0, ())
    return replace(fitted, fitted=replace(fitted.fitted, regressor=noisy))


def test_rounding_error_is_in_no_formula_and_in_no_export():
    assert model().formula == "t = 2·x +3"
    assert model().coefficients() == ({"x": 2.0}, 3.0)
    tree = json.dumps(json.loads(export_model(model(), "json"))["prediction"])
    assert '"x"' in tree and '"z"' not in tree
    rows = pd.DataFrame({"x": [1.5, 3.5], "z": [2.0, 7.0]})
    assert model().predict(rows) == pytest.approx([6, 10], rel=1e-12)
