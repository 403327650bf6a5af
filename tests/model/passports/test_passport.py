"""What a prediction says about itself."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.errors import DatasetError, UsageError
from foretell.predictor import FORECAST_COLUMNS


def runs():
    """Sizes, nodes and machines; the latter two with few levels."""
    rows = [(s, n, m) for s in (10, 20, 40, 80) for n in (1, 2, 4, 8) for m in ("m4", "c4")]
    frame = pd.DataFrame(rows, columns=["size", "nodes", "machine"])
    noise = np.random.default_rng(0).lognormal(0, 0.02, len(frame))
    factor = np.where(frame["machine"] == "m4", 1.0, 2.0)
    return frame.assign(time_s=(5 + 3 * frame["size"] / frame["nodes"]) * factor * noise)


@pytest.fixture(scope="module")
def model():
    return foretell.fit_model(runs(), target="time_s").best


def row(size=40, nodes=4, machine="m4"):
    return pd.DataFrame({"size": [size], "nodes": [nodes], "machine": [machine]})


def table(*rows):
    return pd.concat(rows, ignore_index=True)


def widths(found):
    return found.upper / found.lower


@pytest.mark.parametrize(
    ("new", "trust", "outside"),
    [
        (row(), "inside", ""),
        (row(size=30, nodes=3), "inside", ""),
        (row(size=160), "near", "size: 2× above the largest measured (80)"),
        (row(nodes=0.5), "near", "nodes: 2× below the smallest measured (1)"),
        (
            row(size=1e5, nodes=100),
            "far",
            "nodes: 12.5× above the largest measured (8); "
            "size: 1.25e+03× above the largest measured (80)",
        ),
        (row(machine="x1"), "unknown level", "machine: unknown level x1"),
        (
            row(nodes=16, machine="x1"),
            "unknown level",
            "nodes: 2× above the largest measured (8); machine: unknown level x1",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_trust_and_what_is_outside(model, new, trust, outside):
    found = model.forecast(new)
    assert found.trust.tolist() == [trust]
    assert found.outside == [outside]
    assert model.outside(new) == [outside]


def test_a_prediction_that_was_held_at_a_limit_says_so(model):
    """Beyond some size, all predictions are the same; no reader must take that for a law."""
    found = model.forecast(table(*(row(size=s) for s in (160, 1e4, 1e15, 1e300))))
    assert found.value[2] == found.value[3] > found.value[1]
    assert [text.count("held at the model's upper limit") for text in found.outside] == [0, 0, 1, 1]
    assert "over 1e+06×" in found.outside[3]  # both are further out than that


@pytest.mark.parametrize("technique", ["LRRidge", "PowerLaw", "ScalingLaw", "LogGP"])
def test_the_floor_of_a_time_is_a_limit_too(technique):
    campaign = {
        "data": {"target": "time_s"},
        "search": {"splits": {"method": "KFold", "folds": 3}},
        "techniques": {technique: {}},
    }
    falling = pd.DataFrame({"nodes": np.arange(1.0, 13)})
    falling["time_s"] = 130 - 10 * falling["nodes"]
    fitted = foretell.fit_model(campaign, falling)
    found = fitted.forecast(pd.DataFrame({"nodes": [6.0, 1e9]}))
    is_held = found.value[1] <= fitted.best.limits[0] * (1 + 1e-9)
    assert is_held == ("held at the model's lower limit" in found.outside[1])
    assert "held" not in found.outside[0]
    assert technique != "LRRidge" or is_held  # a line that falls below zero


def test_near_is_as_far_out_as_errors_were_measured(model):
    sizes = 80 * 2.0 ** np.arange(0.2, 12, 0.25)
    trust = model.forecast(table(*(row(size=s) for s in sizes))).trust.tolist()
    assert trust == sorted(trust, key=["near", "far"].index)
    n_near = trust.count("near")
    assert 0 < n_near < len(trust)
    reach = model.calibration.reaches["size"][1]
    assert sizes[n_near - 1] / 80 <= reach < sizes[n_near] / 80
    assert reach >= 2  # some fold was fitted on 10 to 40, or on less, and asked for 80


def test_intervals_widen_with_the_distance_and_hold_the_prediction(model):
    found = model.forecast(table(*(row(size=s) for s in (80, 160, 640, 5120, 1e6))))
    width = widths(found)
    assert (np.diff(width) >= 0).all()
    assert width[-1] > width[0]
    assert ((found.lower < found.value) & (found.value < found.upper)).all()
    assert found.expected_error[1] > found.expected_error[0]
    assert (np.isnan(found.expected_error) == (found.trust == "far")).all()  # nobody knows it


def test_a_level_that_is_unknown_makes_the_interval_wider(model):
    known, unknown = widths(model.forecast(table(row(), row(machine="x1"))))
    assert unknown > 1.3 * known


def test_an_unknown_level_far_outside_the_data_has_no_expected_error(model):
    found = model.forecast(table(row(machine="x1"), row(size=1e5, machine="x1")))
    assert found.trust.tolist() == ["unknown level"] * 2
    assert np.isfinite(found.expected_error).tolist() == [True, False]


def test_intervals_widen_with_the_share_they_are_to_hold(model):
    new = table(row(), row(size=30), row(size=300), row(machine="x1"))
    by_level = np.array(
        [widths(model.forecast(new, level)) for level in (0.3, 0.5, 0.8, 0.9, 0.99)]
    )
    assert (np.diff(by_level, axis=0) >= 0).all()
    assert (by_level[-1] > by_level[0]).all()


def test_intervals_hold_about_the_share_of_new_runs_inside(model):
    frame = runs()
    noise = np.random.default_rng(1).lognormal(0, 0.02, (100, len(frame)))
    truth = (5 + 3 * frame["size"] / frame["nodes"]) * np.where(frame["machine"] == "m4", 1.0, 2.0)
    found = model.forecast(frame, 0.9)
    is_held = (found.lower <= truth.to_numpy() * noise) & (truth.to_numpy() * noise <= found.upper)
    assert 0.65 < is_held.mean() < 0.99  # 32 runs tell their own noise roughly


@pytest.mark.parametrize("level", [0, 1, -0.5, 90, float("nan")])
def test_an_interval_of_no_share_is_refused(model, level):
    with pytest.raises(UsageError, match="between 0 and 1"):
        model.forecast(row(), level)


def test_frame_has_the_columns_of_predict(model):
    frame = model.forecast(table(row(), row(size=160))).to_frame()
    assert tuple(frame.columns) == FORECAST_COLUMNS
    assert FORECAST_COLUMNS == (
        "prediction",
        "lower",
        "upper",
        "outside",
        "expected_error",
        "trust",
    )
    assert np.array_equal(frame["prediction"], model.predict(table(row(), row(size=160))))


def test_a_table_of_categories_alone_has_passports():
    frame = pd.DataFrame({"machine": ["a", "b", "c"] * 4})
    times = np.tile([1.0, 2.0, 4.0], 4) * np.random.default_rng(0).lognormal(0, 0.02, 12)
    model = foretell.fit_model(frame.assign(time_s=times), target="time_s").best
    found = model.forecast(pd.DataFrame({"machine": ["a", "z"]}))
    assert found.trust.tolist() == ["inside", "unknown level"]
    assert widths(found)[1] >= widths(found)[0] * (1 - 1e-9)


def test_a_model_of_a_campaign_without_held_out_rows_says_what_is_outside_but_has_no_interval():
    campaign = {
        "data": {"target": "time_s"},
        "search": {"splits": {"method": "All"}},
        "validation": {"method": "All"},
        "techniques": {"PowerLaw": {}},
    }
    found = foretell.fit_model(campaign, runs()).best.forecast(table(row(), row(size=160)))
    assert np.isnan([found.lower, found.upper]).all()
    assert found.trust.tolist() == ["inside", "far"]
    assert np.isnan(found.expected_error).all()  # nothing but training error is known


def test_quantiles_of_an_outlook_are_the_ends_of_the_interval_with_as_much_outside(model):
    rows = table(row(), row(size=160), row(size=5))
    forecast = model.forecast(rows, interval=0.8)
    outlook = model.outlook(rows, [0.1, 0.5, 0.9])
    assert np.allclose(outlook.quantiles.at(0.1), forecast.lower)
    assert np.allclose(outlook.quantiles.at(0.5), forecast.value)
    assert np.allclose(outlook.quantiles.at(0.9), forecast.upper)
    assert outlook.trust.tolist() == forecast.trust.tolist()


def test_quantiles_of_an_outlook_grow_with_the_probability(model):
    outlook = model.outlook(table(row(size=160)), [0.05, 0.3, 0.5, 0.8, 0.99])
    quantiles = outlook.quantiles.values[0]
    assert (np.diff(quantiles) >= 0).all()
    assert quantiles[0] < quantiles[-1]


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.5, float("nan")])
def test_an_outlook_refuses_what_is_no_probability(model, probability):
    with pytest.raises(UsageError, match="between 0 and 1"):
        model.outlook(table(row()), [probability])


@pytest.mark.parametrize(
    "values",
    [
        {"size": 40, "nodes": 4, "machine": "m4"},
        {"size": 33.3, "nodes": 100, "machine": "c4", "more": "x"},
        {"size": "40", "nodes": 0.5, "machine": "x1"},
    ],
)
def test_one_row_gets_the_forecast_that_it_gets_in_a_table(model, values):
    alone = model.forecast_row(values, 0.8)
    pd.testing.assert_frame_equal(
        alone.to_frame(), model.forecast(pd.DataFrame([values]), 0.8).to_frame(), check_exact=True
    )


def test_one_row_that_is_wrong_is_refused_like_a_table(model):
    with pytest.raises(foretell.ModelError, match="the row has no column 'nodes'"):
        model.forecast_row({"size": 1, "machine": "m4"})
    with pytest.raises(foretell.DatasetError, match="the row, column 'size' must hold numbers"):
        model.forecast_row({"size": True, "nodes": 1, "machine": "m4"})


@pytest.mark.parametrize("value", [0, -3.0])
@pytest.mark.parametrize(
    "ask",
    [
        lambda model, new: model.predict(new),
        lambda model, new: model.forecast(new),
        lambda model, new: model.forecast_row(new.iloc[0].to_dict()),
        lambda model, new: model.outlook(new, [0.5, 0.9]),
    ],
    ids=["predict", "forecast", "forecast_row", "outlook"],
)
def test_a_value_that_is_not_positive_is_refused_where_only_positive_ones_were_measured(
    model, ask, value
):
    with pytest.raises(DatasetError, match=rf"'size'.*row 1\b.*{value:g}.*10 to 80"):
        ask(model, row(size=value))


def test_a_switch_that_was_always_on_may_be_off_but_nothing_is_known_there():
    frame = runs().assign(cached=1)
    fitted = foretell.fit_model(frame, target="time_s", time_limit_s=5)
    on, off = (fitted.forecast(row().assign(cached=value)) for value in (1, 0))
    assert off.value == pytest.approx(on.value, rel=0.01)  # without the runs made there
    assert [on.trust[0], off.trust[0]] == ["inside", "far"]
    assert off.upper[0] / off.lower[0] > on.upper[0] / on.lower[0]


def test_zero_is_predicted_where_zeros_were_measured():
    frame = runs().assign(retries=np.arange(32) % 4)
    fitted = foretell.fit_model(frame, target="time_s", time_limit_s=5)
    assert fitted.predict(row().assign(retries=0))[0] > 0
