"""A mistake of ours in a thread is logged, and does not end the thread."""

import threading

import pytest

from foretell.adapters.kubernetes.events import Events
from foretell.adapters.kubernetes.lease import Lease, LeaseSettings
from foretell.adapters.kubernetes.standalone.binding import Binder, Binding

from .control_plane import wait_until
from .test_state import World, node, pod


class Server:
    """Answers of an API server, one after the other; those that are exceptions are raised."""

    def __init__(self, *answers):
        self.answers, self.n_asked = list(answers), 0

    def request(self, *_, **__):
        self.n_asked += 1
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        return answer

    get = post = put = patch = request


@pytest.fixture
def world():
    found = World()
    found.nodes.replace([node("f1", "fast")])
    found.pods.replace([pod("a")])
    found.state.assume(found.record("a"), "f1")
    return found


def test_events_are_written_after_one_that_could_not_be(world, caplog):
    about = world.record("a").pod
    server = Server(RuntimeError("a mistake"))
    with Events(server, "foretell") as events:
        events.start()
        events.tell(about, "Scheduled", "one")
        events.tell(about, "Scheduled", "two")
        wait_until(lambda: server.n_asked == 2, "the second event")
    assert "a mistake" in caplog.text


def test_a_lease_is_asked_for_and_told_again_after_mistakes(caplog):
    held = {"metadata": {"resourceVersion": "1"}, "spec": {}}
    server = Server(RuntimeError("a mistake"), *[held] * 100)
    told, is_told = [], threading.Event()

    def on_change(is_held):
        told.append(is_held)
        if len(told) == 1:
            raise RuntimeError("another mistake")
        is_told.set()

    with Lease(server, LeaseSettings("n", "l", duration_s=1), on_change) as lease:
        lease.start()
        assert is_told.wait(60)
    assert told[:2] == [True, True]
    assert "a mistake" in caplog.text
    assert "another mistake" in caplog.text


def test_a_binding_stays_doubtful_if_asking_about_it_goes_wrong(world, caplog):
    record, ended = world.record("a"), []
    server = Server({"metadata": None}, {"metadata": {"uid": "uid-a"}, "spec": {"nodeName": "f1"}})
    with Binder(server, world.state, lambda: True, lambda *end: ended.append(end[1])) as binder:
        binder._doubtful = [Binding(record, "f1")]
        binder.resolve()
        wait_until(lambda: binder.n_doubtful, "a doubt")
        assert record.assumed == "f1"
        assert ended == []
        binder.resolve()
        wait_until(lambda: ended, "an end")
    assert ended == ["bound"]
    assert "asking about n/a failed" in caplog.text
