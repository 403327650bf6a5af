"""What pods need, what their annotations say, and which nodes they may use."""

import pytest

from foretell.adapters.kubernetes.nodes import LiveNode, Taint
from foretell.adapters.kubernetes.pods import read_needs, read_pod, read_pod_task
from foretell.adapters.kubernetes.rules import read_rules
from foretell.machines import NodeType, Resources

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def container(cpu=None, memory=None, **more):
    requests = {name: n for name, n in (("cpu", cpu), ("memory", memory)) if n is not None}
    return {"name": "c", "resources": {"requests": requests}, **more}


def item(spec=None, annotations=None, **status):
    meta = {"uid": "u", "name": "p", "namespace": "n", "annotations": annotations or {}}
    return {"metadata": meta, "spec": {"containers": [container("1")], **(spec or {})},
            "status": status}  # fmt: skip


def node(labels=None, taints=(), name="a"):
    return LiveNode(name, NodeType("t", Resources(cpus=4)), labels or {}, tuple(taints))


def test_a_pod_needs_the_sum_of_its_containers():
    spec = {"containers": [container("500m", "1Gi"), container("250m", "512Mi")]}
    assert read_needs(spec) == Resources(cpus=0.75, memory_bytes=3 * 2**29)


def test_a_large_first_step_and_overhead_count():
    spec = {
        "containers": [container("1", "1Gi")],
        "initContainers": [container("4", "100Mi"), container("2", "200Mi")],
        "overhead": {"cpu": "100m", "memory": "50Mi"},
    }
    assert read_needs(spec) == Resources(cpus=4.1, memory_bytes=2**30 + 50 * 2**20)


def test_a_step_that_goes_on_is_added_to_the_containers_and_to_later_steps():
    spec = {
        "containers": [container("1")],
        "initContainers": [container("1", restartPolicy="Always"), container("2")],
    }
    assert read_needs(spec).cpus == 3
    spec["initContainers"][1] = container("500m")
    assert read_needs(spec).cpus == 2


def test_requests_of_the_pod_as_a_whole_win():
    spec = {"containers": [container("1", "1Gi")], "resources": {"requests": {"cpu": "3"}}}
    assert read_needs(spec) == Resources(cpus=3, memory_bytes=2**30)


def test_annotations_of_the_pod_win_over_those_of_its_namespace():
    pod = read_pod(item(annotations={"foretell/H": "0.2", "foretell/iterations": "800",
                                     "foretell/class": "kmeans", "other/x": "1"}))  # fmt: skip
    of_namespace = {"foretell/H": "0.9", "foretell/migratable": "resume", "foretell/size": "2.5"}
    task, complaints = read_pod_task(pod, of_namespace)
    assert task.H == 0.2
    assert task.migratable == "resume"
    assert task.features == {"iterations": 800, "class": "kmeans", "size": 2.5}
    assert task.name == "n/p"
    assert complaints == []


def test_a_number_that_is_too_large_for_arithmetic_is_a_text():
    task, _ = read_pod_task(read_pod(item(annotations={"foretell/size": "9" * 400})), {})
    assert task.features == {"size": "9" * 400}


@pytest.mark.parametrize("wrong", ["1.5", "-0.1", "nan", "much", ""])
def test_a_wrong_weight_is_named_and_the_default_used(wrong):
    task, complaints = read_pod_task(read_pod(item(annotations={"foretell/H": wrong})), {})
    assert task.H is None
    assert "foretell/H" in complaints[0]
    assert "from 0 to 1" in complaints[0]


@pytest.mark.parametrize(
    ("key", "remedy"),
    [("h", "write foretell/H"), ("cpus", "those requested"), ("memory_mib", "those requested")],
)
def test_annotations_that_would_not_do_what_they_seem_to_are_named(key, remedy):
    task, complaints = read_pod_task(read_pod(item(annotations={f"foretell/{key}": "30"})), {})
    assert task.columns["cpus"] == task.needs.cpus
    assert task.columns["memory_mib"] == task.needs.memory_bytes / 2**20
    (complaint,) = complaints
    assert f"foretell/{key}" in complaint
    assert remedy in complaint


