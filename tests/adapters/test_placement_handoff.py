"""Placements in the words of other schedulers, read by those schedulers' own rules."""

import json
import math

import pytest
import yaml
from click.testing import CliRunner

from foretell.adapters.placement_handoff import hand_off_placement
from foretell.cli._main import cli
from foretell.cluster.place import place_task
from foretell.decide.placement.cluster import read_cluster
from foretell.errors import UsageError

TASK = "cpu=2,memory=1Gi,iterations=100"
HOSTILE = 'x"\n- y: #'


def node_type(name, seconds, joules, **more):
    return {
        "name": name, "count": 3, "capacity": {"cpu": 4, "memory": "8Gi"},
        "selector": {"kind": name}, "time_s": f"{seconds} * iterations",
        "energy_j": f"{joules} * iterations", "power": {"k0": 2.5, "k1": 0.5, "k2": 0.03}, **more,
    }  # fmt: skip


@pytest.fixture
def cluster():
    return {"node_type": [node_type("slow", 4, 1), node_type("Fast_1", 1, 5)]}


def peaks_jump(coefficients, u, du):
    """Return the watts that PEAKS expects when u grows by du percent."""
    k1, k2 = coefficients["k1"], coefficients["k2"]
    return k1 * (math.exp(k2 * (u + du)) - math.exp(k2 * u))


@pytest.mark.parametrize(
    "power",
    [{"power": {"k0": 1.9, "k1": 0.1, "k2": 0.034}}, {"power": None, "idle_w": 30, "busy_w": 150}],
    ids=["curve", "line"],
)
def test_peaks_expects_the_power_of_the_node_type(power):
    nodes = ["a-1", "a-2", "a-3"]
    cluster = read_cluster({"node_type": [node_type("a", 1, 1, nodes=nodes, **power)]})
    found = json.loads(hand_off_placement(cluster, None, "peaks"))
    assert sorted(found) == ["a-1", "a-2", "a-3"]
    kind = cluster.node_type[0].node_type
    rise = kind.busy_w - kind.idle_w
    for u, du in ((0, 25), (50, 25), (0, 100)):
        true = kind.watts((u + du) / 100) - kind.watts(u / 100)
        assert peaks_jump(found["a-2"], u, du) == pytest.approx(true, abs=0.003 * rise)
    assert found["a-1"]["k0"] + found["a-1"]["k1"] == pytest.approx(kind.idle_w)


def test_peaks_gets_no_file_in_which_a_node_would_be_free(cluster):
    cluster["node_type"][0] |= {"power": None, "nodes": ["x", "y", "z"]}
    with pytest.raises(UsageError, match="node type slow: its power is not known"):
        hand_off_placement(cluster, None, "peaks")


@pytest.mark.parametrize("count", [None, 3])
def test_peaks_gets_no_names_that_are_not_in_the_file(cluster, count):
    """Names that foretell makes up from a count exist in no Kubernetes cluster."""
    cluster["node_type"][0] = node_type("slow", 4, 1, count=count)
    with pytest.raises(UsageError, match=r"node type slow: .*write nodes = "):
        hand_off_placement(cluster, None, "peaks")


def test_an_affinity_gets_no_names_that_are_not_in_the_file(cluster):
    cluster["node_type"][0] = node_type("slow", 4, 1, selector={})
    with pytest.raises(UsageError, match=r"node type slow: .*write selector = .* or nodes = "):
        hand_off_placement(cluster, TASK, "affinity")


def terms(text):
    affinity = yaml.safe_load(text)["affinity"]["nodeAffinity"]
    return affinity["preferredDuringSchedulingIgnoredDuringExecution"]


@pytest.mark.parametrize("H", [0, 0.3, 1])
def test_affinity_weighs_types_by_their_scores(cluster, H):
    found = terms(hand_off_placement(cluster, TASK, "affinity", H=H))
    scores = {node.type: node.score for node in place_task(cluster, TASK, H=H).nodes}
    best = max(scores.values())
    weights = {
        term["preference"]["matchExpressions"][0]["values"][0]: term["weight"] for term in found
    }
    assert weights == {name: round(100 * score / best) for name, score in scores.items()}
    assert found[0]["preference"] == {
        "matchExpressions": [
            {"key": "kind", "operator": "In", "values": ["slow" if H == 1 else "Fast_1"]}
        ]
    }


def test_affinity_finds_nodes_without_labels_by_their_host_names(cluster):
    cluster["node_type"][0] = node_type("slow", 4, 1, selector={}, count=None, nodes=["p", "q"])
    term = terms(hand_off_placement(cluster, TASK, "affinity", H=1))[0]
    assert term["preference"]["matchExpressions"] == [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["p", "q"]}
    ]


