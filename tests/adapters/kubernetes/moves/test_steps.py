"""Moves step by step, on a server that answers as a test says and notes what it is asked for."""

import pytest

from foretell.adapters.kubernetes.client import ApiError
from foretell.adapters.kubernetes.moves.moving import Moving
from foretell.adapters.kubernetes.moves.steps import Patience

from ..test_state import World, node
from ..test_state import pod as plain_pod

PODS = "/api/v1/namespaces/n/pods"
RULES = {"enabled": True, "every_s": 1, "min_age_s": 0, "min_remaining_s": 0, "start_s": 1}
CLUSTER = {
    "policy": {"H": 0},
    "migration": RULES,
    "node_type": [
        {"name": name, "selector": {"type": name}, "capacity": {"cpu": 4}, "time_s": time_s,
         "energy_j": 1}
        for name, time_s in {"fast": "iterations / 10", "slow": "iterations"}.items()
    ],
}  # fmt: skip


class Server:
    """Keeps pods, as an API server does.

    Attributes
    ----------
    asked
        The method and the path of each request.
    before
        Called before a request, by its method and the end of its path; may change pods.
    after
        The same once it was done: an error here is a lost answer.
    """

    def __init__(self):
        self.pods, self.asked, self.n = {}, [], 0
        self.before, self.after = {}, {}

    def put(self, item):
        self.n += 1
        meta = {**item["metadata"], "resourceVersion": str(self.n)}
        self.pods[meta["name"]] = {**item, "metadata": meta}
        return self.pods[meta["name"]]

    def get(self, path, query=None):
        if path == "/apis/policy":
            return {"versions": [{"version": "v1"}]}
        if path.endswith("poddisruptionbudgets"):
            return {"items": [], "metadata": {}}
        return self._do("GET", path, self._found)

    def post(self, path, body):
        if path.endswith("/eviction"):
            return self._do("POST", path, lambda p: self._evict(p.removesuffix("/eviction"), body))
        return self._do("POST", path, lambda _: self._create(body))

    def patch(self, path, body):
        return self._do("PATCH", path, self._found)

    def delete(self, path, body):
        return self._do("DELETE", path, lambda p: self._delete(p, body["preconditions"]))

    def _do(self, method, path, act):
        self.asked.append((method, path))
        key = (method, path.rpartition("/")[2])
        self.before.pop(key, lambda: None)()
        answer = act(path)
        self.after.pop(key, lambda: None)()
        return answer

    def _found(self, path):
        name = path.rpartition("/")[2]
        if name not in self.pods:
            raise ApiError("not found", 404)
        return self.pods[name]

    def _create(self, body):
        if body["metadata"]["name"] in self.pods:
            raise ApiError("it exists", 409)
        self.n += 1
        meta = {**body["metadata"], "uid": f"uid-new-{self.n}"}
        return self.put({**body, "metadata": meta, "status": {"phase": "Pending"}})

    def _evict(self, path, body):
        self._delete(path, body["deleteOptions"]["preconditions"])

    def _delete(self, path, preconditions):
        meta = self._found(path)["metadata"]
        if any(meta[key] != value for key, value in preconditions.items()):
            raise ApiError("conflict", 409)
        del self.pods[meta["name"]]


class Moves:
    """A mover of the pods of a server, whose watch and clock are turned by hand."""

    def __init__(self):
        self.world, self.server, self.reports = World(CLUSTER), Server(), []
        self.world.nodes.replace([node("s1", "slow"), node("f1", "fast")])
        self.state = self.world.state
        self.moving = Moving(
            self.server, self.state, lambda: True, tell=self.reports.append, patience=Patience()
        )

    def run(self, name, owner=None, **annotations):
        """Let a pod run on the slow node."""
        self.server.put(running(name, owner, **annotations))
        self.watch()

    def watch(self):
        """Let the watch see what there is."""
        self.world.pods.replace(list(self.server.pods.values()))

    def complete(self, name):
        """Let a pod complete; the watch has not seen it yet."""
        self.server.put({**self.server.pods[name], "status": {"phase": "Succeeded"}})

    def get_ready(self, name):
        self.server.put({**self.server.pods[name], "status": READY})
        self.watch()

    def step(self, times=3):
        for _ in range(times):
            self.world.now_s += 1
            self.moving.step()

    @property
    def results(self):
        return [(report.pod, report.result) for report in self.reports]


READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def running(name, owner=None, **annotations):
    known = {"foretell/iterations": "1000", "foretell/migratable": "restart", **annotations}
    item = plain_pod(name, where="s1", annotations=known)
    if owner is not None:
        item["metadata"]["ownerReferences"] = [
            {"kind": "ReplicaSet", "uid": owner, "controller": True}
        ]
    return {**item, "status": READY}


@pytest.fixture
def moves():
    found = Moves()
    yield found
    found.moving.close()


def test_a_pod_moves(moves):
    moves.run("job")
    moves.step()
    assert set(moves.server.pods) == {"job", "job-move-1"}
    moves.get_ready("job-move-1")
    moves.step()
    assert set(moves.server.pods) == {"job-move-1"}


def test_a_copy_that_is_ready_before_its_creation_is_answered_counts_as_ready(moves):
    moves.run("job")
    moves.server.after["POST", "pods"] = lambda: moves.get_ready("job-move-1")
    moves.step()
    assert set(moves.server.pods) == {"job-move-1"}


def test_a_pod_that_completes_while_moves_are_planned_is_not_run_again(moves):
    moves.run("first")
    moves.run("job")
    find = moves.moving._mover.find

    def finding(running, *others):
        if running.task.name == "n/job":  # after the first was found
            moves.complete("first")
            moves.watch()
            moves.server.before["GET", "first"] = lambda: moves.server.put(running_pod)
        return find(running, *others)

    running_pod = moves.server.pods["first"]  # the server's answer may be old, too
    moves.moving._mover.find = finding
    moves.step()
    assert ("n/first", "kept") in moves.results
    assert set(moves.server.pods) == {"first", "job", "job-move-1"}


