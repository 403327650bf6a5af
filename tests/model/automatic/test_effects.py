"""Columns that explain no more than chance."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.dataset import read_dataset
from foretell.model.automatic.bench import Bench
from foretell.model.automatic.effects import columns_without_effect
from foretell.model.automatic.fit import automatic_campaign
from foretell.model.automatic.members import USUAL
from foretell.model.table import EVERY_COLUMN, prepare_table
from foretell.model.techniques import TrainingRows

N = 60
SEEDS = range(10)


def runs(seed, noise=0.05, **more):
    """Three settings that matter, and a switch that is worth 10 %."""
    random = np.random.default_rng([seed, 7])
    frame = pd.DataFrame(
        {
            "nodes": random.choice([1, 2, 4, 8, 16], N),
            "size": random.choice([10, 20, 40, 80, 160], N),
            "compressed": random.integers(0, 2, N),
        }
    )
    law = (5 + 3 * frame["size"] / frame["nodes"] ** 0.8) * (1 + 0.1 * frame["compressed"])
    return frame.assign(**more, time_s=law * random.lognormal(0, noise, N))


def without_effect(frame):
    table = prepare_table(automatic_campaign("time_s", EVERY_COLUMN, 0), read_dataset(frame))
    rows = TrainingRows(table.x, table.y, np.ones(len(table.y)), table.feature_map.groups)
    return columns_without_effect(Bench.of(rows, USUAL, 0), table.feature_map)


def junk(kind, seed):
    random = np.random.default_rng([seed, 8])
    return {
        "numbers": random.uniform(1, 100, N),
        "few numbers": random.integers(1, 6, N),
        "switch": random.integers(0, 2, N),
        "names": random.choice(["a", "b", "c"], N),
        "row numbers": np.arange(N) + 1,
    }[kind]


@pytest.mark.parametrize("kind", ["numbers", "few numbers", "switch", "names", "row numbers"])
def test_noise_has_no_effect_and_what_is_worth_ten_percent_has(kind):
    found = [without_effect(runs(seed, other=junk(kind, seed))) for seed in SEEDS]
    assert sum(names == ["other"] for names in found) >= 9
    assert not any("compressed" in names for names in found)


def test_columns_that_stand_for_one_another_keep_their_effect():
    frame = runs(0)
    assert without_effect(frame.assign(slots=8 * frame["nodes"])) == []


def test_few_configurations_tell_nothing():
    assert without_effect(runs(0, other=junk("numbers", 0)).head(15)) == []


@pytest.fixture(scope="module")
def fitted():
    return foretell.fit_model(runs(1, sequence=np.arange(N) * 10 + 5), target="time_s")


def test_a_column_without_effect_is_named_and_has_no_share(fitted):
    explanation = fitted.results["explanation"]
    assert explanation["without_effect"] == ["sequence"]
    # The switch has an effect, but its share of the variance is below what is listed.
    assert set(explanation["shares"]) == {"nodes", "size"}
    assert sum(explanation["shares"].values()) == pytest.approx(1, abs=0.02)
    assert "No effect was found of sequence." in str(fitted)


def test_a_number_that_grows_with_every_row_is_noted_and_kept(fitted):
    assert "sequence" in fitted.columns
    (note,) = [note for note in fitted.results.notes if "'sequence'" in note]
    assert "every row" in note
    assert "skip" in note


def test_noise_that_does_not_grow_is_not_taken_for_the_number_of_a_run():
    fit = foretell.fit_model(runs(1, other=junk("numbers", 1)), target="time_s", time_limit_s=60)
    assert fit.results["explanation"]["without_effect"] == ["other"]
    assert not any("'other'" in note for note in fit.results.notes)
