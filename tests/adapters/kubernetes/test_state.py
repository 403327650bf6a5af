"""The state of a live cluster: who is where, what is free, and which node is chosen."""

import pytest

from foretell.adapters.kubernetes.pods import read_pod
from foretell.adapters.kubernetes.state import open_state
from foretell.adapters.kubernetes.state_handler import StateHandler
from foretell.adapters.kubernetes.watching import ADDED, DELETED, MODIFIED
from foretell.corun.profile import write_profile

from ...corun.jobs import FACTS, made_up

CLUSTER = {
    "policy": {"H": 0},
    "node_type": [
        {"name": "fast", "selector": {"type": "fast"}, "capacity": {"cpu": 4},
         "time_s": "iterations / 10", "energy_j": "iterations"},
        {"name": "slow", "selector": {"type": "slow"}, "capacity": {"cpu": 4},
         "time_s": "iterations", "energy_j": "iterations / 10"},
    ],
}  # fmt: skip


def node(name, kind, cpu="4", *, ready="True", labels=None, **more):
    return {
        "metadata": {"name": name, "labels": {"type": kind, **(labels or {})}, **more},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def pod(name, cpu="1", *, where=None, phase="Pending", annotations=None, **spec):
    asked = {"requests": {"cpu": cpu}}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "namespace": "n",
                     "annotations": {"foretell/iterations": "100", **(annotations or {})}},
        "spec": {"nodeName": where, "containers": [{"resources": asked}],
                 "schedulerName": "foretell", **spec},
        "status": {"phase": phase},
    }  # fmt: skip


class World:
    """A state with the handlers of its watches, and a clock that is turned by hand."""

    def __init__(self, cluster=CLUSTER):
        self.now_s = 0.0
        self.state = open_state(cluster, clock=lambda: self.now_s)
        self.nodes, self.pods, self.namespaces = (
            StateHandler(self.state, kind) for kind in ("nodes", "pods", "namespaces")
        )

    def record(self, name):
        return self.state.records[f"uid-{name}"]

    def used(self, name):
        fleet = self.state.fleet
        return fleet.used[fleet.row["cpus"], self.state.index[name]] / 1e6


@pytest.fixture
def world():
    found = World()
    found.nodes.replace([node("f1", "fast"), node("s1", "slow")])
    return found


def test_the_chooser_of_the_simulator_picks_the_node(world):
    world.pods.change(ADDED, pod("p"))
    assert world.state.choose(world.record("p")) == "f1"
    world.pods.change(ADDED, pod("q", annotations={"foretell/H": "1"}))
    assert world.state.choose(world.record("q")) == "s1"


@pytest.fixture
def crowded(tmp_path):
    """Return a world of two alike nodes, of whose pods profiles are known."""
    of_four_cores = made_up("wide", cores=4.0, facts={**FACTS, "n_usable": 4})
    write_profile(of_four_cores, tmp_path / "wide.profile")
    found = World({**CLUSTER, "profiles": {"wide": str(tmp_path / "wide.profile")}})
    found.nodes.replace([node("f1", "fast"), node("f2", "fast")])
    return found


def wide(name, **more):
    return pod(name, annotations={"foretell/profile": "wide"}, **more)


def test_a_pod_goes_where_the_pods_that_are_there_slow_it_least(crowded):
    crowded.pods.change(ADDED, wide("there", where="f1"))
    crowded.pods.change(ADDED, wide("p"))
    assert crowded.state.choose(crowded.record("p")) == "f2"
    crowded.nodes.change(ADDED, node("s1", "slow"))  # everything is counted anew
    assert crowded.state.choose(crowded.record("p")) == "f2"
    crowded.state.assume(crowded.record("p"), "f2")
    crowded.pods.change(ADDED, wide("q"))
    crowded.pods.change(MODIFIED, wide("there", where="f1", phase="Succeeded"))
    assert crowded.state.choose(crowded.record("q")) == "f1"


