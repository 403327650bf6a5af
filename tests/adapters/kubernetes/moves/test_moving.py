"""Moves on a real API server with fake kubelets: what moves, what stays, what is never lost."""

import contextlib
import json

import pytest

from foretell.adapters.kubernetes.client import connect
from foretell.adapters.kubernetes.live import Connection, Live
from foretell.adapters.kubernetes.moves.evictions import Evictions
from foretell.adapters.kubernetes.moves.moving import Moving
from foretell.adapters.kubernetes.moves.steps import Patience
from foretell.adapters.kubernetes.pods import read_pod
from foretell.decide.placement.cluster import read_cluster
from foretell.decide.placement.estimates import type_models

from ..control_plane import wait_until
from ..kubelets import START_SECONDS, pod

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
SOON = {"enabled": True, "every_s": 0.1, "min_age_s": 0, "min_remaining_s": 0, "start_s": 1}


def cluster(migration, fast="iterations / 10", slow="iterations"):
    kinds = {"fast": fast, "slow": slow}
    return {
        "policy": {"H": 0},
        "migration": {**SOON, **migration},
        "node_type": [
            {"name": name, "selector": {"type": name}, "capacity": {"cpu": 4}, "time_s": time_s,
             "energy_j": 1}
            for name, time_s in kinds.items()
        ],
    }  # fmt: skip


class Started:
    """A mover at work, and its reports."""

    def __init__(self, control_plane, patience=None, is_dry=False, **migration):
        self.live = Live(cluster(migration), Connection(control_plane.kubeconfig()))
        self.live.start()
        self.reports = []
        self.is_leader = True
        self.moving = Moving(
            self.live.api, self.live.state, lambda: self.live.watches.are_current,
            lambda: self.is_leader, is_dry=is_dry, tell=self._tell, patience=patience,
        )  # fmt: skip
        self.n_looks = 0
        look = self.moving.look

        def counted():
            look()
            self.n_looks += 1

        self.moving.look = counted
        self.moving.start()

    def _tell(self, report):
        self.reports.append((report.pod, report.source, report.target, report.result))
        self.last = report

    def wait_for(self, result):
        wait_until(lambda: any(r[3] == result for r in self.reports), lambda: self.reports)

    def look_again(self, n=3):
        """Wait until it has looked for moves several times since now."""
        goal = self.n_looks + n
        wait_until(lambda: self.n_looks >= goal, "more looks")

    def close(self):
        self.moving.close()
        self.live.close()


@pytest.fixture
def start(control_plane):
    with contextlib.ExitStack() as stack:

        def begin(**options):
            found = Started(control_plane, **options)
            stack.callback(found.close)
            return found

        yield begin


@pytest.fixture
def api(control_plane):
    return control_plane.api()


def job(name, node="s1", annotations=None, **more):
    known = {"foretell/iterations": 1000, "foretell/migratable": "restart", **(annotations or {})}
    return pod(name, annotations=known, nodeName=node, **more)


def run(api, item):
    """Create a pod, and wait until it runs."""
    api.create(PODS, item)
    wait_until(lambda: is_running(api, item["metadata"]["name"]), "it runs")


def is_running(api, name):
    found = api.get(f"{PODS}/{name}")
    return (
        found
        and found["status"].get("phase") == "Running"
        and not found["metadata"].get("deletionTimestamp")
    )


def names(api):
    return sorted(item["metadata"]["name"] for item in api.list(PODS))


def test_a_pod_moves_to_a_better_node_and_ends_when_its_copy_is_ready(
    api, kubelets, start, control_plane
):
    kubelets.add("s1", {"type": "slow"})
    run(api, {**job("job"), "metadata": {**job("job")["metadata"], "labels": {"app": "x"}}})
    started = start()
    started.look_again()
    assert started.reports == []  # there is no better node yet
    kubelets.add("f1", {"type": "fast"})
    started.wait_for("moved")
    assert started.reports == [("default/job", "s1", "f1", "moved")]
    assert is_running(api, "job-move-1")
    wait_until(lambda: names(api) == ["job-move-1"], "the source is gone")
    copy = api.get(f"{PODS}/job-move-1")
    assert copy["spec"]["nodeName"] == "f1"
    assert copy["metadata"]["labels"] == {"app": "x"}
    history = json.loads(copy["metadata"]["annotations"]["foretell/moves"])
    assert history["n"] == 1
    assert list(history["left"]) == ["s1"]
    assert [(name, node) for _, name, node in kubelets.started] == [
        ("default/job", "s1"), ("default/job-move-1", "f1")
    ]  # fmt: skip
    assert kubelets.overfull == []


