"""The loop of the scheduler, pass by pass: with a clock that is turned by hand, and no server."""

from dataclasses import replace

import pytest

from foretell.adapters.kubernetes.metrics import SchedulerMetrics
from foretell.adapters.kubernetes.standalone.binding import Binding
from foretell.adapters.kubernetes.standalone.scheduler import Standalone
from foretell.adapters.kubernetes.watching import ADDED, DELETED, MODIFIED
from foretell.decide.placement.estimates import Figure

from ..test_state import CLUSTER, averse, labeled, node, pod
from ..test_state import World as Seen


class Watches:
    """Watches that are current as a test says."""

    are_current = True


class World(Seen):
    """A live cluster, and a scheduler that decides and binds nothing."""

    def __init__(self, cluster=CLUSTER):
        super().__init__(cluster)
        self.decided, self.watches = [], Watches()
        self.namespaces.replace([{"metadata": {"name": "n"}}])
        self.scheduler = Standalone(None, self.state, self.watches, tell=self.decided.append)

    def places(self):
        """Make a pass; return the pods that got a node, with it."""
        self.decided.clear()
        self.scheduler.place_pending()
        return {decision.pod.removeprefix("n/"): decision.node for decision in self.decided}

    def listen(self):
        """Return a list of the events that pods get from now on."""
        told = []

        class Told:
            def tell(self, found, reason, text, kind):
                told.append((found.name, text))

            def set_unschedulable(self, found, text):
                pass

        self.scheduler._events = Told()
        return told

    def fail(self, name):
        """Let the binding of a pod fail."""
        record = self.record(name)
        binding = Binding(record, record.assumed)
        self.state.forget(record)
        self.scheduler._on_end(binding, "failed", "no reason")


@pytest.fixture
def world():
    found = World()
    found.nodes.replace([node("f1", "fast"), node("s1", "slow")])
    return found


def test_pods_are_placed_by_arrival_and_those_without_room_wait_for_it(world):
    world.pods.replace([pod(name, "3") for name in "abc"])
    assert world.places() == {"a": "f1", "b": "s1"}
    assert world.places() == {}
    world.pods.change(DELETED, pod("a"))
    assert world.places() == {"c": "f1"}


def test_a_pod_that_does_not_fit_does_not_hold_up_those_after_it(world):
    world.pods.replace([pod("a", "9"), pod("b", "1")])
    assert world.places() == {"b": "f1"}


def test_a_pod_that_is_kept_away_does_not_hold_up_another_that_asks_for_as_much(world):
    world.pods.replace([averse("a", "f1"), averse("b", "s1"), labeled("web"), labeled("x", "x")])
    assert world.places() == {"x": "f1"}
    world.pods.change(DELETED, averse("b", "s1"))
    assert world.places() == {"web": "s1"}


def test_a_binding_that_fails_is_tried_again_later_and_later(world):
    world.pods.replace([pod("a")])
    assert world.places() == {"a": "f1"}
    for expected_s in (1, 2, 4, 8, 10, 10):  # up to a fifth more, so that not all try at once
        world.fail("a")
        world.now_s += 0.99 * expected_s
        assert world.places() == {}
        world.now_s += 0.22 * expected_s
        assert world.places() == {"a": "f1"}


def test_nothing_is_decided_while_changes_may_be_missed(world):
    world.pods.replace([pod("a")])
    world.watches.are_current = False
    assert world.places() == {}
    world.watches.are_current = True
    assert world.places() == {"a": "f1"}


def test_a_pod_waits_until_its_namespace_is_known(world):
    world.namespaces.replace([])
    world.pods.replace([pod("a")])
    assert world.places() == {}
    before = world.state.n_arrived
    annotated = {"metadata": {"name": "n", "annotations": {"foretell/H": "1"}}}
    world.namespaces.change(ADDED, annotated)
    assert world.state.n_arrived > before
    assert world.places() == {"a": "s1"}


def test_pods_that_arrive_together_do_not_take_the_best_node_from_each_other():
    """The first loses little on the other node, and the second would lose much."""
    types = [
        {"name": "x", "selector": {"type": "x"}, "capacity": {"cpu": 1}, "time_s": "10"},
        {"name": "y", "selector": {"type": "y"}, "capacity": {"cpu": 1},
         "time_s": "10 + 100 * hard"},
    ]  # fmt: skip
    for together in (True, False):
        world = World({"policy": {"H": 0}, "node_type": types})
        world.nodes.replace([node("x1", "x", "1"), node("y1", "y", "1")])
        easy, hard = (pod(name, annotations={"foretell/hard": value})
                      for name, value in (("easy", "0.01"), ("hard", "1")))  # fmt: skip
        if together:
            world.pods.replace([easy, hard])
            assert world.places() == {"easy": "y1", "hard": "x1"}
        else:
            world.pods.change(ADDED, easy)
            assert world.places() == {"easy": "x1"}
            world.pods.change(ADDED, hard)
            assert world.places() == {"hard": "y1"}


def test_a_wrong_annotation_is_counted_once(world):
    world.scheduler.metrics = SchedulerMetrics()
    world.pods.replace([pod("a", annotations={"foretell/H": "7"}), pod("b")])
    world.places()
    world.places()
    assert (
        'foretell_errors_total{kind="annotation"} 1.0'
        in world.scheduler.metrics.to_bytes().decode()
    )