def test_a_profile_that_a_pod_or_its_namespace_is_given_later_counts(crowded):
    crowded.pods.change(ADDED, pod("there", where="f1"))
    weighed = {"foretell/profile": "wide", "foretell/H": "0.5"}  # of equals, the fuller node
    crowded.pods.change(ADDED, pod("p", annotations=weighed))
    assert crowded.state.choose(crowded.record("p")) == "f1"
    crowded.pods.change(MODIFIED, wide("there", where="f1"))
    assert crowded.state.choose(crowded.record("p")) == "f2"
    crowded.pods.change(MODIFIED, pod("there", where="f1"))
    assert crowded.state.choose(crowded.record("p")) == "f1"
    given = {"metadata": {"name": "n", "annotations": {"foretell/profile": "wide"}}}
    crowded.namespaces.change(ADDED, given)
    assert crowded.state.choose(crowded.record("p")) == "f2"


def test_a_profile_that_the_cluster_file_does_not_name_is_complained_of(crowded, tmp_path):
    """No pod can have the scheduler read a file of its choice."""
    file = str(tmp_path / "wide.profile")
    crowded.pods.change(ADDED, pod("p", annotations={"foretell/profile": file}))
    _, complaints = crowded.state.task(crowded.record("p"))
    assert len(complaints) == 1 and "[profiles]" in complaints[0]
    assert crowded.state.choose(crowded.record("p")) == "f1"


def test_nodes_are_counted_by_type_and_those_without_one_are_named(world):
    world.nodes.change(ADDED, node("x1", "misspelled"))
    assert world.state.n_by_type() == {"fast": 1, "slow": 1, "(no node type)": 1}
    assert world.state.without_type() == ["x1"]


def test_a_change_of_what_matches_no_type_is_logged_once(world, caplog):
    world.nodes.change(MODIFIED, node("f1", "fast", cpu="3"))
    assert caplog.text == ""  # at the start, the command says it
    world.nodes.change(MODIFIED, node("s1", "other"))
    assert "2 nodes: fast 1, slow 0; 1 node has no type: s1" in caplog.text
    caplog.clear()
    world.nodes.change(MODIFIED, node("s1", "other", cpu="3"))
    world.nodes.replace([node("f1", "fast"), node("s1", "other")])
    assert caplog.text == ""
    world.nodes.replace([node("f1", "fast"), node("s1", "slow")])
    assert "2 nodes: fast 1, slow 1" in caplog.text


def test_a_namespace_sets_the_weight_of_its_pods(world):
    namespace = {"metadata": {"name": "n", "annotations": {"foretell/H": "1"}}}
    world.namespaces.replace([namespace])
    world.pods.change(ADDED, pod("p"))
    assert world.state.choose(world.record("p")) == "s1"
    del namespace["metadata"]["annotations"]
    world.namespaces.change(MODIFIED, namespace)
    assert world.state.choose(world.record("p")) == "f1"


def test_pods_of_others_take_room(world):
    world.pods.replace([pod("other", "4", where="f1", schedulerName="default-scheduler"), pod("p")])
    assert world.used("f1") == 4
    assert world.state.choose(world.record("p")) == "s1"


def test_an_assumed_pod_takes_room_once_and_is_not_counted_again_when_bound(world):
    world.pods.change(ADDED, pod("p", "3"))
    world.state.assume(world.record("p"), "f1")
    assert world.used("f1") == 3
    assert world.state.pending("foretell") == []
    world.pods.change(MODIFIED, pod("p", "3", where="f1"))
    assert world.used("f1") == 3
    assert world.record("p").assumed == ""
    assert world.state.unbound == {}


def test_a_failed_binding_frees_the_room_and_the_pod_is_pending_again(world):
    world.pods.change(ADDED, pod("p", "3"))
    before = world.state.n_room
    world.state.assume(world.record("p"), "f1")
    world.state.forget(world.record("p"))
    assert world.used("f1") == 0
    assert world.state.n_room > before
    assert [record.pod.name for record in world.state.pending("foretell")] == ["p"]


