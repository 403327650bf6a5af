"""The scheduler of its own on a real API server: what it binds, what it refuses, what it tells."""

import contextlib

import pytest

from ..control_plane import wait_until
from ..kubelets import SECONDS, node_of, pod
from ..replicas import Replicas
from ..test_manifests import apply, documents

CLUSTER = """
[policy]
H = 0
reserve_after_s = 0.5

[[node_type]]
name = "fast"
selector = { type = "fast" }
capacity = { cpu = 4 }
time_s = "iterations / 10"
energy_j = "iterations"

[[node_type]]
name = "slow"
selector = { type = "slow" }
capacity = { cpu = 4 }
time_s = "iterations"
energy_j = "iterations / 10"
"""
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def cluster_file(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER)
    return path


@pytest.fixture
def replicas(control_plane, template, cluster_file, tmp_path):
    kubeconfig = control_plane.kubeconfig()
    with contextlib.closing(Replicas(template, cluster_file, kubeconfig, tmp_path)) as found:
        yield found


def task(name, annotations=None, **options):
    """Describe a pod for the scheduler under test."""
    known = {"foretell/iterations": 100, **(annotations or {})}
    return pod(name, scheduler="foretell", annotations=known, **options)


def events(api, name):
    """Return reasons and messages of the events of a pod."""
    uid = api.get(f"{PODS}/{name}")["metadata"]["uid"]
    query = f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.uid={uid}"
    return [(event["reason"], event["message"]) for event in api.list(query)]


def condition(api, name):
    """Return the condition that says whether a pod has a node."""
    found = api.get(f"{PODS}/{name}")["status"].get("conditions") or []
    return next((c for c in found if c["type"] == "PodScheduled"), {})


def test_pods_go_to_the_nodes_that_their_weight_of_energy_asks_for(
    control_plane, kubelets, replicas
):
    api = control_plane.api()
    kubelets.add("f1", {"type": "fast"})
    kubelets.add("s1", {"type": "slow"})
    replica = replicas.start()
    api.create(PODS, pod("other"))
    api.create(PODS, task("quick"))
    api.create(PODS, task("frugal", {"foretell/H": 1}))
    assert node_of(api, "quick") == "f1"
    assert node_of(api, "frugal") == "s1"
    wait_until(lambda: "Scheduled" in dict(events(api, "quick")), "an event")
    assert not api.get(f"{PODS}/other")["spec"].get("nodeName")
    first = next(d for d in replica.decisions if d["pod"] == "default/quick")
    assert (first["node"], first["time_s"], first["energy_j"]) == ("f1", 10, 100)


def test_a_namespace_decides_for_pods_that_do_not(control_plane, kubelets, replicas):
    api = control_plane.api()
    kubelets.add("f1", {"type": "fast"})
    kubelets.add("s1", {"type": "slow"})
    annotated = {"metadata": {"name": "frugal", "annotations": {"foretell/H": "1"}}}
    api.create("/api/v1/namespaces", annotated)
    replicas.start()
    api.create("/api/v1/namespaces/frugal/pods", task("one"))
    assert node_of(api, "one", "frugal") == "s1"
    api.create(PODS, task("one"))
    assert node_of(api, "one") == "f1"


def test_what_it_does_not_check_is_refused_with_the_name_of_the_field(
    control_plane, kubelets, replicas
):
    api = control_plane.api()
    kubelets.add("f1", {"type": "fast"})
    replicas.start()
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    api.create(PODS, task("with-volume", volumes=[volume]))
    api.create(PODS, task("wrong-weight", {"foretell/H": 7}))
    assert node_of(api, "wrong-weight") == "f1"
    wait_until(lambda: len(events(api, "wrong-weight")) == 2, "two events")
    assert (
        "foretell/H must be a number from 0 to 1"
        in dict(events(api, "wrong-weight"))["WrongAnnotation"]
    )
    wait_until(lambda: condition(api, "with-volume"), "a condition")
    [(reason, message)] = events(api, "with-volume")
    assert reason == "FailedScheduling"
    assert "spec.volumes[0].persistentVolumeClaim" in message
    assert condition(api, "with-volume")["reason"] == "Unschedulable"
    assert not api.get(f"{PODS}/with-volume")["spec"].get("nodeName")


