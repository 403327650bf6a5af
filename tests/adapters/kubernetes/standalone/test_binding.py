"""Bindings on a real API server: refused ones, lost answers, and pods that must not be bound."""

import queue

import pytest

from foretell.adapters.kubernetes.client import connect
from foretell.adapters.kubernetes.standalone.binding import Binder, Binding
from foretell.adapters.kubernetes.state import open_state
from foretell.adapters.kubernetes.state_handler import StateHandler
from foretell.adapters.kubernetes.watching import ADDED, DELETED, MODIFIED

from ..control_plane import wait_until
from .test_command import PODS, task

CLUSTER = {"node_type": [{"name": "any", "selector": {"type": "any"}, "capacity": {"cpu": 4}}]}


class World:
    """A state that sees what it is shown, and a binder for it."""

    def __init__(self, control_plane, api):
        self.server, self.api = control_plane.api(), api
        self.state, self.ended, self.may_bind = open_state(CLUSTER), queue.Queue(), True
        self.nodes, self.pods = (StateHandler(self.state, kind) for kind in ("nodes", "pods"))
        self.nodes.replace(self.server.list("/api/v1/nodes"))
        self.binder = Binder(
            api, self.state, lambda: self.may_bind, lambda *end: self.ended.put(end)
        )

    def make(self, name):
        """Make a pod that is assumed to be on the first node."""
        self.pods.change(ADDED, self.server.create(PODS, task(name)))
        record = self.state.pending("foretell")[-1]
        self.state.assume(record, "n1")
        return record

    def bind(self, record, node="n1"):
        """Bind a pod; return how that ended."""
        self.binder.submit(Binding(record, node))
        return self.ended.get(timeout=60)[1:]

    def used(self, name="n1"):
        return self.state.fleet.n_tasks[self.state.index[name]]

    def node_of(self, name):
        return self.server.get(f"{PODS}/{name}")["spec"].get("nodeName")


@pytest.fixture
def world(control_plane, kubelets):
    kubelets.add_many(["n1", "n2"], {"type": "any"})
    with connect(control_plane.kubeconfig()) as api:
        found = World(control_plane, api)
        with found.binder:
            yield found


def test_a_pod_is_bound_and_stays_counted(world):
    record = world.make("p")
    assert world.bind(record) == ("bound", "")
    assert world.node_of("p") == "n1"
    assert world.used() == 1


def test_a_pod_that_another_scheduler_bound_is_forgotten(world):
    record = world.make("p")
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n2"}}
    world.server.create(f"{PODS}/p/binding", binding)
    outcome, why = world.bind(record)
    assert outcome == "refused"
    assert "409" in why
    assert world.used() == 0
    assert world.node_of("p") == "n2"


def test_a_pod_that_is_gone_is_forgotten(world):
    record = world.make("p")
    world.server.delete(f"{PODS}/p", gracePeriodSeconds=0)
    outcome, why = world.bind(record)
    assert outcome == "refused"
    assert "404" in why
    assert world.used() == 0


def test_what_changed_meanwhile_is_not_bound(world):
    record = world.make("p")
    world.may_bind = False
    assert world.bind(record) == ("dropped", "another replica has the lease")
    world.may_bind = True
    world.state.assume(record, "n1")
    world.nodes.change(DELETED, {"metadata": {"name": "n1"}})
    assert world.bind(record) == ("dropped", "node n1 is gone or not ready")
    world.state.assume(record, "n2")
    deleting = world.server.get(f"{PODS}/p")
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.pods.change(MODIFIED, deleting)
    assert world.bind(record, "n2") == ("dropped", "it is being deleted")
    assert world.node_of("p") is None


@pytest.mark.parametrize("is_made", [True, False])
def test_a_lost_answer_is_asked_for(world, is_made, monkeypatch):
    """The connection breaks after the server made the binding, or before it got the request."""
    record = world.make("p")
    post = world.api.post

    def lose(path, body, **options):
        if is_made:
            post(path, body, **options)
        monkeypatch.setattr(world.api, "host", "https://127.0.0.1:1")  # where nobody answers
        return post(path, body, **options)

    monkeypatch.setattr(world.api, "post", lose)
    world.binder.submit(Binding(record, "n1"))
    wait_until(lambda: world.binder.n_doubtful, "a doubt")
    assert world.used() == 1  # until it is known
    monkeypatch.undo()
    world.binder.resolve()
    outcome, _ = world.ended.get(timeout=60)[1:]
    assert outcome == ("bound" if is_made else "failed")
    assert world.used() == (1 if is_made else 0)
    assert world.node_of("p") == ("n1" if is_made else None)