def test_a_pod_that_another_scheduler_bound_elsewhere_counts_there(world):
    world.pods.change(ADDED, pod("p", "3"))
    world.state.assume(world.record("p"), "f1")
    world.pods.change(MODIFIED, pod("p", "3", where="s1"))
    assert (world.used("f1"), world.used("s1")) == (0, 3)
    world.state.forget(world.record("p"))
    assert (world.used("f1"), world.used("s1")) == (0, 3)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_frees_its_room_and_tells_so(world, phase):
    world.pods.change(ADDED, pod("p", "3", where="f1", phase="Running"))
    before = world.state.n_room
    world.pods.change(MODIFIED, pod("p", "3", where="f1", phase=phase))
    assert world.used("f1") == 0
    assert world.state.n_room > before
    world.pods.change(DELETED, pod("p", "3", where="f1", phase=phase))
    assert world.used("f1") == 0


def test_a_deleted_pod_frees_its_room_also_while_assumed(world):
    world.pods.change(ADDED, pod("p", "3"))
    record = world.record("p")
    world.state.assume(record, "f1")
    world.pods.change(DELETED, pod("p", "3"))
    assert world.used("f1") == 0
    world.state.forget(record)  # the binding fails later
    assert world.used("f1") == 0


def test_a_list_after_a_broken_watch_removes_what_is_gone(world):
    world.pods.replace([pod("p", "3", where="f1"), pod("q", "1")])
    world.pods.replace([pod("q", "1", where="s1")])
    assert (world.used("f1"), world.used("s1")) == (0, 1)
    world.nodes.replace([node("s1", "slow")])
    assert world.state.fleet.names == ["s1"]


def test_nodes_come_go_and_change_while_pods_keep_their_room(world):
    world.pods.change(ADDED, pod("p", "3", where="f2"))  # its node is not known yet
    world.nodes.change(ADDED, node("f2", "fast"))
    assert world.used("f2") == 3
    world.nodes.change(MODIFIED, node("f2", "fast", cpu="16"))
    assert world.used("f2") == 3
    world.pods.change(ADDED, pod("q", "12"))
    assert world.state.choose(world.record("q")) == "f2"
    world.nodes.change(DELETED, node("f2", "fast"))
    assert world.state.choose(world.record("q")) is None
    assert not world.state.usable(world.record("q")).any()


def test_a_node_that_is_not_ready_takes_no_pod(world):
    world.nodes.change(MODIFIED, node("f1", "fast", ready="Unknown"))
    world.pods.change(ADDED, pod("p"))
    assert world.state.choose(world.record("p")) == "s1"
    assert world.state.why_not(world.record("p"))["f1"] == "it is not ready"


def test_signs_of_life_change_nothing(world):
    fleet, before = world.state.fleet, world.state.n_room
    world.nodes.change(MODIFIED, node("f1", "fast", resourceVersion="2"))
    assert world.state.fleet is fleet
    assert world.state.n_room == before


def test_a_node_without_a_type_gets_the_median_score_and_no_reward(world):
    world.nodes.change(ADDED, node("x1", "laptop"))
    world.pods.change(ADDED, pod("p"))
    assert world.state.choose(world.record("p")) == "f1"
    chooser = world.state.chooser
    task, _ = world.state.task(world.record("p"))
    ranking = chooser.rank(task, chooser.fleet.need(task.needs))
    by_name = dict(zip(ranking.candidates.names, ranking.scores, strict=True))
    assert by_name["x1"] == pytest.approx((by_name["f1"] + by_name["s1"]) / 2)


def test_only_nodes_that_a_pod_may_use_are_chosen(world):
    world.nodes.change(ADDED, node("s2", "slow", labels={"disk": "ssd"}))
    world.pods.change(ADDED, pod("p", nodeSelector={"disk": "ssd"}))
    assert world.state.choose(world.record("p")) == "s2"
    assert "node selector" in world.state.why_not(world.record("p"))["f1"]