@pytest.mark.parametrize("policy", ["geometric", "peaks"])
def test_weights_of_different_types_differ_and_are_legal(policy):
    types = [
        node_type(f"t{i}", 1 + i / 1e6, 1, power={"k0": 1, "k1": 1 + i / 1e6, "k2": 0.03})
        for i in range(30)
    ]
    found = terms(hand_off_placement({"node_type": types}, TASK, "affinity", H=0.5, policy=policy))
    weights = [term["weight"] for term in found]
    assert len(set(weights)) == 30
    assert all(1 <= weight <= 100 for weight in weights)
    assert [t["preference"]["matchExpressions"][0]["values"] for t in found] == [
        [f"t{i}"] for i in range(30)
    ]


def test_what_is_in_use_now_and_a_type_without_known_nodes_do_not_matter(cluster):
    before = hand_off_placement(cluster, TASK, "affinity")
    cluster["node"] = [{"name": f"slow-{i}", "used": {"cpu": 4}} for i in (1, 2, 3)]
    assert hand_off_placement(cluster, TASK, "affinity") == before
    del cluster["node"]
    cluster["node_type"][0]["count"] = None
    assert hand_off_placement(cluster, TASK, "affinity") == before


@pytest.mark.parametrize(("H", "order"), [(0, ["fast-1", "slow"]), (1, ["slow", "fast-1"])])
def test_kueue_tries_the_best_flavor_first_up_to_what_its_nodes_have(cluster, H, order):
    cluster["node_type"][0]["capacity"] = {"cpu": 2.5, "memory": "8Gi", "gpu": 1}
    *flavors, queue = yaml.safe_load_all(hand_off_placement(cluster, TASK, "kueue", H=H))
    assert {f["metadata"]["name"]: f["spec"]["nodeLabels"] for f in flavors} == {
        "slow": {"kind": "slow"}, "fast-1": {"kind": "Fast_1"}
    }  # fmt: skip
    (group,) = queue["spec"]["resourceGroups"]
    assert [flavor["name"] for flavor in group["flavors"]] == order
    quotas = {
        flavor["name"]: {r["name"]: r["nominalQuota"] for r in flavor["resources"]}
        for flavor in group["flavors"]
    }
    assert quotas["slow"] == {"cpu": "7500m", "memory": "24576Mi", "nvidia.com/gpu": "3"}
    assert quotas["fast-1"] == {"cpu": "12", "memory": "24576Mi", "nvidia.com/gpu": "0"}
    for flavor in group["flavors"]:  # Kueue wants them in one order
        assert [r["name"] for r in flavor["resources"]] == group["coveredResources"]


def test_names_and_labels_cannot_break_out_of_the_text(cluster):
    cluster["node_type"][0]["selector"] = {HOSTILE: HOSTILE}
    flavor = next(yaml.safe_load_all(hand_off_placement(cluster, TASK, "kueue", H=1)))
    assert flavor["spec"]["nodeLabels"] == {HOSTILE: HOSTILE}


@pytest.mark.parametrize(
    ("change", "form", "expected"),
    [
        ({"selector": {}}, "kueue", "node type slow: a flavor of Kueue finds nodes by"),
        ({"count": None}, "kueue", "node type slow: the quota of a flavor needs the number"),
        ({"name": "fast.1"}, "kueue", "cannot be named 'fast-1' in Kubernetes"),
        ({}, "kueu", "Did you mean 'kueue'"),
    ],
)
def test_what_cannot_be_written_is_refused(cluster, change, form, expected):
    cluster["node_type"][0] |= change
    with pytest.raises(UsageError, match=expected):
        hand_off_placement(cluster, TASK, form)


@pytest.mark.parametrize(
    ("task", "expected"),
    [("cpu=9", "no type of node can take this task"), ("cpu=1", "needs 'iterations'")],
)
def test_a_task_that_nothing_is_known_about_is_not_handed_off(cluster, task, expected):
    with pytest.raises(UsageError, match=expected):
        hand_off_placement(cluster, task, "affinity")


def test_the_command_prints_what_python_returns(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text(
        '[[node_type]]\nname = "a"\nnodes = ["x", "y"]\nselector = { kind = "a" }\ntime_s = 5\n'
        'capacity = { cpu = 4, memory = "1Gi" }\nidle_w = 1\nbusy_w = 9\n'
    )
    for form in ("peaks", "affinity", "kueue"):
        task = [] if form == "peaks" else ["--task", "cpu=1"]
        shown = CliRunner().invoke(cli, ["cluster", "place", str(path), *task, "--as", form])
        assert shown.exit_code == 0, shown.output
        assert shown.stdout == hand_off_placement(path, task[1] if task else None, form)
    shown = CliRunner().invoke(cli, ["cluster", "place", str(path), "--as", "kueue"])
    assert shown.exit_code == 2
    assert "--task" in shown.stderr