def test_a_request_beyond_every_node_is_told_once_and_bound_when_a_node_comes(
    control_plane, kubelets, replicas
):
    api = control_plane.api()
    kubelets.add("f1", {"type": "fast"})
    replicas.start()
    api.create(PODS, task("large", cpu=6))
    wait_until(lambda: condition(api, "large").get("reason") == "Unschedulable", "a condition")
    for i in range(3):  # news that do not help
        api.create(PODS, task(f"small-{i}", cpu="100m", annotations={SECONDS: 0.01}))
        node_of(api, f"small-{i}")
    kubelets.add("f2", {"type": "fast"}, cpu=8)
    assert node_of(api, "large") == "f2"
    wait_until(lambda: dict(events(api, "large")).get("Scheduled"), "an event")
    told = [message for reason, message in events(api, "large") if reason == "FailedScheduling"]
    assert len(told) == 1
    assert "no node could take it" in told[0]
    assert condition(api, "large")["status"] == "True"


def test_a_large_task_does_not_starve_behind_small_ones(control_plane, kubelets, replicas):
    api = control_plane.api()
    kubelets.add("f1", {"type": "fast"}, cpu=4)
    replica = replicas.start()
    # Each takes a different time, so that the node is never empty by itself.
    for i in range(6):
        api.create(PODS, task(f"small-{i}", annotations={SECONDS: 0.5 + 0.2 * i}))
    node_of(api, "small-3")
    api.create(PODS, task("large", cpu=4, annotations={SECONDS: 0.1}))
    names = (f"later-{i}" for i in range(1000))

    def is_bound():
        waiting = [p for p in api.list(PODS) if not p["spec"].get("nodeName")]
        if len(waiting) < 3:
            api.create(PODS, task(next(names), annotations={SECONDS: 0.7}))
        return api.get(f"{PODS}/large")["spec"].get("nodeName")

    wait_until(is_bound, lambda: replica.text)
    assert "default/large has waited" in replica.text
    assert not kubelets.overfull


def test_a_dry_run_decides_and_binds_and_writes_nothing(control_plane, kubelets, replicas):
    api = control_plane.api()
    kubelets.add("f1", {"type": "fast"}, cpu=1)
    kubelets.add("s1", {"type": "slow"}, cpu=1)
    replica = replicas.start("--dry-run")
    for name in ("first", "second", "third"):
        api.create(PODS, task(name))
    replica.wait("default/third waits")
    # What is decided counts for the next decision.
    decided = {d["pod"]: d["node"] for d in replica.decisions}
    assert decided == {"default/first": "f1", "default/second": "s1"}
    assert not any(p["spec"].get("nodeName") for p in api.list(PODS))
    assert not any(events(api, name) for name in ("first", "second", "third"))
    leases = api.list("/apis/coordination.k8s.io/v1/namespaces/default/leases")
    assert not any(lease["metadata"]["name"] == "foretell" for lease in leases)


def test_a_pod_that_is_deleted_while_it_waits_is_not_bound(control_plane, kubelets, replicas):
    api = control_plane.api()
    kubelets.add("f1", {"type": "fast"}, cpu=1)
    replica = replicas.start()
    api.create(PODS, task("first"))
    node_of(api, "first")
    waiting = task("deleted")
    waiting["metadata"]["finalizers"] = ["example.com/kept"]  # it stays there while it is deleted
    api.create(PODS, waiting)
    replica.wait("default/deleted waits")
    api.request("DELETE", f"{PODS}/deleted", {"gracePeriodSeconds": 100})
    api.create(PODS, task("last"))
    replica.wait("default/last waits")
    api.delete(f"{PODS}/first", gracePeriodSeconds=0)
    assert node_of(api, "last") == "f1"
    assert "default/deleted" not in [d["pod"] for d in replica.decisions]
    api.patch(f"{PODS}/deleted", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    ("user", "expected"),
    [("nobody", "does not let this user list nodes"), (None, "does not accept the credentials")],
)
def test_a_user_without_rights_is_told_what_to_do(
    control_plane, template, cluster_file, tmp_path, user, expected
):
    kubeconfig = control_plane.kubeconfig(user or "nobody", token=None if user else "wrong")
    with contextlib.closing(Replicas(template, cluster_file, kubeconfig, tmp_path)) as replicas:
        replica = replicas.start(is_ready=False)
        wait_until(lambda: not replica.is_alive(), lambda: replica.text)
    assert expected in replica.text
    assert "rbac.yaml" in replica.text or "--kubeconfig FILE" in replica.text
    assert "Traceback" not in replica.text


