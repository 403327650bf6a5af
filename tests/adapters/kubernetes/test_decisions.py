"""What the extender decides, from a state that the test fills itself."""

import gc
import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.adapters.kubernetes.extender import Extender
from foretell.adapters.kubernetes.metrics import SchedulerMetrics
from foretell.adapters.kubernetes.state import open_state
from foretell.adapters.kubernetes.state_handler import StateHandler
from foretell.adapters.kubernetes.watching import ADDED
from foretell.corun.profile import write_profile

from ...corun.jobs import made_up
from .kubelets import pod

TYPES = {"fast": ("iterations / 10", "iterations * 10"), "frugal": ("iterations", "iterations")}
CLUSTER = {
    "policy": {"H": 1.0},
    "node_type": [
        {"name": name, "selector": {"kind": name}, "capacity": {"cpu": 4}, "time_s": time,
         "energy_j": energy}
        for name, (time, energy) in TYPES.items()
    ],
}  # fmt: skip


def node(name, kind, cpu="4"):
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name, "labels": {"kind": kind}},
        "status": {"allocatable": amounts, "conditions": ready},
    }


def task(name, *, at=None, **annotations):
    given = {f"foretell/{key}": value for key, value in annotations.items()}
    found = pod(name, annotations=given, **({} if at is None else {"nodeName": at}))
    found["metadata"] |= {"uid": name, "namespace": "default"}
    return found


def see(state, item):
    """Let the state see a pod, as a watch does."""
    StateHandler(state, "pods").change(ADDED, item)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def opened(clock):
    """Return a state of nodes by name and kind, and what answers from it."""

    def make(nodes, cluster=CLUSTER, **options):
        state = open_state(cluster, clock=clock)
        for name, kind in nodes.items():
            StateHandler(state, "nodes").change(ADDED, node(name, kind))
        extender = Extender(state, SchedulerMetrics(), **options)

        def scores(item, names=tuple(nodes)):
            body = json.dumps({"pod": item, "nodenames": list(names)}).encode()
            answer = json.loads(extender.prioritize(body))
            return {entry["Host"]: entry["Score"] for entry in answer}

        return state, scores

    return make


def test_nodes_whose_pods_slow_a_pod_score_less(opened, tmp_path):
    write_profile(made_up("wide", cores=4.0), tmp_path / "wide.profile")
    profiles = {"wide": str(tmp_path / "wide.profile")}
    state, scores = opened({"a": "fast", "b": "fast"}, {**CLUSTER, "profiles": profiles})
    see(state, task("there", at="a", iterations=100, profile="wide"))
    see(state, task("p", iterations=100, H=0, profile="wide"))
    found = scores(task("p"))
    assert found["a"] < found["b"] == 10
    see(state, task("calm", iterations=100, H=0))
    assert len(set(scores(task("calm")).values())) == 1


