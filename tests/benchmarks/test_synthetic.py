"""Made-up tables: drawn from a seed, with a truth that is known everywhere."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.synthetic import (
    DISTANCES,
    FAMILIES,
    KINDS,
    TARGET,
    Noise,
    draw_law,
    draw_task,
)


@pytest.fixture(scope="module")
def tasks():
    drawn = [draw_task(family, kind, 0) for family in FAMILIES for kind in KINDS]
    return [task for task in drawn if task is not None]


def test_the_same_seed_gives_the_same_table_and_another_one_does_not():
    one, same, other = (draw_task("cluster", "beyond", seed) for seed in (3, 3, 4))
    pd.testing.assert_frame_equal(one.train, same.train)
    assert not one.train.equals(other.train)


def test_every_family_has_tables_of_several_kinds(tasks):
    kinds = {family: {t.kind for t in tasks if t.family == family} for family in FAMILIES}
    assert all(len(found) >= 2 for found in kinds.values()), kinds


def test_the_truth_is_that_of_the_law_and_positive(tasks):
    for task in tasks:
        assert task.truth == pytest.approx(task.law.truth(task.test))
        assert (task.truth > 0).all() and (task.train[TARGET] > 0).all()


def test_runs_scatter_about_the_truth():
    for task in (draw_task(family, "holdout", 1) for family in FAMILIES):
        if task is not None:
            off = np.log(task.train[TARGET] / task.law.truth(task.train))
            assert abs(np.median(off)) < 0.1


def test_rows_beyond_the_data_are_as_far_out_as_they_say(tasks):
    for task in tasks:
        assert (task.distance >= 1).all()
        if task.kind == "beyond":
            assert (task.distance > 1).all()
            assert task.distance.max() <= 2 * max(DISTANCES)


def test_without_spread_and_outliers_a_run_takes_its_true_time():
    law, _, random = draw_law("amdahl", 0)
    frame = pd.DataFrame({c.name: [c.values[0], c.values[-1]] for c in law.columns})
    assert Noise(0.0, 0.0).draw(law.truth(frame), random) == pytest.approx(law.truth(frame))


def test_switches_that_exclude_each_other_are_never_on_together():
    groups = {}
    task = draw_task("switches", "holdout", 1)
    for name in task.train.columns:
        if name.startswith("g"):
            groups.setdefault(name.split("_")[0], []).append(name)
    assert groups
    for names in groups.values():
        assert (task.train[names].sum(axis=1) == 1).all()


def test_near_its_limit_a_stream_waits_far_longer_than_with_operators_to_spare():
    for seed in range(20):
        law, _, _ = draw_law("stream", seed)
        ends = {c.name: [c.values[0], c.values[-1 if c.grows else 0]] for c in law.columns}
        crowded, spare = law.truth(pd.DataFrame(ends))
        assert crowded > spare


def test_a_step_of_a_rule_is_where_its_conditions_meet():
    law, _, random = draw_law("rules", 0)
    frame = pd.DataFrame({c.name: random.choice(c.values, 500) for c in law.columns})
    amounts = [c.name for c in law.columns if c.grows]
    # Between two values of an amount nothing but its power changes.
    moved = frame.assign(**{name: frame[name] * 1.01 for name in amounts})
    assert np.ptp(law.truth(moved) / law.truth(frame)) < 1e-9