def test_an_unknown_way_to_move_is_named_and_means_never():
    pod = read_pod(item(annotations={"foretell/migratable": "sometimes"}))
    task, complaints = read_pod_task(pod, {})
    assert task.migratable == "never"
    assert "foretell/migratable" in complaints[0]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
         "spec.volumes[0].persistentVolumeClaim"),
        ({"affinity": {"podAntiAffinity": {REQUIRED: [{}]}}},
         "spec.affinity.podAntiAffinity"),
        ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "spec.topologySpreadConstraints[0]"),
        ({"containers": [container(ports=[{"containerPort": 80, "hostPort": 80}])]},
         "spec.containers[0].ports.hostPort"),
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims"),
    ],
)  # fmt: skip
def test_fields_that_tie_a_pod_to_nodes_are_named(spec, field):
    assert read_pod(item(spec)).unchecked == (field,)


def test_fields_that_tie_a_pod_to_no_node_are_not_named():
    spec = {
        "volumes": [{"name": "t", "projected": {}}, {"name": "e", "emptyDir": {}}],
        "topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}],
        "containers": [container(ports=[{"containerPort": 80}])],
        "affinity": {"nodeAffinity": {}},
    }
    assert read_pod(item(spec)).unchecked == ()


def test_a_finished_pod_and_one_being_deleted_are_seen():
    assert read_pod(item(phase="Succeeded")).is_finished
    deleting = item()
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert read_pod(deleting).is_deleting
    assert read_pod(item({"schedulingGates": [{"name": "g"}]})).is_gated


def affinity(*expressions, fields=()):
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {REQUIRED: required}}}


@pytest.mark.parametrize(
    ("operator", "values", "matching", "other"),
    [
        ("In", ["a", "b"], {"k": "a"}, {"k": "c"}),
        ("NotIn", ["a"], {}, {"k": "a"}),
        ("Exists", [], {"k": ""}, {}),
        ("DoesNotExist", [], {}, {"k": "a"}),
        ("Gt", ["4"], {"k": "5"}, {"k": "4"}),
        ("Lt", ["4"], {"k": "3"}, {"k": "many"}),
    ],
)
def test_required_node_affinity_decides(operator, values, matching, other):
    rules = read_rules(affinity({"key": "k", "operator": operator, "values": values}))
    assert rules.why_not(node(matching)) == ""
    assert "node affinity" in rules.why_not(node(other))


def test_affinity_by_name_and_terms_of_which_one_is_enough():
    by_name = {"key": "metadata.name", "operator": "In", "values": ["b"]}
    rules = read_rules(affinity(fields=[by_name]))
    assert rules.why_not(node(name="b")) == ""
    assert rules.why_not(node(name="a")) != ""
    empty_matches_nothing = read_rules(affinity())
    assert empty_matches_nothing.why_not(node()) != ""


def test_a_node_selector_needs_all_its_labels():
    rules = read_rules({"nodeSelector": {"disk": "ssd", "zone": "1"}})
    assert rules.why_not(node({"disk": "ssd", "zone": "1", "more": "x"})) == ""
    assert "node selector" in rules.why_not(node({"disk": "ssd"}))


@pytest.mark.parametrize(
    ("toleration", "is_tolerated"),
    [
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "k", "value": "v", "effect": "NoExecute"}, False),
    ],
)
def test_taints_keep_pods_off_that_do_not_tolerate_them(toleration, is_tolerated):
    rules = read_rules({"tolerations": [toleration]})
    assert (rules.why_not(node(taints=[Taint("k", "v")])) == "") == is_tolerated


def test_a_taint_that_only_prefers_other_nodes_keeps_no_pod_off():
    assert read_rules({}).why_not(node(taints=[Taint("k", "v", "PreferNoSchedule")])) == ""