def test_the_account_in_the_manifest_has_the_rights_it_needs_and_no_others(
    control_plane, kubelets, template, cluster_file, tmp_path
):
    api = control_plane.api()
    apply(api, "rbac.yaml")
    apply(api, "standalone.yaml")
    account = "/api/v1/namespaces/foretell/serviceaccounts/foretell-standalone/token"
    token = api.create(account, {"spec": {}})["status"]["token"]
    own = control_plane.api(token=token)
    review = own.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
                        {"spec": {"namespace": "foretell"}})  # fmt: skip
    granted = {
        (verb, resource)
        for rule in review["status"]["resourceRules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
        if not resource.startswith("selfsubject")  # which everybody has
    }
    assert granted == {
        *((verb, what) for verb in ("list", "watch") for what in ("nodes", "pods", "namespaces")),
        ("get", "pods"), ("create", "pods/binding"), ("patch", "pods/status"),
        ("create", "events"), ("create", "leases"), ("get", "leases"), ("update", "leases"),
    }  # fmt: skip

    # The scheduler works as it is started in the Deployment, with these rights alone.
    deployment = next(d for d in documents("standalone.yaml") if d["kind"] == "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    kept = [word for word in container["args"] if word.startswith("--") and "--port" not in word]
    kubeconfig = control_plane.kubeconfig("foretell", token=token)
    with contextlib.closing(Replicas(template, cluster_file, kubeconfig, tmp_path)) as replicas:
        kubelets.add("f1", {"type": "fast"})
        replica = replicas.start(*kept)
        api.create(PODS, task("bound"))
        api.create(PODS, task("waits", cpu=40))
        assert node_of(api, "bound") == "f1"
        wait_until(lambda: condition(api, "waits"), "a condition")
        wait_until(lambda: dict(events(api, "bound")).get("Scheduled"), "an event")
        assert "(403)" not in replica.text


def test_a_right_that_is_missing_is_named_at_the_start(
    control_plane, template, cluster_file, tmp_path
):
    api = control_plane.api()
    apply(api, "rbac.yaml")  # an extender binds nothing, and needs no lease
    account = "/api/v1/namespaces/foretell/serviceaccounts/foretell/token"
    token = api.create(account, {"spec": {}})["status"]["token"]
    kubeconfig = control_plane.kubeconfig("foretell", token=token)
    with contextlib.closing(Replicas(template, cluster_file, kubeconfig, tmp_path)) as replicas:
        replica = replicas.start(is_ready=False)
        wait_until(lambda: not replica.is_alive(), lambda: replica.text)
    assert "create pods/binding" in replica.text
    assert "update leases in default" in replica.text
    assert "standalone.yaml" in replica.text


def test_a_node_of_two_types_is_refused_at_the_start(control_plane, kubelets, template, tmp_path):
    kubelets.add("f1", {"type": "fast", "also": "fast"})
    path = tmp_path / "cluster.toml"
    path.write_text(
        CLUSTER
        + '[[node_type]]\nname = "twice"\nselector = { also = "fast" }\ncapacity = { cpu = 4 }\n'
    )
    kubeconfig = control_plane.kubeconfig()
    with contextlib.closing(Replicas(template, path, kubeconfig, tmp_path)) as replicas:
        replica = replicas.start(is_ready=False)
        wait_until(lambda: not replica.is_alive(), lambda: replica.text)
    assert "node f1 matches several node types: fast, twice" in replica.text


def test_counts_and_health_are_served(control_plane, kubelets, replicas):
    import json
    import urllib.request

    kubelets.add("f1", {"type": "fast"})
    replica = replicas.start()
    url = json.loads(replica.text.splitlines()[0])["url"]
    control_plane.api().create(PODS, task("one"))
    node_of(control_plane.api(), "one")

    def is_healthy():
        with urllib.request.urlopen(f"{url}/healthz") as answer:
            return json.load(answer) == {"status": "ok"}

    # Who takes the lease lists everything again, and a watch may be cut off at any time.
    wait_until(is_healthy, lambda: replica.text)
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        assert b'foretell_decisions_total{known="all"} 1.0' in answer.read()
