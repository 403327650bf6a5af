"""Ranges of settings: contexts, medians of repeats, and intervals that hold the truth."""

import numpy as np
import pandas as pd
import pytest

from foretell import read_dataset
from foretell.decide.impact.costs import front_of
from foretell.decide.impact.question import CostRule, ImpactQuestion
from foretell.decide.impact.ranges import CellTable
from foretell.decide.impact.runs import prepare_runs

from ...impact.tables import drawn_table


def cells(frame, **asked):
    question = ImpactQuestion.of("time_s", **asked)
    runs = prepare_runs(read_dataset(frame), question)
    return CellTable(runs, question.outcomes[0], seed=0)


def of(table, name):
    return table.impact(table.runs.settings.index(name))


def test_contexts_are_runs_equal_in_every_other_setting():
    frame = pd.DataFrame(
        {
            "a": [1, 2, 1, 2, 3, 1],
            "b": ["x", "x", "y", "y", "y", "z"],
            "time_s": [4.0, 2.0, 9.0, 6.0, 3.0, 7.0],
        }
    )
    found = of(cells(frame), "a")
    assert found.n_contexts == 2  # z has one level of a
    assert found.median == pytest.approx(np.median([2 / 4, 6 / 9]))
    assert found.largest == pytest.approx(6 / 9)
    assert found.at == {"b": "y"}


def test_repeats_count_by_their_median():
    frame = pd.DataFrame({"a": [1, 1, 1, 2, 2, 2], "time_s": [10.0, 10, 90, 5, 5, 5]})
    assert of(cells(frame), "a").median == pytest.approx(0.5)


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_intervals_hold_the_truth_in_about_nine_of_ten_tables(noise):
    held = 0
    for seed in range(100):
        draw = np.random.default_rng(seed)
        frame = pd.DataFrame(
            [(a, b) for a in (1.0, 0.8, 0.6) for b in range(4) for _ in range(3)],
            columns=["a", "b"],
        )
        frame["time_s"] = frame["a"] * np.exp(draw.normal(0, noise, len(frame)))
        found = of(cells(frame), "a")
        held += found.lower <= 0.4 <= found.upper
    assert held >= 80


def test_levels_that_are_in_one_context_each_are_told_no_effect_by_runs():
    for seed in range(100):
        table = cells(drawn_table(120, seed), hyper="rate")
        assert not table.can_tell(table.runs.settings.index("rate"))
        assert of(table, "rate").level == "within noise"


def test_a_wider_noise_gives_a_wider_interval():
    widths = []
    for noise in (0.01, 0.1):
        draw = np.random.default_rng(0)
        frame = pd.DataFrame({"a": np.repeat([1, 2], 10)})
        frame["time_s"] = frame["a"] * np.exp(draw.normal(0, noise, 20))
        found = of(cells(frame), "a")
        widths.append(found.upper - found.lower)
    assert widths[0] < widths[1]


def test_front_is_what_no_other_configuration_beats():
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"a": range(60), "time_s": draw.random(60) + 0.1, "nodes": 1})
    frame["nodes"] = draw.integers(1, 5, 60)
    table = cells(frame)
    front = front_of(table, None, CostRule(price_per_hour=1.0, machines="nodes"))
    cost = frame["time_s"] * frame["nodes"] / 3600
    best = [
        i
        for i in frame.index
        if not ((frame["time_s"] < frame["time_s"][i]) & (cost <= cost[i])).any()
        and not ((frame["time_s"] <= frame["time_s"][i]) & (cost < cost[i])).any()
    ]
    assert sorted(p.settings["a"] for p in front) == best
