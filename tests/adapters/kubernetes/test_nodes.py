"""Nodes of Kubernetes: their type, what they offer, and what keeps pods off."""

import pytest

from foretell.adapters.kubernetes.nodes import NO_TYPE, NodeTypes, Taint, live_cluster, read_node
from foretell.decide.placement.cluster import read_cluster
from foretell.errors import UsageError

SERVER = {"name": "server", "selector": {"type": "server"}, "capacity": {"cpu": 32}}
BOARD = {"name": "board", "nodes": ["rpi"], "capacity": {"cpu": 4},
         "power": {"k0": 1.9, "k1": 0.1, "k2": 0.034}}  # fmt: skip


def types(*tables):
    return NodeTypes(live_cluster(read_cluster({"node_type": list(tables)})))


def item(name="a", labels=None, allocatable=None, ready="True", **spec):
    has = {"cpu": "7910m", "memory": "16Gi", "pods": "110"} if allocatable is None else allocatable
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": has, "conditions": [{"type": "Ready", "status": ready}]},
    }


def test_a_node_has_the_type_of_its_labels_or_name_and_its_own_amounts():
    known = types(SERVER, BOARD)
    server = read_node(item(labels={"type": "server", "more": "x"}), known)
    assert server.type.name == "server"
    assert server.type.capacity.cpus == 7.91
    board = read_node(item("rpi"), known)
    assert board.type.name == "board"
    assert board.type.watts(0.0) == pytest.approx(2.0)


def test_a_node_that_matches_no_type_is_kept_and_unknown():
    found = read_node(item(labels={"type": "laptop"}), types(SERVER))
    assert found.type.name == NO_TYPE
    assert not found.problem


def test_a_node_that_matches_two_types_is_refused_with_both_names():
    known = types(SERVER, {**SERVER, "name": "large", "selector": {"size": "l"}})
    node = item(labels={"type": "server", "size": "l"})
    with pytest.raises(UsageError, match=r"node a matches several node types: server, large"):
        known.check("a", node["metadata"]["labels"])
    assert read_node(node, known).type.name == NO_TYPE


def test_a_node_type_without_a_selector_is_refused():
    with pytest.raises(UsageError, match="node type server has no selector"):
        types({"name": "server", "count": 2, "capacity": {"cpu": 32}})


@pytest.mark.parametrize(
    ("allocatable", "problem"),
    [
        ({}, "no CPUs and no pods"),
        ({"cpu": "4", "memory": "1Gi"}, "no pods"),
        ({"cpu": "-4", "pods": "110"}, "cannot be read"),
        ({"cpu": "4", "pods": "110", "memory": "much"}, "cannot be read"),
    ],
)
def test_a_node_without_usable_amounts_is_not_used_and_says_why(allocatable, problem):
    assert problem in read_node(item(allocatable=allocatable), types(SERVER)).problem


def test_readiness_taints_and_cordons_are_read():
    node = item(ready="Unknown", unschedulable=True, taints=[{"key": "k", "effect": "NoExecute"}])
    found = read_node(node, types(SERVER))
    assert not found.is_ready
    assert found.taints == (
        Taint("k", "", "NoExecute"),
        Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),
    )
