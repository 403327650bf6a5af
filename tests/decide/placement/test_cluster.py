"""Cluster files: what they mean, and that mistakes in them are named with place and remedy."""

import math

import pytest

from foretell.decide.placement.cluster import read_cluster
from foretell.errors import UsageError

ARM = {"name": "arm", "count": 2, "capacity": {"cpu": 4, "memory": "1Gi"}}


def with_type(**changes):
    table = {**ARM, **changes}
    return {"node_type": [{k: v for k, v in table.items() if v is not None}]}


def test_a_file_gives_nodes_types_and_power(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text(
        """
[policy]
H = 1
[[node_type]]
name = "arm"
count = 2
capacity = { cpu = 4, memory = "1Gi", pods = 110 }
power = { k0 = 1.9, k1 = 0.1, k2 = 0.034 }
[[node_type]]
name = "epyc"
nodes = ["big"]
capacity = { cpu = 32, memory = "64Gi" }
idle_w = 40
busy_w = 155
[[node]]
name = "arm-2"
used = { cpu = 1 }
ready = false
"""
    )
    cluster = read_cluster(path)
    nodes, ready = cluster.nodes()
    assert [node.name for node in nodes] == ["arm-1", "arm-2", "big"]
    assert ready == [True, False, True]
    assert nodes[1].free.cpus == 3
    assert nodes[0].free.memory_bytes == 2**30
    assert cluster.folder == tmp_path
    arm, epyc = (table.node_type for table in cluster.node_type)
    assert arm.watts(0.5) == pytest.approx(1.9 + 0.1 * math.exp(0.034 * 50))
    assert (arm.idle_w, arm.busy_w) == (2.0, pytest.approx(1.9 + 0.1 * math.exp(3.4)))
    assert epyc.watts(0.5) == pytest.approx((40 + 155) / 2)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"node_type": []}, ["node_type", "must not be empty"]),
        ({}, ["node_type", "required"]),
        ({**with_type(), "policy": {"H": 1.5}}, ["policy.H", "0 to 1", "1.5", "energy alone"]),
        ({**with_type(), "policy": {"H": math.nan}}, ["policy.H", "0 to 1", "nan"]),
        ({**with_type(), "policy": {"energy": "all"}}, ["policy.energy", "'marginal'", "'all'"]),
        ({**with_type(), "policy": {"h": 1}}, ["policy", "'h'"]),
        ({**with_type(), "migration": {"every_s": 0}}, ["migration.every_s", "more than 0"]),
        (with_type(count=None), ["node_type[0]", "arm has no nodes", "selector"]),
        (with_type(count=0), ["node_type[0].count", "at least 1"]),
        (with_type(capacity=None), ["node_type[0].capacity", "required"]),
        (with_type(capacity={"memory": "1Gi"}), ["node_type[0].capacity", "no CPUs", "cpu = 4"]),
        (with_type(capacity={"cpu": -1}), ["node_type[0].capacity", "cpu", "-1", "500m"]),
        (with_type(capacity={"cpu": "four"}), ["node_type[0].capacity", "'four'"]),
        (with_type(nodes=["a"]), ["node_type[0]", "count is 2", "1"]),
        (
            with_type(time_s="iterations /"),
            ["node_type[0].time_s", "iterations /", "such as 2 + iterations * 0.4 / cpus"],
        ),
        (with_type(idle_w=5, busy_w=2), ["node_type[0]", "busy_w", "exchange"]),
        (
            with_type(idle_w=5, power={"k0": 1, "k1": 1, "k2": 0.01}),
            ["node_type[0]", "power curve", "remove idle_w"],
        ),
        (with_type(power={"k0": 1, "k1": 1, "k2": 3}), ["power.k2", "at most 1", "3"]),
        ({"node_type": [ARM, ARM]}, ["2 node types are called 'arm'"]),
        (
            {"node_type": [ARM, {**ARM, "name": "b", "count": None, "nodes": ["arm-1"]}]},
            ["2 nodes are called 'arm-1'"],
        ),
        ({**with_type(), "node": [{"name": "arm-9"}]}, ["no node 'arm-9'", "arm-"]),
        (
            {**with_type(), "node": [{"name": "arm-1"}, {"name": "arm-1"}]},
            ["'arm-1' is described 2 times"],
        ),
        ({**with_type(), "node": [{"name": "arm-1", "used": {"cpu": -1}}]}, ["node[0].used", "-1"]),
    ],
)
def test_mistakes_are_named_with_place_rule_value_and_remedy(source, expected):
    with pytest.raises(UsageError) as error:
        read_cluster(source)
    for part in ["cluster", *expected]:
        assert part in str(error.value)


def test_a_node_that_uses_more_than_it_has_is_refused():
    source = {**with_type(), "node": [{"name": "arm-1", "used": {"cpu": 5}}]}
    with pytest.raises(UsageError, match=r"arm-1.*5 CPUs.*has 4 CPUs"):
        read_cluster(source)