def test_a_copy_that_does_not_get_ready_is_deleted_and_the_pod_stays(api, kubelets, start):
    kubelets.add("s1", {"type": "slow"})
    kubelets.add("f1", {"type": "fast"})
    run(api, job("job"))
    slow_start = {"metadata": {"annotations": {START_SECONDS: "never"}}}
    api.patch(f"{PODS}/job", slow_start)  # its copy has this, too
    started = start(patience=Patience(ready_s=0.5))
    started.wait_for("kept")
    assert "not ready within 0.5 s" in started.last.reason
    wait_until(lambda: names(api) == ["job"], "the copy is gone")
    started.look_again()
    assert is_running(api, "job")
    assert len(started.reports) == 1  # it is not tried again before the cooldown is over


@pytest.mark.parametrize("how", ["lost", "not ready"])
def test_a_node_that_vanishes_mid_move_costs_nothing(api, kubelets, start, how):
    kubelets.add("s1", {"type": "slow"})
    kubelets.add("f1", {"type": "fast"})
    run(api, job("job"))
    api.patch(f"{PODS}/job", {"metadata": {"annotations": {START_SECONDS: "never"}}})
    started = start()
    wait_until(lambda: names(api) == ["job", "job-move-1"], "a copy")
    if how == "lost":
        kubelets.lose("f1")
    else:
        kubelets.set_ready("f1", False)
    started.wait_for("kept")
    assert "f1 was lost" in started.last.reason
    wait_until(lambda: names(api) == ["job"], "the copy is gone")
    assert is_running(api, "job")
    assert [name for _, name, _ in kubelets.started] == ["default/job"]


def test_if_the_pod_ends_first_its_copy_is_deleted(api, kubelets, start):
    kubelets.add("s1", {"type": "slow"})
    kubelets.add("f1", {"type": "fast"})
    run(api, job("job"))
    api.patch(f"{PODS}/job", {"metadata": {"annotations": {START_SECONDS: "never"}}})
    started = start()
    wait_until(lambda: names(api) == ["job", "job-move-1"], "a copy")
    api.patch(f"{PODS}/job/status", {"status": {"phase": "Succeeded"}})
    started.wait_for("kept")
    wait_until(lambda: names(api) == ["job"], "the copy is gone")


def test_a_pod_that_changed_unseen_is_not_evicted(api, kubelets, control_plane):
    kubelets.add("s1", {"type": "slow"})
    run(api, job("job"))
    old = api.get(f"{PODS}/job")
    api.patch(f"{PODS}/job/status", {"status": {"phase": "Succeeded"}})
    with connect(control_plane.kubeconfig()) as server:
        evictions = Evictions(server)
        assert evictions.evict(read_pod(old)) == "changed"
        assert names(api) == ["job"]
        assert evictions.evict(read_pod(api.get(f"{PODS}/job"))) == "evicted"


def test_a_pod_does_not_return_to_a_former_node_within_the_cooldown(api, kubelets, start):
    kubelets.add("s1", {"type": "slow"})
    kubelets.add("f1", {"type": "fast"})
    run(api, job("job"))
    cooldown_s = 2.0
    started = start(cooldown_s=cooldown_s, max_per_task=10, max_per_minute=100)
    started.wait_for("moved")
    wait_until(lambda: names(api) == ["job-move-1"], "the source is gone")
    other = read_cluster(cluster({}, fast="iterations", slow="iterations / 10"))
    with started.live.state.lock:  # now the former node is the better one
        started.live.state.chooser.estimates.replace(type_models(other, {}))
    wait_until(lambda: names(api) == ["job-move-2"], lambda: (started.reports, names(api)))
    assert started.reports[1] == ("default/job-move-1", "f1", "s1", "moved")
    left = json.loads(api.get(f"{PODS}/job-move-2")["metadata"]["annotations"]["foretell/moves"])
    assert left["n"] == 2
    assert left["left"]["f1"] - left["left"]["s1"] >= cooldown_s