def test_a_pod_that_completed_unseen_is_not_run_again(moves):
    moves.run("job")
    moves.server.before["GET", "job"] = lambda: moves.complete("job")
    moves.step()
    assert moves.results == [("n/job", "kept")]
    assert set(moves.server.pods) == {"job"}


def test_a_pod_that_is_being_deleted_unseen_gets_no_copy(moves):
    moves.run("job")

    def delete():
        item = moves.server.pods["job"]
        going = {**item["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}
        moves.server.put({**item, "metadata": going})

    moves.server.before["GET", "job"] = delete
    moves.step()
    assert moves.results == [("n/job", "kept")]
    assert set(moves.server.pods) == {"job"}


def test_the_result_of_a_pod_that_completes_just_before_its_eviction_is_not_deleted(moves):
    moves.run("job")
    moves.step()
    moves.get_ready("job-move-1")
    moves.server.before["POST", "eviction"] = lambda: moves.complete("job")
    moves.step()
    assert "job" in moves.server.pods
    for _ in range(2):
        moves.watch()
        moves.step()
    assert moves.results == [("n/job", "kept")]
    assert set(moves.server.pods) == {"job"}


def lost():
    raise ApiError("no answer")


def test_a_copy_whose_creation_was_not_answered_is_found_by_its_name(moves):
    moves.run("job")
    moves.server.after["POST", "pods"] = lost
    moves.step()
    moves.get_ready("job-move-1")
    moves.step()
    assert set(moves.server.pods) == {"job-move-1"}


def test_another_pod_that_has_the_name_of_the_copy_is_not_taken_for_it(moves):
    moves.run("job")
    other = running("job-move-1", **{"foretell/migratable": "never"})

    def taken():
        moves.server.put(other)
        lost()

    moves.server.before["POST", "pods"] = taken
    moves.step()
    assert moves.results == [("n/job", "kept")]
    moves.watch()
    moves.step()
    assert set(moves.server.pods) == {"job", "job-move-1"}


def test_a_copy_that_a_list_does_not_have_yet_is_deleted_all_the_same(moves):
    moves.run("job")
    older = list(moves.server.pods.values())
    moves.step()
    assert set(moves.server.pods) == {"job", "job-move-1"}
    moves.world.pods.replace(older)
    moves.step()
    assert moves.results == [("n/job", "kept")]
    assert set(moves.server.pods) == {"job"}


def test_a_copy_that_could_not_be_deleted_is_taken_over(moves):
    moves.run("job")
    moves.step()
    older = [moves.server.pods["job"]]

    def refuse():
        raise ApiError("forbidden", 403)

    moves.server.before["DELETE", "job-move-1"] = refuse
    moves.world.pods.replace(older)
    moves.step()
    assert moves.results == [("n/job", "kept")]
    moves.get_ready("job-move-1")
    moves.step()
    assert set(moves.server.pods) == {"job-move-1"}


def test_an_owners_pod_whose_eviction_was_not_answered_has_moved(moves):
    moves.run("old", "set")
    moves.server.after["POST", "eviction"] = lost
    moves.step(1)
    after = running("new", "set")
    after["spec"]["nodeName"] = None
    moves.server.put({**after, "status": {"phase": "Pending"}})
    moves.watch()
    moves.step()
    assert moves.world.record("new").target == "f1"
    after["spec"]["nodeName"] = "f1"
    moves.server.put(after)
    moves.watch()
    moves.step()
    assert moves.results == [("n/old", "moved")]
    assert ("PATCH", f"{PODS}/new") in moves.server.asked  # its history


def test_a_move_that_fails_in_an_unexpected_way_does_not_hold_up_others(moves):
    moves.run("bad")
    moves.run("good")

    def fail():
        raise RuntimeError("broken")

    moves.server.after["POST", "pods"] = fail  # of the first
    moves.step(1)
    assert moves.results == [("n/bad", "kept")]
    assert "broken" in moves.reports[0].reason
    moves.step()
    assert set(moves.server.pods) == {"bad", "bad-move-1", "good", "good-move-1"}
    for name in ("bad-move-1", "good-move-1"):
        moves.get_ready(name)
    moves.step()  # the copy that was left is taken over
    assert set(moves.server.pods) == {"bad-move-1", "good-move-1"}
    moves.watch()
    moves.step()
    assert sorted(moves.results[1:]) == [("n/bad", "moved"), ("n/good", "moved")]
    assert moves.world.used("f1") == 2  # no room is held any more


@pytest.mark.parametrize("migratable", ["restart", "never"])
def test_a_pod_that_cannot_be_judged_does_not_hold_up_others(moves, migratable):
    moves.run("bad", **{"foretell/migratable": migratable})
    moves.run("good")
    task, asked = moves.state.task, []

    def read(record):
        asked.append(record.pod.name)
        if record.pod.name == "bad":
            raise RuntimeError("broken")
        return task(record)

    moves.state.task = read
    moves.step()
    assert set(moves.server.pods) == {"bad", "good", "good-move-1"}
    assert ("bad" in asked) == (migratable != "never")


def test_a_report_that_fails_does_not_hold_up_moves(moves):
    moves.run("one")
    moves.run("two")
    moves.moving._is_dry = True

    def tell(report):
        moves.reports.append(report)
        raise OSError("the disk is full")

    moves.moving._tell = tell
    moves.step()
    assert moves.results == [("n/one", "planned"), ("n/two", "planned")]
    assert moves.world.used("f1") == 0
