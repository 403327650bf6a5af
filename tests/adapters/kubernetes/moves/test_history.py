"""The moves that a pod made, as an annotation that another process can read."""

import pytest

from foretell.adapters.kubernetes.moves.copies import copy_of
from foretell.adapters.kubernetes.moves.history import History


def test_another_process_reads_how_long_ago_a_pod_left_its_nodes():
    history = History().after("a", 0.7, 100.0).after("b", 0.4, 160.0)
    text = history.to_text(now_s=200.0, wall_s=1_700_000_000.0)
    # The other process began later, by another monotonic clock.
    read = History.read(text, now_s=9.0, wall_s=1_700_000_030.0)
    assert (read.n_moves, read.share) == (2, 0.4)
    assert read.left == {"a": pytest.approx(9 - 130), "b": pytest.approx(9 - 70)}


def test_a_clock_that_was_set_back_does_not_shorten_the_cooldown():
    text = History().after("a", 1.0, 100.0).to_text(now_s=100.0, wall_s=2_000_000_000.0)
    assert History.read(text, now_s=5.0, wall_s=1_000_000_000.0).left == {"a": 5.0}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", '{"n": 1}', '{"n": -1, "share": 1, "left": {}}',
     '{"n": 1, "share": 7, "left": {}}', '{"n": 1, "share": 1, "left": {"a": "NaN"}}', "[" * 9999],
)  # fmt: skip
def test_an_annotation_that_cannot_be_read_counts_as_a_move_made_now(text):
    read = History.read(text, now_s=5.0, wall_s=0.0)
    assert read.n_moves == 1
    assert max(read.left.values()) == 5.0


def test_a_pod_that_did_not_move_keeps_its_share_but_waits():
    before = History().after("a", 0.5, 10.0)
    stayed = before.stayed("b", 20.0)
    assert (stayed.n_moves, stayed.share, stayed.left) == (1, 0.5, {"a": 10.0, "b": 20.0})


def test_no_history_is_no_move():
    assert History.read(None, 5.0, 5.0) == History()


def pod(name):
    return {
        "metadata": {
            "name": name, "namespace": "n", "uid": "u", "resourceVersion": "3",
            "labels": {"app": "x"}, "annotations": {"foretell/class": "c"},
            "managedFields": [1], "creationTimestamp": "t",
        },
        "spec": {"nodeName": "old", "containers": [{"name": "c"}], "tolerations": [{"key": "k"}]},
        "status": {"phase": "Running"},
    }  # fmt: skip


def test_a_copy_is_the_same_pod_on_another_node():
    found = copy_of(pod("job"), "new", "text", 1)
    assert found["metadata"] == {
        "name": "job-move-1", "namespace": "n", "labels": {"app": "x"},
        "annotations": {"foretell/class": "c", "foretell/moves": "text", "foretell/copy-of": "u"},
    }  # fmt: skip
    assert found["spec"] == {**pod("job")["spec"], "nodeName": "new"}
    assert "status" not in found


@pytest.mark.parametrize(
    ("name", "expected"),
    [("job-move-1", "job-move-2"), ("x" * 253, "x" * 246 + "-move-2"), ("move-1", "move-1-move-2")],
)
def test_names_of_copies_do_not_grow(name, expected):
    assert copy_of(pod(name), "new", "", 2)["metadata"]["name"] == expected