def test_moves_are_capped_per_minute_and_per_pod(api, kubelets, start):
    kubelets.add("s1", {"type": "slow"})
    kubelets.add("f1", {"type": "fast"})
    for name in ("one", "two"):
        run(api, job(name))
    moved = {"n": 2, "share": 1, "left": {}}
    run(api, job("often", annotations={"foretell/moves": json.dumps(moved)}))
    started = start(max_per_minute=1)
    started.wait_for("moved")
    started.look_again()
    assert len(started.reports) == 1
    started.close()
    started = start()
    started.wait_for("moved")
    started.look_again()
    assert len(started.reports) == 1
    assert is_running(api, "often")


def test_pods_that_must_stay_do_not_move(api, kubelets, start):
    kubelets.add("s1", {"type": "slow"}, cpu=8)
    kubelets.add("f1", {"type": "fast"})
    run(api, job("default", annotations={"foretell/migratable": "never"}))
    run(api, job("tied", nodeSelector={"type": "slow"}))
    item = job("volume", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    run(api, item)
    daemon = job("daemon")
    daemon["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    ]
    run(api, daemon)
    run(api, job("free"))
    started = start()
    started.wait_for("moved")
    started.look_again()
    assert [report[0] for report in started.reports] == ["default/free"]


def test_a_pod_does_not_move_to_where_another_keeps_it_away(api, kubelets, start):
    kubelets.add("s1", {"type": "slow"})
    kubelets.add("f1", {"type": "fast"})
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    away = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    run(api, pod("alone", nodeName="f1", affinity={"podAntiAffinity": away}))
    job_a = job("job")
    job_a["metadata"]["labels"] = {"app": "a"}
    run(api, job_a)
    started = start()
    started.look_again()
    assert started.reports == []
    api.delete(f"{PODS}/alone", gracePeriodSeconds=0)
    started.wait_for("moved")


def test_nothing_moves_while_a_pod_that_waits_would_lose_its_room(api, kubelets, start):
    kubelets.add("s1", {"type": "slow"})
    kubelets.add("f1", {"type": "fast"}, cpu=2)
    run(api, job("job", cpu=2))
    api.create(PODS, pod("waits", cpu=2, nodeSelector={"type": "fast"}))
    api.create(PODS, pod("beyond", cpu=99))  # it waits in vain, and holds nothing up
    started = start()
    started.look_again()
    assert started.reports == []
    api.delete(f"{PODS}/waits", gracePeriodSeconds=0)
    started.wait_for("moved")


def test_a_disruption_budget_is_kept_to(api, kubelets, start, control_plane):
    kubelets.add("s1", {"type": "slow"})
    kubelets.add("f1", {"type": "fast"})
    item = job("job")
    item["metadata"]["labels"] = {"app": "x"}
    control_plane.controllers("disruption")
    budget = {"metadata": {"name": "keep"},
              "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}}  # fmt: skip
    api.create(BUDGETS, budget)
    run(api, item)
    wait_until(lambda: api.get(f"{BUDGETS}/keep")["status"].get("currentHealthy") == 1, "a budget")
    started = start(cooldown_s=0.5)
    started.wait_for("kept")
    assert "budget keep" in started.last.reason
    assert names(api) == ["job"]
    api.patch(f"{BUDGETS}/keep", {"spec": {"minAvailable": 0}})
    started.wait_for("moved")
    wait_until(lambda: names(api) == ["job-move-1"], "the source is gone")


def test_a_dry_run_tells_and_changes_nothing(api, kubelets, start):
    kubelets.add("s1", {"type": "slow"})
    kubelets.add("f1", {"type": "fast"})
    run(api, job("job"))
    version = api.get(f"{PODS}/job")["metadata"]["resourceVersion"]
    started = start(is_dry=True)
    started.wait_for("planned")
    assert "would move from s1 to f1" in str(started.last)
    started.look_again()
    assert names(api) == ["job"]
    assert api.get(f"{PODS}/job")["metadata"]["resourceVersion"] == version
    assert len(started.reports) == 1


def test_who_starts_next_takes_over_a_copy_that_was_left(api, kubelets, start):
    kubelets.add("s1", {"type": "slow"})
    kubelets.add("f1", {"type": "fast"})
    run(api, job("job"))
    api.patch(f"{PODS}/job", {"metadata": {"annotations": {START_SECONDS: "never"}}})
    first = start()
    wait_until(lambda: names(api) == ["job", "job-move-1"], "a copy")
    first.close()
    ready = {"type": "Ready", "status": "True"}
    api.patch(f"{PODS}/job-move-1/status", {"status": {"phase": "Running", "conditions": [ready]}})
    second = start()
    second.wait_for("moved")
    wait_until(lambda: names(api) == ["job-move-1"], "the source is gone")
    second.look_again()
    assert len(second.reports) == 1


def test_who_does_not_lead_any_more_leaves_its_moves_to_the_next(api, kubelets, start):
    kubelets.add("s1", {"type": "slow"})
    kubelets.add("f1", {"type": "fast"})
    run(api, job("job"))
    api.patch(f"{PODS}/job", {"metadata": {"annotations": {START_SECONDS: "never"}}})
    first = start()
    wait_until(lambda: names(api) == ["job", "job-move-1"], "a copy")
    first.is_leader = False
    wait_until(lambda: first.moving.n_under_way == 0, "it gives up")
    second = start()
    wait_until(lambda: second.moving.n_under_way, "it is taken over")
    ready = {"type": "Ready", "status": "True"}
    api.patch(f"{PODS}/job-move-1/status", {"status": {"phase": "Running", "conditions": [ready]}})
    second.wait_for("moved")
    wait_until(lambda: names(api) == ["job-move-1"], "the source is gone")
    first.is_leader = True  # it leads again, and must not take the copy for its own
    first.look_again()
    assert names(api) == ["job-move-1"]
    assert first.reports == []


@pytest.mark.parametrize("migratable", ["restart", "never"])
def test_a_pod_that_claims_to_be_a_copy_evicts_nobody_elses(api, kubelets, start, migratable):
    kubelets.add("f1", {"type": "fast"})
    there = "/api/v1/namespaces/kube-system/pods"
    victim = api.create(there, job("victim", "f1", {"foretell/migratable": migratable}))
    own = api.create(PODS, job("own", "f1", {"foretell/migratable": "never"}))
    for i, uid in enumerate((victim["metadata"]["uid"], own["metadata"]["uid"])):
        run(api, job(f"liar-{i}", "f1", {"foretell/copy-of": uid}))
    started = start()
    started.look_again()
    assert started.reports == []
    assert not api.get(f"{there}/victim")["metadata"].get("deletionTimestamp")
    assert names(api) == ["liar-0", "liar-1", "own"]


def test_while_the_api_server_is_away_nothing_is_lost(api, kubelets, start, control_plane):
    kubelets.add("s1", {"type": "slow"})
    kubelets.add("f1", {"type": "fast"})
    run(api, job("job"))
    api.patch(f"{PODS}/job", {"metadata": {"annotations": {START_SECONDS: "never"}}})
    started = start()
    wait_until(lambda: names(api) == ["job", "job-move-1"], "a copy")
    control_plane.api_server.stop()
    wait_until(lambda: not started.live.watches.are_current, "the server is missed")
    control_plane.start_api_server()
    ready = {"type": "Ready", "status": "True"}
    api.patch(f"{PODS}/job-move-1/status", {"status": {"phase": "Running", "conditions": [ready]}})
    started.wait_for("moved")
    wait_until(lambda: names(api) == ["job-move-1"], "the source is gone")


def test_a_handed_off_affinity_is_accepted_by_the_server_and_leads_kube_scheduler(
    api, kubelets, control_plane
):
    import yaml

    from foretell.adapters.placement_handoff import hand_off_placement

    kubelets.add("s1", {"type": "slow"})
    kubelets.add("f1", {"type": "fast"})
    control_plane.scheduler()
    text = hand_off_placement(cluster({}), "cpu=1,iterations=100", "affinity")
    for i in range(3):
        api.create(PODS, pod(f"p{i}", **yaml.safe_load(text)))
    for i in range(3):
        wait_until(lambda i=i: api.get(f"{PODS}/p{i}")["spec"].get("nodeName") == "f1", "f1")