@pytest.mark.parametrize(
    ("known", "label"),
    [({"time_s": 1, "energy_j": 1}, "all"), ({"time_s": 1}, "some"), ({"energy_j": 1}, "some"),
     ({}, "none")],
)  # fmt: skip
def test_decisions_are_counted_by_how_much_is_known(known, label):
    kind = {"name": "x", "selector": {"type": "x"}, "capacity": {"cpu": 4}, **known}
    world = World({"policy": {"H": 0.5}, "node_type": [kind]})
    world.scheduler.metrics = SchedulerMetrics()
    world.nodes.replace([node("x1", "x", "1")])
    world.pods.replace([pod("a")])
    assert world.places() == {"a": "x1"}
    text = world.scheduler.metrics.to_bytes().decode()
    assert f'foretell_decisions_total{{known="{label}"}} 1.0' in text


class Broken:
    """A model with a mistake: it cannot take tasks of 13 iterations."""

    digest = "broken"

    def figures(self, rows):
        if any(row["iterations"] == 13 for row in rows):
            raise ZeroDivisionError("thirteen")
        return [Figure(1.0, 1.0, 1.0) for _ in rows]


def break_models(state):
    """Let the models of all types of nodes fail for one kind of task."""
    models = state.chooser.estimates.models
    state.chooser.estimates.replace([replace(model, time=Broken()) for model in models])


def test_a_pod_that_cannot_be_decided_is_told_and_tried_later_and_holds_up_no_other(world):
    break_models(world.state)
    told = world.listen()
    wrong = {"foretell/iterations": "13"}
    world.pods.replace([pod("a", "3"), pod("b", "3", annotations=wrong), pod("c", "3")])
    assert set(world.places()) == {"a", "c"}
    assert [(name, "ZeroDivisionError: thirteen" in text) for name, text in told] == [("b", True)]
    assert world.record("b").assumed == ""
    world.pods.change(DELETED, pod("a"))
    world.state.chooser.estimates.replace(World().state.chooser.estimates.models)
    assert world.places() == {}  # not yet
    world.now_s += 1.3
    assert set(world.places()) == {"b"}


def test_a_number_that_is_too_large_for_a_float_stops_nobody(world):
    wrong = {"foretell/iterations": "9" * 400}
    world.pods.replace([pod("a", "2"), pod("b", "2", annotations=wrong), pod("c", "2")])
    assert set(world.places()) == {"a", "b", "c"}


@pytest.fixture
def starving():
    """A large pod that has waited long while a later one was placed; both nodes are in use."""
    world = World()
    world.nodes.replace([node("f1", "fast"), node("s1", "slow")])
    world.pods.replace([pod("a", "3", where="f1"), pod("b", "3", where="s1"), pod("large", "4")])
    assert world.places() == {}
    world.pods.change(ADDED, pod("small", "1"))
    assert world.places() == {"small": "f1"}
    assert not world.state.fleet.reserved.any()
    world.now_s += 301
    assert world.places() == {}
    return world


def test_the_node_with_the_earliest_room_is_kept_free_for_a_starving_pod(starving):
    # On f1 a task of 100 iterations takes 10 s, and on s1 100 s.
    assert starving.record("large").own == "f1"
    starving.pods.change(DELETED, pod("small"))
    starving.pods.change(ADDED, pod("later", "1"))
    assert starving.places() == {"later": "s1"}
    starving.pods.change(DELETED, pod("a"))
    assert starving.places() == {"large": "f1"}
    assert not starving.state.fleet.reserved.any()


def test_another_node_is_kept_free_when_the_first_one_is_not_ready_anymore(starving):
    starving.nodes.change(MODIFIED, node("f1", "fast", ready="False"))
    assert starving.places() == {}
    assert starving.record("large").own == "s1"


def test_a_node_whose_pods_have_no_predicted_end_is_not_kept_free():
    """A service that runs for ever on f1 has no iterations; on s1 there is room after 10,000 s."""
    world = World()
    world.nodes.replace([node("f1", "fast"), node("s1", "slow")])
    for_ever, long = {"foretell/iterations": "many"}, {"foretell/iterations": "10000"}
    world.pods.replace([
        pod("service", "3", where="f1", annotations=for_ever),
        pod("long", "3", where="s1", annotations=long),
        pod("large", "4"),
    ])  # fmt: skip
    world.places()
    world.pods.change(ADDED, pod("small", "1"))
    world.places()
    world.now_s += 301
    world.places()
    assert world.record("large").own == "s1"
    world.nodes.change(DELETED, node("s1", "slow"))
    world.places()
    assert world.record("large").own == ""


def test_another_node_is_kept_free_when_room_did_not_come_where_it_was_predicted(starving):
    starving.now_s += 299
    starving.places()
    assert starving.record("large").own == "f1"
    starving.now_s += 2
    starving.places()
    assert starving.record("large").own == "s1"
    assert starving.state.fleet.reserved.sum() == 1


def test_a_pod_that_nobody_overtook_gets_no_reservation(world):
    world.pods.replace([pod("a", "3", where="f1"), pod("b", "3", where="s1"), pod("large", "4")])
    world.places()
    world.now_s += 1000
    world.places()
    assert world.record("large").own == ""