def test_a_resource_that_no_node_has_is_named(world):
    asked = [{"resources": {"requests": {"example.com/fpga": "1"}}}]
    world.pods.change(ADDED, pod("p", containers=asked))
    assert world.state.choose(world.record("p")) is None
    assert world.state.why_not(world.record("p"))["f1"] == "it has no example.com/fpga"


def test_pods_are_pending_by_arrival_unless_deleted_or_gated(world):
    world.pods.replace([
        {**pod("b"), "metadata": {**pod("b")["metadata"], "creationTimestamp": "2026-01-02"}},
        {**pod("a"), "metadata": {**pod("a")["metadata"], "creationTimestamp": "2026-01-03"}},
        pod("gated", schedulingGates=[{"name": "g"}]),
        pod("other", schedulerName="default-scheduler"),
    ])  # fmt: skip
    deleting = pod("deleting")
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.pods.change(ADDED, deleting)
    assert [r.pod.name for r in world.state.pending("foretell")] == ["b", "a"]
    before = world.state.n_arrived
    world.pods.change(MODIFIED, pod("gated"))
    assert world.state.n_arrived > before
    assert len(world.state.pending("foretell")) == 3


def test_since_when_a_pod_runs_is_told_by_the_monotonic_clock(world, monkeypatch):
    world.now_s = 50.0
    world.pods.change(ADDED, pod("p", where="f1"))
    world.now_s = 80.0
    # A wall clock that jumps by years is not even asked.
    monkeypatch.setattr("time.time", lambda: 4e9)
    [(_, running)] = world.state.running()
    assert running.started_s == 50.0


def test_an_object_that_cannot_be_read_is_left_out_and_the_others_stay(world, caplog):
    broken = pod("broken")
    broken["spec"]["containers"] = [{"resources": {"requests": {"cpu": "many"}}}]
    world.pods.replace([broken, pod("p")])
    assert list(world.state.records) == ["uid-p"]
    assert "uid-broken cannot be read" in caplog.text


def test_a_node_that_is_kept_free_for_a_pod_takes_no_other_until_the_pod_is_gone(world):
    world.nodes.replace([node("f1", "fast")])
    world.pods.replace([pod("large", "4"), pod("small")])
    world.state.reserve(world.record("large"), "f1")
    world.nodes.change(ADDED, node("s1", "slow", cpu="500m"))  # the arrays are made again
    assert world.state.choose(world.record("small")) is None
    assert world.state.choose(world.record("large")) == "f1"
    world.pods.change(DELETED, pod("large"))
    assert world.state.choose(world.record("small")) == "f1"


# Pods that keep others away


def averse(name, where, **term):
    """A pod that wants no pod with app=web in the same place."""
    term = {"topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "web"}}, **term}  # fmt: skip
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return pod(name, where=where, phase="Running", affinity={"podAntiAffinity": required})


def labeled(name, app="web", namespace="n"):
    found = pod(name)
    found["metadata"] |= {"labels": {"app": app}, "namespace": namespace}
    return found


def test_a_node_is_closed_to_pods_that_a_pod_there_keeps_away(world):
    world.pods.replace([averse("a", "f1"), labeled("web"), labeled("db", "db")])
    assert world.state.choose(world.record("web")) == "s1"
    assert world.state.choose(world.record("db")) == "f1"
    assert "podAntiAffinity" in world.state.why_not(world.record("web"))["f1"]
    world.record("web").target = "f1"  # of a move
    assert world.state.choose(world.record("web")) == "s1"
    before = world.state.n_room
    world.pods.change(DELETED, averse("a", "f1"))
    assert world.state.n_room > before
    assert world.state.choose(world.record("web")) == "f1"


def test_all_nodes_of_a_zone_are_closed_by_a_pod_in_it(world):
    world.nodes.replace(
        [node("f1", "fast", labels={"zone": "a"}), node("f2", "fast", labels={"zone": "a"}),
         node("s1", "slow", labels={"zone": "b"}), node("s2", "slow")]
    )  # fmt: skip
    world.pods.replace([averse("a", "f2", topologyKey="zone"), labeled("web")])
    fleet, allowed = world.state.fleet, world.state.allowed(world.record("web").pod)
    assert {fleet.names[i] for i in allowed.nonzero()[0]} == {"s1", "s2"}
    world.pods.change(ADDED, averse("b", "s2", topologyKey="zone"))  # in no zone
    assert world.state.choose(world.record("web")) in ("s1", "s2")


@pytest.mark.parametrize(
    ("term", "closes"),
    [
        ({}, False),
        ({"namespaces": ["other"]}, True),
        ({"namespaces": ["third"]}, False),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {}, "labelSelector": {}}, True),
        ({"namespaceSelector": {}, "labelSelector": None}, False),
        ({"namespaceSelector": {},
          "labelSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}},
         False),
    ],
)  # fmt: skip
def test_which_pods_of_another_namespace_are_kept_away(world, term, closes):
    world.pods.replace([averse("a", "f1", **term), labeled("web", namespace="other")])
    assert world.state.choose(world.record("web")) == ("s1" if closes else "f1")