def test_the_best_node_follows_the_weight_of_the_pod(opened):
    _, scores = opened({"a": "fast", "b": "frugal"})
    saving, urgent = (scores(task("p", iterations=100, H=H)) for H in (1, 0))
    assert saving["b"] == urgent["a"] == 10
    assert saving["a"] < 10 > urgent["b"]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A model of the time of 100 to 1,000 iterations, at a tenth of a second for each."""
    output = tmp_path_factory.mktemp("fitted") / "model"
    iterations = np.repeat(np.arange(100, 1001, 50), 3)
    noise = np.random.default_rng(0).normal(1, 0.02, len(iterations))
    runs = pd.DataFrame({"iterations": iterations, "time_s": iterations * 0.001 * noise})
    campaign = {
        "data": {"target": "time_s"},
        "techniques": {"LRRidge": {"alpha": 1e-6}},
        "search": {"splits": {"method": "KFold", "folds": 3}},
        "validation": {"method": "KFold", "folds": 3},
    }
    foretell.fit_model(campaign, runs, output=output)
    return output


def test_a_prediction_far_outside_the_data_is_no_reward(opened, fitted):
    # By its model, this type would be a hundred times faster than any other.
    modeled = {"name": "modeled", "selector": {"kind": "modeled"}, "capacity": {"cpu": 4},
               "models": str(fitted)}  # fmt: skip
    cluster = {"policy": {"H": 0.0}, "node_type": [*CLUSTER["node_type"], modeled]}
    nodes = {"a": "fast", "b": "frugal", "c": "modeled"}
    _, scores = opened(nodes, cluster)
    inside, far = (scores(task(f"p{i}", iterations=i)) for i in (500, 1_000_000))
    assert inside["c"] == 10 > inside["a"] >= inside["b"]
    assert far["a"] == 10
    assert far["c"] == (far["a"] + far["b"]) // 2


@pytest.mark.parametrize("formula", ["iterations - 1000", "0 * iterations", "1 / (iterations - 5)"])
def test_a_prediction_that_is_no_positive_number_is_no_reward(opened, formula):
    broken = {"name": "broken", "selector": {"kind": "broken"}, "capacity": {"cpu": 4},
              "time_s": formula, "energy_j": formula}  # fmt: skip
    cluster = {**CLUSTER, "node_type": [*CLUSTER["node_type"], broken]}
    _, scores = opened({"a": "fast", "b": "frugal", "c": "broken"}, cluster)
    found = scores(task("p", iterations=5))
    assert found["b"] == 10
    assert found["c"] == (found["a"] + found["b"]) // 2


def test_a_burst_of_pods_fills_one_node_after_the_other_when_energy_counts(opened):
    state, scores = opened({"a": "frugal", "b": "frugal"})
    first = task("first", iterations=100)
    see(state, first)
    assert scores(first) == {"a": 10, "b": 10}  # still equal; a is assumed
    assert scores(task("second", iterations=100)) == {"a": 10, "b": 9}


def test_a_pod_that_is_asked_about_again_counts_once(opened):
    state, scores = opened({"a": "frugal", "b": "frugal"})
    first = task("first", iterations=100)
    see(state, first)
    for _ in range(3):
        assert scores(first) == {"a": 10, "b": 10}
    assert state.fleet.n_tasks.sum() == 1


def test_a_pod_that_is_bound_elsewhere_counts_there(opened):
    state, scores = opened({"a": "frugal", "b": "frugal"})
    see(state, task("first", iterations=100))
    scores(task("first", iterations=100))
    see(state, task("first", iterations=100, at="b"))
    assert scores(task("second", iterations=100)) == {"a": 9, "b": 10}


def test_a_pod_that_is_never_bound_stops_counting_after_a_while(opened, clock):
    state, scores = opened({"a": "frugal", "b": "frugal"})
    see(state, task("first", iterations=100))
    scores(task("first", iterations=100))
    assert state.fleet.n_tasks.sum() == 1
    clock.now += 60
    assert scores(task("second", iterations=100)) == {"a": 10, "b": 10}
    assert state.fleet.n_tasks.sum() == 0


def test_a_dry_run_counts_nothing(opened):
    state, scores = opened({"a": "frugal", "b": "frugal"}, dry_run=True)
    see(state, task("first", iterations=100))
    scores(task("first", iterations=100))
    assert state.fleet.n_tasks.sum() == 0


def test_wrong_annotations_are_complained_of_once_and_only_for_pods_that_there_are(opened):
    said = []
    state, scores = opened(
        {"a": "fast"}, complain=lambda pod, _, text: said.append((pod.name, text))
    )
    see(state, task("real", iterations=100, H=7))
    for name in ("real", "made-up", "real"):
        scores(task(name, iterations=100, H=7))
    assert [name for name, _ in said] == ["real"]
    assert "foretell/H" in said[0][1]


def test_a_pod_that_is_seen_only_after_the_question_is_complained_of_and_counted(opened, caplog):
    """Its watch may be slower than kube-scheduler."""
    said = []
    state, scores = opened(
        {"a": "frugal", "b": "frugal"}, complain=lambda pod, _, text: said.append((pod.name, text))
    )
    early = task("early", iterations=100, H=7)
    assert scores(early) == {"a": 10, "b": 10}
    assert not said
    see(state, early)
    assert [name for name, _ in said] == ["early"]
    assert "default/early: annotation foretell/H" in caplog.text
    assert state.records["early"].assumed == "a"
    assert scores(task("second", iterations=100)) == {"a": 10, "b": 9}
    see(state, task("early", iterations=100, H=7, at="b"))  # said once; counted where it is
    assert len(said) == 1
    assert state.fleet.n_tasks.tolist() == [0, 1]


def test_a_pod_that_lacks_a_feature_is_told_so_also_if_it_is_seen_later(opened):
    said = []
    state, scores = opened(
        {"a": "frugal"}, complain=lambda pod, reason, text: said.append((pod.name, reason, text))
    )
    scores(task("early"))
    assert not said
    see(state, task("early"))
    see(state, task("known"))
    scores(task("known"))
    assert [(name, reason) for name, reason, _ in said] == [
        ("early", "NoPrediction"), ("known", "NoPrediction")
    ]  # fmt: skip
    assert all("needs 'iterations'" in text for _, _, text in said)


def test_a_pod_that_is_bound_before_it_is_seen_is_complained_of_and_counted_where_it_is(opened):
    said = []
    state, scores = opened(
        {"a": "frugal", "b": "frugal"}, complain=lambda pod, _, text: said.append(pod.name)
    )
    scores(task("early", iterations=100, H=7))
    see(state, task("early", iterations=100, H=7, at="b"))
    assert said == ["early"]
    assert state.fleet.n_tasks.tolist() == [0, 1]


def test_a_pod_that_is_seen_long_after_the_question_is_not_counted(opened, clock):
    state, scores = opened({"a": "frugal", "b": "frugal"})
    scores(task("early", iterations=100))
    clock.now += 60
    see(state, task("early", iterations=100))
    assert state.fleet.n_tasks.sum() == 0


def test_a_dry_run_complains_of_pods_that_are_seen_later_and_counts_nothing(opened):
    said = []
    state, scores = opened(
        {"a": "frugal"}, dry_run=True, complain=lambda pod, _, text: said.append(pod.name)
    )
    scores(task("early", iterations=100, H=7))
    see(state, task("early", iterations=100, H=7))
    assert said == ["early"]
    assert state.fleet.n_tasks.sum() == 0


def test_of_many_pods_that_are_not_there_only_the_last_are_remembered(opened):
    state, scores = opened({"a": "frugal"})
    for i in range(3_000):  # more than are remembered
        scores(task(f"made-up-{i}"))
    for i in (0, 2_999):
        see(state, task(f"made-up-{i}"))
    assert [r.assumed for r in state.records.values()] == ["", ""]  # nothing is known of them
    scores(task("first", iterations=100))
    for i in range(3_000):
        scores(task(f"other-{i}", iterations=100))
    see(state, task("first", iterations=100))
    assert state.records["first"].assumed == ""
    see(state, task("other-2999", iterations=100))
    assert state.records["other-2999"].assumed == "a"


LARGE = "x" * 1_000_000


def large(name, part):
    """A pod of which one part is large."""
    found = task(name, iterations=100, **({"note": LARGE} if part == "annotation" else {}))
    if part == "uid":
        found["metadata"]["uid"] = LARGE
    if part == "selector":
        found["spec"]["nodeSelector"] = {"kind": LARGE}
    elif part == "requests":
        found["spec"]["containers"][0]["resources"]["requests"][f"example.com/{LARGE}"] = "1"
    return found


@pytest.mark.parametrize("part", ["node name", "annotation", "selector", "requests", "uid"])
def test_nothing_is_kept_of_pods_and_nodes_that_are_not_there(opened, part):
    _, scores = opened({"a": "fast", "b": "frugal"})
    names = ["a", "b", *([LARGE] if part == "node name" else [])]
    wanted = scores(task("made-up", iterations=100))
    tracemalloc.start()
    try:
        assert scores(large("made-up", part), names).items() >= wanted.items()
        gc.collect()
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < len(LARGE) / 2


def test_a_pod_that_is_there_is_the_one_that_was_watched_whatever_is_sent(opened):
    state, scores = opened({"a": "fast", "b": "frugal"})
    see(state, task("real", iterations=100, H=0))
    assert scores(task("real", iterations=100, H=1))["a"] == 10


def test_a_pod_is_not_counted_on_a_node_that_is_not_there(opened):
    state, scores = opened({"a": "fast"})
    see(state, task("real", iterations=100))
    assert scores(task("real", iterations=100), ["nowhere", "a"]) == {"nowhere": 9, "a": 10}
    assert state.records["real"].assumed == "a"
