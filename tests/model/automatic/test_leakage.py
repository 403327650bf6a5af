"""Columns that look derived from the target."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.dataset import read_dataset
from foretell.model.automatic.fit import automatic_campaign
from foretell.model.automatic.leakage import Suspicious, suspicious_columns
from foretell.model.table import EVERY_COLUMN, prepare_table

SEEDS = range(5)


def runs(seed, n=60, repeats=1, noise=0.05):
    random = np.random.default_rng(seed)
    settings = pd.DataFrame(
        {
            "nodes": random.choice([1, 2, 4, 8], n),
            "machine": random.choice(["a", "b", "c"], n),
            "size": random.choice([10, 20, 40, 80], n),
        }
    )
    frame = settings.loc[np.repeat(np.arange(n), repeats)].reset_index(drop=True)
    speed = frame["machine"].map({"a": 1.0, "b": 2.0, "c": 3.0})
    law = 5 + 20 * frame["size"] / frame["nodes"] / speed
    return frame.assign(time_s=law * random.lognormal(0, noise, len(frame)))


def judged(frame):
    campaign = automatic_campaign("time_s", EVERY_COLUMN, 0)
    return suspicious_columns(prepare_table(campaign, read_dataset(frame)))


def found(frame):
    return list(judged(frame).derived)


def jitter(frame, noise):
    return np.random.default_rng(99).lognormal(0, noise, len(frame))


@pytest.mark.parametrize(
    ("derive", "repeats"),
    [
        (lambda f: (1000 * f["time_s"]).round(), 1),
        (lambda f: f["size"] / f["time_s"], 1),
        (lambda f: f["machine"].map({"a": 0.1, "b": 0.25, "c": 0.4}) * f["time_s"], 1),
        (lambda f: f["nodes"] * f["machine"].map({"a": 0.1, "b": 0.25, "c": 0.4}) * f["time_s"], 3),
        (lambda f: f["time_s"] * f["nodes"] ** 0.9 * jitter(f, 0.01), 3),
    ],
    ids=["time_ms", "throughput", "cost", "cost of all nodes, repeated", "cpu_time, repeated"],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_column_computed_from_the_target_is_found(derive, repeats, seed):
    frame = runs(seed, repeats=repeats)
    assert found(frame.assign(other=derive(frame))) == ["other"]


@pytest.mark.parametrize(
    "derive",
    [
        lambda f: (0.0023 * f["nodes"] * f["time_s"]).round(2) + 0.01,
        lambda f: 100 * f["time_s"] * jitter(f, 0.01),
        lambda f: 90 * f["nodes"] * f["time_s"] * jitter(f, 0.03),
        lambda f: np.log(f["time_s"]),
        lambda f: f["time_s"].rank(),
    ],
    ids=["a bill in cents", "traffic", "energy, 3 % of noise", "logarithm", "rank"],
)
@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_column_measured_beside_the_target_is_found(derive, repeats, seed):
    frame = runs(seed, repeats=repeats)
    frame["time_s"] *= 60
    frame = frame.assign(other=derive(frame))
    assert [*judged(frame).derived, *judged(frame).near] == ["other"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_size_of_an_input_is_not_taken_for_derived(seed):
    """The time of a sparse product is that of its entries, whose number grows with the rows."""
    random = np.random.default_rng(seed)
    settings = [(n, m) for n in (100, 200, 400, 800, 1600) for m in range(12)]
    frame = pd.DataFrame(settings, columns=["rows", "machine"])
    frame["entries"] = (frame["rows"] * random.lognormal(2.5, 0.3, 60)).round()
    frame["time_s"] = 1e-3 * frame["entries"] * random.lognormal(0, 0.02, 60)
    frame["machine"] = "m" + frame["machine"].astype(str)
    assert found(frame) == []
    fit = foretell.fit_model(frame, target="time_s", time_limit_s=5)
    (note,) = [note for note in fit.results.notes if "'entries'" in note]
    assert "up to a few percent" in note


@pytest.mark.parametrize("seed", SEEDS)
def test_a_throughput_is_found_beside_a_size_of_many_values(seed):
    frame = runs(seed)
    frame["size"] = np.random.default_rng(seed).uniform(10, 80, len(frame))
    frame["time_s"] = (5 + 20 * frame["size"] / frame["nodes"]) * jitter(frame, 0.05)
    assert found(frame.assign(throughput=frame["size"] / frame["time_s"])) == ["throughput"]


@pytest.mark.parametrize("seed", SEEDS)
def test_several_derived_columns_are_all_found(seed):
    frame = runs(seed, repeats=2)
    frame["time_ms"] = 1000 * frame["time_s"]
    frame["cost"] = 0.1 * frame["nodes"] * frame["time_s"]
    assert set(found(frame)) == {"time_ms", "cost"}


def one_column(seed):
    """The size explains everything, up to 1 % of noise."""
    random = np.random.default_rng(seed)
    size = random.uniform(10, 1000, 60)
    return pd.DataFrame({"size": size, "time_s": 3 * size * random.lognormal(0, 0.01, 60)})


def sizes_that_rule(seed, low=10.0):
    random = np.random.default_rng(seed)
    frame = one_column(seed).assign(nodes=random.choice([1, 2, 4, 8], 60))
    frame["size"] = random.uniform(low, 100, 60)
    frame["time_s"] = 3 * frame["size"] * random.lognormal(0, 0.01, 60)
    return frame


@pytest.mark.parametrize(
    "table",
    [
        one_column,
        sizes_that_rule,
        lambda seed: sizes_that_rule(seed, low=70.0),
        lambda seed: runs(seed),
        lambda seed: runs(seed, repeats=3),
        lambda seed: runs(seed, noise=0.0),
        lambda seed: sizes_that_rule(seed).assign(time_s=lambda f: 3 * f["size"] / f["nodes"]),
        lambda seed: runs(seed).assign(
            nodes=np.arange(60) + 1.0, time_s=lambda f: 5 + f["size"] / f["nodes"]
        ),
        lambda seed: runs(seed).assign(noise=np.random.default_rng(seed).uniform(1, 2, 60)),
    ],
    ids=[
        "one size, 1 % noise",
        "size among settings, 1 % noise",
        "size in a small range",
        "no repeats",
        "repeats",
        "no noise",
        "a size drawn at random, no noise",
        "a value of nodes per row",
        "noise",
    ],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_setting_is_not_found(table, seed):
    assert judged(table(seed)) == Suspicious()


def test_a_fit_notes_the_column_its_share_and_the_remedy_and_keeps_it():
    frame = runs(0).assign(time_ms=lambda f: 1000 * f["time_s"])
    fit = foretell.fit_model(frame, target="time_s", time_limit_s=5)
    assert "time_ms" in fit.columns
    (note,) = [note for note in fit.results.notes if "looks derived" in note]
    share = 100 * fit.results["explanation"]["shares"]["time_ms"]
    assert "'time_ms'" in note
    assert f"{share:#.3g}".rstrip(".") + " %" in note
    assert "skip" in note
    clean = foretell.fit_model(frame, target="time_s", skip=["time_ms"], time_limit_s=5)
    assert not any("looks derived" in note for note in clean.results.notes)