def test_a_pod_that_is_kept_away_everywhere_waits_until_the_last_one_is_gone(world):
    world.nodes.replace([node("f1", "fast")])
    world.pods.replace([averse("a", "f1"), averse("b", "f1"), labeled("web")])
    web = world.record("web")
    assert world.state.choose(web) is None
    assert world.state.usable(web).any()  # so it waits, and is not given up
    world.pods.change(DELETED, averse("a", "f1"))
    assert world.state.choose(web) is None
    world.pods.change(DELETED, averse("b", "f1"))
    assert world.state.choose(web) == "f1"


# Moves


def test_room_that_is_held_for_a_pod_yet_to_come_is_taken(world):
    world.nodes.replace([node("f1", "fast", cpu="2"), node("s1", "slow")])
    world.state.hold("key", "f1", read_pod(pod("x", "2")).needs)
    world.pods.change(ADDED, pod("p"))
    assert world.state.choose(world.record("p")) == "s1"
    world.nodes.change(ADDED, node("s2", "slow"))  # the arrays are made again
    assert world.used("f1") == 2
    before = world.state.n_room
    world.state.release("key")
    assert world.state.n_room > before
    assert world.state.choose(world.record("p")) == "f1"
    world.state.release("key")  # once more is nothing
    assert world.used("f1") == 0


def test_a_pod_goes_to_the_target_of_a_move_if_it_still_can(world):
    world.nodes.replace([node("f1", "fast"), node("s1", "slow", cpu="1")])
    world.pods.replace([pod("p"), pod("q")])
    world.record("p").target = "s1"
    world.state.hold("uid-p", "s1", world.record("p").pod.needs)
    assert world.state.choose(world.record("q")) == "f1"
    assert world.state.choose(world.record("p")) == "s1"  # where the policy would not put it
    world.state.assume(world.record("q"), "s1")
    assert world.state.choose(world.record("p")) == "f1"
    world.record("p").target = "gone"
    assert world.state.choose(world.record("p")) == "f1"


def test_listeners_hear_of_pods_until_they_are_gone(world):
    heard = []
    world.state.listeners.append(lambda found, item: heard.append((found.name, item is None)))
    world.pods.change(ADDED, pod("p"))
    world.pods.change(MODIFIED, pod("p", where="f1", phase="Succeeded"))
    world.pods.change(ADDED, pod("q"))
    world.pods.replace([])
    assert heard == [("p", False), ("p", False), ("q", False), ("q", True)]


def test_pods_that_no_node_could_ever_take_hold_no_move_up(world):
    world.pods.replace([pod("beyond", "99"), pod("tied", nodeSelector={"type": "fast"}), pod("p")])
    waiting = {waiter.task.name: waiter for waiter in world.state.waiting()}
    assert sorted(waiting) == ["n/p", "n/tied"]
    index = world.state.index
    assert waiting["n/tied"].allowed[index["f1"]]
    assert not waiting["n/tied"].allowed[index["s1"]]
