"""Which completed tasks a refit uses, and how often each counts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.cluster.maintenance.completed import CompletedTask
from foretell.cluster.maintenance.thinning import thinned


def task(i, time_s, error=0.0, energy_error=None, kind="a", class_name="x"):
    return CompletedTask(
        f"{i:05d}", float(i), kind, "n", {"class": class_name}, time_s, 10.0,
        "modelled" if energy_error is None else "measured", time_s * (1 + error),
        10.0 * (1 + (energy_error or 0.0)), "digest",
    )  # fmt: skip


@given(
    n=st.integers(1, 300), keep=st.floats(0.01, 1), groups=st.integers(1, 4),
    bad=st.sets(st.integers(0, 299)),
)  # fmt: skip
def test_weights_add_up_to_the_tasks_of_each_type_and_class(n, keep, groups, bad):
    tasks = [
        task(i, 1.0 + i, 0.5 if i in bad else 0.01, class_name=str(i % groups)) for i in range(n)
    ]
    kept = thinned(tasks, 0.1, keep)
    for name in {t.class_name for t in tasks}:
        members = [t for t in tasks if t.class_name == name]
        own = [k for k in kept if k.task.class_name == name]
        assert sum(k.weight for k in own) == len(members)
        good = [t for t in members if t.time_error < 0.1]
        few = [k for k in own if k.task.time_error < 0.1]
        assert len(few) == (max(1, round(keep * len(good))) if good else 0)
        if len(few) > 1:  # the range stays
            assert {good[0].uid, good[-1].uid} <= {k.task.uid for k in few}
    assert {k.task.uid for k in kept} >= {t.uid for t in tasks if t.time_error >= 0.1}
    assert all(k.weight == 1 for k in kept if k.task.time_error >= 0.1)


def test_with_keep_0_well_predicted_tasks_are_dropped_as_published():
    tasks = [task(0, 5.0), task(1, 5.0, error=0.3)]
    assert [k.task.uid for k in thinned(tasks, 0.1, 0.0)] == ["00001"]


@pytest.mark.parametrize(
    ("error", "energy_error", "is_thinned"),
    [(0.05, 0.05, True), (0.05, 0.2, False), (0.2, 0.05, False), (0.05, None, True),
     (math.nan, None, False)],
)  # fmt: skip
def test_a_task_is_well_predicted_if_both_errors_that_are_known_are_small(
    error, energy_error, is_thinned
):
    tasks = [task(i, 5.0 + i, error, energy_error) for i in range(8)]
    assert (len(thinned(tasks, 0.1, 0.25)) == 2) is is_thinned
