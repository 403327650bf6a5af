"""Moves by processes of their own, in both modes: of owned pods, by replicas, through kills."""

import contextlib
import json
import random
import signal
import time

import pytest

from foretell.adapters.kubernetes.live import Connection, Live
from foretell.adapters.kubernetes.upkeep.upkeep import Upkeep

from ..control_plane import PATIENCE_S, wait_until
from ..kubelets import START_SECONDS, pod
from ..replicas import SHORT_S, Replicas, leader
from ..test_extender import extender_of
from ..test_manifests import apply

PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
LABELS = {"app": "x"}
CLUSTER = """
[policy]
H = 0

[migration]
enabled = true
every_s = 0.1
min_age_s = 0
min_remaining_s = 0
start_s = 1

[[node_type]]
name = "fast"
selector = { type = "fast" }
capacity = { cpu = 4 }
time_s = "iterations / 10"
energy_j = 1

[[node_type]]
name = "slow"
selector = { type = "slow" }
capacity = { cpu = 4 }
time_s = "iterations"
energy_j = 1
"""


@pytest.fixture
def cluster_file(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER)
    return path


def replica_set(scheduler):
    annotations = {"foretell/iterations": 1000, "foretell/migratable": "restart"}
    template = pod("x", annotations=annotations, scheduler=scheduler, restartPolicy="Always")
    meta = {"labels": LABELS, "annotations": template["metadata"]["annotations"]}
    return {
        "metadata": {"name": "set"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": meta, "spec": template["spec"]},
        },
    }


def where(api, path=PODS):
    """Return the nodes of pods that run and are not about to go."""
    return [
        item["spec"].get("nodeName")
        for item in api.list(path)
        if item["status"].get("phase") == "Running"
        and not item["metadata"].get("deletionTimestamp")
    ]


def moves(text):
    lines = [line for line in text.splitlines() if line.startswith('{"move"')]
    return [json.loads(line)["move"] for line in lines]


def check_move(control_plane, kubelets, scheduler, told):
    """Let a set's pod start on a slow node, and wait until it is on a fast one."""
    api = control_plane.api()
    control_plane.controllers("replicaset")
    kubelets.add("s1", {"type": "slow"})
    kubelets.add("s2", {"type": "slow"})
    api.create(SETS, replica_set(scheduler))
    wait_until(lambda: len(where(api)) == 1, "the pod runs")
    (source,) = where(api)
    kubelets.add("f1", {"type": "fast"})
    wait_until(lambda: where(api) == ["f1"], lambda: (where(api), told()))
    wait_until(lambda: moves(told()), told)
    (move,) = moves(told())
    assert (move["source"], move["target"], move["result"]) == (source, "f1", "moved")
    (item,) = [i for i in api.list(PODS) if i["spec"].get("nodeName") == "f1"]
    wait_until(
        lambda: "foretell/moves" in api.get(f"{PODS}/{item['metadata']['name']}")["metadata"]
        ["annotations"], "the history of the pod"
    )  # fmt: skip
    assert kubelets.overfull == []


def test_the_next_pod_of_an_owner_goes_to_the_target_of_a_move_standalone(
    control_plane, kubelets, template, cluster_file, tmp_path
):
    kubeconfig = control_plane.kubeconfig()
    with contextlib.closing(Replicas(template, cluster_file, kubeconfig, tmp_path)) as replicas:
        replica = replicas.start()
        check_move(control_plane, kubelets, "foretell", lambda: replica.text)


def test_the_next_pod_of_an_owner_goes_to_the_target_of_a_move_with_the_extender(
    control_plane, kubelets, foretell, cluster_file
):
    run = foretell(
        "cluster", "schedule", cluster_file, "--mode", "extender", "--port", "0", "--json",
        "--kubeconfig", control_plane.kubeconfig(),
    )  # fmt: skip
    assert run.reaches(lambda: '"url"' in run.text), run.text
    url = json.loads(run.text.splitlines()[0])["url"]
    control_plane.scheduler({"extenders": [extender_of(url)]})
    check_move(control_plane, kubelets, "default-scheduler", lambda: run.text)


