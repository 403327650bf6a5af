"""Intervals of campaign models: they rest on held-out rows, and hold what they promise."""

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.dataset import read_dataset
from foretell.model.campaigns.intervals import campaign_calibration
from foretell.model.campaigns.schema import Campaign
from foretell.model.campaigns.validation.splits import Split
from foretell.model.saved.model import load_model
from foretell.model.table import prepare_table

NOISE = 0.1


def runs(n, seed, most_nodes=16):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"nodes": random.integers(1, most_nodes + 1, n), "size": random.uniform(10, 100, n)}
    )
    time_s = (5 + 2 * frame["size"] / frame["nodes"]) * random.lognormal(0, NOISE, n)
    return frame.assign(time_s=time_s)


def fit(frame, technique="PowerLaw", output=None, **sections):
    params = sections.pop("params", {})
    campaign = {"data": {"target": "time_s"}, "techniques": {technique: params}, **sections}
    return foretell.fit_model(campaign, frame, output=output).best


def coverage(model, frame, interval):
    found = model.forecast(frame, interval)
    truth = frame["time_s"].to_numpy()
    return float(((found.lower <= truth) & (truth <= found.upper)).mean())


@pytest.mark.parametrize(
    "validation",
    [
        {"method": "HoldOut", "ratio": 0.2},
        {"method": "KFold", "folds": 4},
        {"method": "All"},
    ],
)
def test_intervals_hold_about_the_share_of_new_runs_they_are_asked_for(validation):
    model = fit(runs(150, 0), validation=validation)
    assert model.has_intervals
    for interval in (0.5, 0.9):
        assert coverage(model, runs(2000, 1), interval) == pytest.approx(interval, abs=0.13)


def test_a_model_without_any_training_error_has_intervals_as_wide_as_its_errors_on_new_runs():
    model = fit(
        runs(80, 0),
        "DecisionTree",
        params={"max_depth": 30, "min_samples_leaf": 1},
        validation={"method": "All"},
    )
    frame = runs(80, 0)
    assert model.predict(frame) == pytest.approx(frame["time_s"])  # nothing left in training
    assert coverage(model, runs(2000, 1), 0.9) > 0.8
    found = model.forecast(runs(2000, 1))
    assert np.nanmedian(found.expected_error) > NOISE


def test_training_error_is_never_told_as_the_error_of_validation():
    model = fit(runs(80, 0), validation={"method": "All"})
    assert "validation" not in model.scores
    judged = fit(runs(80, 0), validation={"method": "HoldOut", "ratio": 0.2})
    assert judged.scores["validation"]["mape"] > 0


@pytest.mark.parametrize(
    ("frame", "sections", "reason"),
    [
        (
            runs(30, 0),
            {"validation": {"method": "All"}, "search": {"splits": {"method": "All"}}},
            "no row was held out",
        ),
        (
            runs(4, 0),
            {"search": {"splits": {"method": "HoldOut", "ratio": 0.4}},
             "validation": {"method": "HoldOut", "ratio": 0.3}},
            "held out inside the measured range",
        ),
        (runs(30, 0).assign(time_s=lambda f: f["time_s"] - 20), {"score": "rmse"}, "not positive"),
    ],
)  # fmt: skip
def test_too_little_evidence_gives_no_intervals_and_the_model_file_says_why(
    tmp_path, frame, sections, reason
):
    fit(frame, "LRRidge", tmp_path / "out", **sections)
    model = load_model(tmp_path / "out")
    assert not model.has_intervals
    assert reason in model.no_intervals
    assert np.isnan(model.forecast(frame).lower).all()


def test_models_with_intervals_say_no_reason_against_them():
    assert fit(runs(60, 0)).no_intervals is None


def test_extrapolation_splits_teach_how_errors_grow_with_distance_along_their_column():
    frame = runs(200, 0)
    model = fit(
        frame,
        "DecisionTree",
        validation={"method": "Extrapolation", "columns": {"size": 60}},
    )
    rows = pd.DataFrame({"nodes": [4, 4, 4], "size": [50.0, 130.0, 400.0]})
    found = model.forecast(rows)
    width = np.log(found.upper / found.lower)
    assert found.trust.tolist() == ["inside", "near", "far"]
    assert width[0] < width[1] < width[2]
    new = runs(2000, 1).assign(size=lambda f: f["size"] + 60)
    time_s = 5 + 2 * new["size"] / new["nodes"]
    new = new.assign(time_s=time_s)[new["size"].between(100, 160)]
    assert coverage(model, new, 0.9) > 0.75


def test_new_levels_of_a_category_are_told_as_unknown_with_wider_intervals():
    frame = runs(120, 0)
    machine = np.random.default_rng(2).choice(["a", "b", "c"], len(frame))
    slower = np.select([machine == "a", machine == "b"], [1.0, 1.5], 2.5)
    frame = frame.assign(machine=machine, time_s=frame["time_s"] * slower)
    model = fit(frame, "LRRidge", validation={"method": "KFold", "folds": 4})
    rows = pd.DataFrame({"nodes": [4, 4], "size": [50.0, 50.0], "machine": ["a", "z"]})
    found = model.forecast(rows)
    assert found.trust.tolist() == ["inside", "unknown level"]
    assert found.upper[1] / found.lower[1] > found.upper[0] / found.lower[0]


def test_plan_takes_the_model_of_a_campaign_with_a_confidence():
    model = fit(runs(150, 0))
    asked = {"vary": {"nodes": {"from": 1, "to": 16}}, "fix": {"size": 80}, "deadline": 40}
    sure = foretell.make_plan(model, {**asked, "confidence": 0.95, "minimize": "time"})
    assert sure.chosen is not None
    assert sure.chosen.configuration["nodes"] > 5


# Unknown levels: how many were held out


def with_machines(frame, machines):
    machine = np.random.default_rng(2).choice(machines, len(frame))
    return frame.assign(machine=machine)


def build_table(frame):
    campaign = {"data": {"target": "time_s"}, "techniques": {"LRRidge": {}}}
    return prepare_table(Campaign.model_validate(campaign), read_dataset(frame))


def held(table, split):
    """Predictions that are 10 % too low."""
    return (split, len(split.test), table.y[split.test] / 1.1)


@pytest.mark.parametrize("n_splits", [1, 10])
def test_splits_that_hold_out_the_same_level_say_no_more_than_one(n_splits):
    frame = with_machines(runs(120, 0), ["a", "b", "c"])
    table = build_table(frame)
    is_held = (frame["machine"] == "c").to_numpy()
    rows = np.arange(len(frame))
    unknown = Split(rows[~is_held], rows[is_held])
    inside = Split(rows[30:], rows[:30])
    held_out = [held(table, inside)] + [held(table, unknown)] * n_splits
    calibration, _ = campaign_calibration(table, "time_s", held_out)
    assert calibration.unknown_widening == 2  # one level


def test_levels_held_out_by_one_split_are_counted_one_by_one():
    frame = with_machines(runs(120, 0), ["a", "b", "c"])
    table = build_table(frame)
    rows = np.arange(len(frame))
    is_held = frame["machine"].isin(["b", "c"]).to_numpy()
    held_out = [held(table, Split(rows[30:], rows[:30])),
                held(table, Split(rows[~is_held], rows[is_held]))]  # fmt: skip
    calibration, _ = campaign_calibration(table, "time_s", held_out)
    assert calibration.unknown_widening == 1.5
    assert len(calibration.unknown.values) == is_held.sum()
