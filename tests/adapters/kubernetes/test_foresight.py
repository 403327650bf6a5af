"""Tasks of waiting pods are predicted before anybody asks."""

from foretell.adapters.kubernetes.foresight import Foresight
from foretell.adapters.kubernetes.state import open_state

from .control_plane import wait_until
from .kubelets import pod
from .standalone.test_scheduler import break_models

CLUSTER = {
    "node_type": [
        {"name": "one", "selector": {"a": "b"}, "capacity": {"cpu": 4}, "time_s": "iterations"},
    ]
}


def put(state, name, iterations):
    item = pod(name, annotations={"foretell/iterations": iterations})
    item["metadata"] |= {"uid": name, "namespace": "default"}
    with state.lock:
        state.put_pod(item)
    return state.task(state.records[name])[0]


def test_all_tasks_that_wait_are_predicted_and_each_only_once():
    state = open_state(CLUSTER)
    tasks = [put(state, f"p{i}", 100 + i // 2) for i in range(6)]
    foresight = Foresight(state)
    assert foresight.predict() == 3
    assert all(state.chooser.estimates.knows(task) for task in tasks)
    assert foresight.predict() == 0


def test_a_task_that_cannot_be_predicted_holds_up_no_other():
    state = open_state(CLUSTER)
    tasks = [put(state, f"p{i}", i) for i in (12, 13, 14)]
    break_models(state)
    foresight = Foresight(state)
    while foresight.predict():
        pass
    assert [state.chooser.estimates.knows(task) for task in tasks] == [True, False, True]


def test_a_pod_that_arrives_is_predicted_in_the_background():
    state = open_state(CLUSTER)
    foresight = Foresight(state)
    foresight.start()
    try:
        task = put(state, "late", 7)
        wait_until(lambda: state.chooser.estimates.knows(task), "the prediction")
        assert state.chooser.estimates.of(task).time_s[0] == 7
    finally:
        foresight.stop()