def test_pods_of_one_owner_move_one_after_another(
    control_plane, kubelets, template, cluster_file, tmp_path
):
    api, kubeconfig = control_plane.api(), control_plane.kubeconfig()
    wanted = replica_set("foretell")
    wanted["spec"]["replicas"] = 3
    wanted["spec"]["template"]["metadata"]["annotations"][START_SECONDS] = "0.5"
    with contextlib.closing(Replicas(template, cluster_file, kubeconfig, tmp_path)) as replicas:
        replica = replicas.start()
        control_plane.controllers("replicaset")
        kubelets.add("s1", {"type": "slow"})
        api.create(SETS, wanted)
        wait_until(lambda: where(api) == ["s1"] * 3, "the pods run")
        kubelets.add("f1", {"type": "fast"})
        seen = set()

        def are_moved():
            now = where(api)
            seen.add(len(now))
            return now == ["f1"] * 3

        wait_until(are_moved, lambda: replica.text)
        assert min(seen) >= 2, seen  # at any moment, at most one of them was away
        wait_until(lambda: len(moves(replica.text)) == 3, lambda: replica.text)


@pytest.mark.parametrize("is_on", [False, True])
def test_moves_are_off_unless_the_cluster_file_turns_them_on(control_plane, cluster_file, is_on):
    if not is_on:
        cluster_file.write_text(CLUSTER.replace("enabled = true\n", ""))
    with (
        Live(cluster_file, Connection(control_plane.kubeconfig())) as live,
        Upkeep(live, is_leader=lambda: True) as upkeep,
    ):
        assert (upkeep.moving is not None) == is_on


def test_moves_need_the_rights_of_their_manifest_and_no_others(
    control_plane, kubelets, template, cluster_file, tmp_path
):
    api = control_plane.api()
    apply(api, "rbac.yaml")
    apply(api, "standalone.yaml")
    account = "/api/v1/namespaces/foretell/serviceaccounts/foretell-standalone/token"
    token = api.create(account, {"spec": {}})["status"]["token"]
    kubeconfig = control_plane.kubeconfig("foretell", token=token)
    options = ("--lease-namespace", "foretell")
    with contextlib.closing(Replicas(template, cluster_file, kubeconfig, tmp_path)) as replicas:
        refused = replicas.start(*options, is_ready=False)
        wait_until(lambda: not refused.is_alive(), lambda: refused.text)
        assert "create pods/eviction" in refused.text
        assert "deploy/kubernetes/moves.yaml" in refused.text
        assert "Traceback" not in refused.text
        apply(api, "moves.yaml")
        kubelets.add("s1", {"type": "slow"})
        replica = replicas.start(*options)
        annotations = {"foretell/iterations": 1000, "foretell/migratable": "resume"}
        api.create(PODS, pod("job", annotations=annotations, scheduler="foretell"))
        wait_until(lambda: where(api) == ["s1"], "it runs")
        kubelets.add("f1", {"type": "fast"})
        wait_until(lambda: where(api) == ["f1"], lambda: replica.text)
        assert "(403)" not in replica.text


def test_rights_in_one_namespace_are_enough_to_move_the_pods_there(
    control_plane, kubelets, template, cluster_file, tmp_path
):
    api, jobs = control_plane.api(), "/api/v1/namespaces/jobs/pods"
    if not api.get("/api/v1/namespaces/jobs"):
        api.create("/api/v1/namespaces", {"metadata": {"name": "jobs"}})
    for manifest in ("rbac.yaml", "standalone.yaml", "moves.yaml"):
        apply(api, manifest)
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/foretell-moves"
    binding = {key: api.get(bindings)[key] for key in ("roleRef", "subjects")}
    api.delete(bindings)
    there = "/apis/rbac.authorization.k8s.io/v1/namespaces/jobs/rolebindings"
    api.create(there, {"metadata": {"name": "foretell-moves"}, **binding})
    account = "/api/v1/namespaces/foretell/serviceaccounts/foretell-standalone/token"
    token = api.create(account, {"spec": {}})["status"]["token"]
    kubeconfig = control_plane.kubeconfig("foretell", token=token)
    options = ("--lease-namespace", "foretell")
    with contextlib.closing(Replicas(template, cluster_file, kubeconfig, tmp_path)) as replicas:
        refused = replicas.start(*options, is_ready=False)
        wait_until(lambda: not refused.is_alive(), lambda: refused.text)
        assert "create pods/eviction" in refused.text
        limited = CLUSTER.replace("enabled = true\n", 'enabled = true\nnamespaces = ["jobs"]\n')
        cluster_file.write_text(limited)
        replica = replicas.start(*options)
        kubelets.add("s1", {"type": "slow"})
        annotations = {"foretell/iterations": 1000, "foretell/migratable": "resume"}
        for path in (PODS, jobs):
            api.create(path, pod("job", annotations=annotations, scheduler="foretell"))
        wait_until(lambda: where(api) == where(api, jobs) == ["s1"], "they run")
        kubelets.add("f1", {"type": "fast"})
        wait_until(lambda: where(api, jobs) == ["f1"], lambda: replica.text)
        assert where(api) == ["s1"]
        assert "(403)" not in replica.text


