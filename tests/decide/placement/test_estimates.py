"""Estimates: types that share a model are predicted together, and as if each were alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.decide.placement.cluster import read_cluster
from foretell.decide.placement.estimates import Estimates, type_models
from foretell.decide.placement.tasks import Task, read_task
from foretell.errors import DatasetError
from foretell.predictor import Forecast


class Line:
    """A model of a time, size times the speed of a level; it counts how often it is asked."""

    target, columns = "time_s", ["size", "kind"]

    def __init__(self, trust="inside"):
        self.asked, self.trust = [], trust

    def forecast(self, frame, interval):
        """Predict a table; sizes below 0 cannot be predicted."""
        self.asked.append(len(frame))
        if (frame["size"] < 0).any():
            raise DatasetError("size is below 0")
        value = frame["size"].to_numpy(dtype=float) * frame["kind"].astype(str).map(len).to_numpy()
        trust = np.full(len(value), self.trust, dtype=object)
        return Forecast(value, 0.9 * value, 1.1 * value, [""] * len(value), value * 0, trust, {})


def cluster_of(kinds, **more):
    tables = [
        {"name": f"t{i}", "count": 1, "capacity": {"cpu": 4}, "columns": {"kind": kind}, **more}
        for i, kind in enumerate(kinds)
    ]
    return read_cluster({"node_type": tables})


def estimates_of(cluster, model):
    shared = {table.name: [(model, "digest")] for table in cluster.node_type}
    return Estimates(type_models(cluster, shared))


def test_types_with_one_model_are_predicted_by_one_call_and_equal_rows_once():
    model = Line()
    estimates = estimates_of(cluster_of(["a", "bb", "a", "ccc"]), model)
    found = estimates.of(read_task("cpu=1,size=2"))
    assert found.time_s.tolist() == [2, 4, 2, 6]
    assert model.asked == [3]
    estimates.prefetch(read_task(f"cpu=1,size={n}") for n in (3, 4))
    assert model.asked == [3, 6]


def test_an_energy_that_follows_from_a_time_asks_its_model_no_second_time():
    model = Line()
    cluster = cluster_of(["a", "bb"], idle_w=10, busy_w=50)
    found = estimates_of(cluster, model).of(read_task("cpu=2,size=3"))
    assert found.energy_j.tolist() == [3 * 20, 6 * 20]  # half of the node, 40 W in all
    assert model.asked == [2]


@pytest.mark.parametrize(
    ("trust", "is_used"),
    [("inside", True), ("near", True), ("far", False), ("unknown level", False)],
)
def test_only_predictions_inside_or_near_the_data_are_used(trust, is_used):
    model = Line(trust)
    found = estimates_of(cluster_of(["a"]), model).of(read_task("size=2"))
    assert found.by_type[0].time.value == 2
    assert found.by_type[0].time.is_known is is_used
    assert np.isfinite(found.time_s[0]) == is_used


def test_values_of_another_kind_are_other_rows():
    found = estimates_of(cluster_of([True, 1, "1"]), Line()).of(read_task("size=1"))
    assert found.time_s.tolist() == [len("True"), len("1"), len("1")]


@given(
    kinds=st.lists(st.sampled_from(["a", "bb", "ccc"]), min_size=1, max_size=5),
    sizes=st.lists(st.sampled_from([-1, 1, 2.5, 7]), min_size=1, max_size=5),
)
def test_together_they_are_predicted_as_each_type_and_task_alone(kinds, sizes):
    tasks = [Task(features={"size": size}) for size in sizes]
    estimates = estimates_of(cluster_of(kinds), Line())
    estimates.prefetch(tasks)
    for task in tasks:
        together = estimates.of(task)
        for i, kind in enumerate(kinds):
            alone = estimates_of(cluster_of([kind]), Line()).of(task)
            assert together.time_s[i] == pytest.approx(alone.time_s[0], nan_ok=True)
            assert together.by_type[i].time.remark == alone.by_type[0].time.remark