def test_of_two_replicas_one_moves(control_plane, kubelets, template, cluster_file, tmp_path):
    api, kubeconfig = control_plane.api(), control_plane.kubeconfig()
    with contextlib.closing(Replicas(template, cluster_file, kubeconfig, tmp_path)) as replicas:
        both = [replicas.start(), replicas.start()]
        kubelets.add("s1", {"type": "slow"})
        annotations = {"foretell/iterations": 1000, "foretell/migratable": "restart"}
        for i in range(3):
            api.create(PODS, pod(f"p{i}", annotations=annotations, scheduler="foretell"))
        wait_until(lambda: where(api) == ["s1"] * 3, "they run")
        kubelets.add("f1", {"type": "fast"})
        wait_until(
            lambda: where(api) == ["f1"] * 3,
            lambda: [api.list(PODS), [r.text for r in both]],
            2 * PATIENCE_S,  # a copy may take as long as one wait to get ready
        )
        wait_until(lambda: sum(len(moves(r.text)) for r in both) == 3, lambda: both[0].text)
        assert {len(moves(r.text)) for r in both} == {0, 3}
        started = sorted(name for _, name, _ in kubelets.started)
        assert started == sorted(
            [f"default/p{i}" for i in range(3)] + [f"default/p{i}-move-1" for i in range(3)]
        )


@pytest.mark.slow
def test_leaders_that_are_killed_in_the_middle_of_moves_lose_no_pod_and_leave_no_copy(
    control_plane, kubelets, template, cluster_file, tmp_path
):
    api, kubeconfig, moments = control_plane.api(), control_plane.kubeconfig(), random.Random(5)
    names = [f"p{i}" for i in range(4)]
    annotations = {"foretell/iterations": 1000, "foretell/migratable": "restart"}

    def running():
        """Return the pods that run, by the name of the one that was asked for."""
        found = {name: [] for name in names}
        for item in api.list(PODS):
            if item["status"].get("phase") == "Running":
                meta = item["metadata"]
                found[meta["name"].split("-")[0]].append((meta["name"], item["spec"]["nodeName"]))
        return found

    def under_way():
        """Return the pods that have a copy and are still there themselves."""
        found = {item["metadata"]["name"] for item in api.list(PODS)}
        return {name for name in names if name in found and f"{name}-move-1" in found}

    def get_ready(name):
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        api.patch(f"{PODS}/{name}/status", {"status": status})

    with contextlib.closing(Replicas(template, cluster_file, kubeconfig, tmp_path)) as replicas:
        replicas.start(lease_seconds=SHORT_S)
        replicas.start(lease_seconds=SHORT_S)
        kubelets.add("s1", {"type": "slow"})
        for name in names:
            api.create(PODS, pod(name, annotations=annotations, scheduler="foretell"))
        wait_until(lambda: where(api) == ["s1"] * len(names), "they run")
        for name in names:  # their copies get ready when the test says so
            api.patch(f"{PODS}/{name}", {"metadata": {"annotations": {START_SECONDS: "never"}}})
        kubelets.add("f1", {"type": "fast"})
        for name in names:
            wait_until(lambda name=name: name in under_way(), "a move")
            killed = leader(api, replicas)
            get_ready(f"{name}-move-1")
            time.sleep(moments.uniform(0, 0.6))  # before the pod is evicted, or after it
            killed.stop(signal.SIGKILL)
            assert all(running().values())  # at no moment was there neither a pod nor its copy
            replicas.start(lease_seconds=SHORT_S, is_ready=False)

        def is_over():
            now = running()
            assert all(now.values()), now
            return all([node for _, node in found] == ["f1"] for found in now.values())

        wait_until(is_over, lambda: (api.list(PODS), [r.text for r in replicas.all]))
        wait_until(lambda: len(api.list(PODS)) == len(names), lambda: api.list(PODS))
        assert kubelets.overfull == []
