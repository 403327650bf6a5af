"""Paper mode on trainings whose epoch times and profiles are known."""

import pytest

from foretell.tune.hook.clock import Measured
from foretell.tune.hook.paper import PaperPolicy
from foretell.tune.hook.policy import Grid, Moment, Objective
from foretell.tune.hook.profile import Profiler
from foretell.tune.knobs.prefetch import PrefetchKnob
from foretell.tune.store import EpochRow, ProfileRow, open_store

#: The epoch times of settings.
TIMES = {1: 3.0, 2: 2.0, 4: 1.0}


@pytest.fixture(autouse=True)
def profile(monkeypatch):
    """Every training has the profile of small ones."""
    monkeypatch.setattr(Profiler, "stop", lambda _: {"faults": 11.0})


def train(store, trial="t", *, epochs=range(9), values=(1, 2, 4), n_epochs=9, infeasible=()):
    """Train some epochs in a process of their own; return their settings."""
    grid = Grid({"prefetch": PrefetchKnob()}, {"prefetch": list(values)}, infeasible=infeasible)
    policy = PaperPolicy(store, grid, Objective("latency"), job="j", trial=trial, hyper={})
    settings = []
    for epoch in epochs:
        moment = Moment(epoch, n_epochs, n_epochs - epoch, epoch == epochs[0], False)
        choice = policy.choose(moment)
        seconds = TIMES[choice.setting["prefetch"]]
        policy.observe(choice, moment, Measured(seconds, seconds, 0.0, 0))
        row = EpochRow("j", trial, epoch, choice.phase, {}, choice.setting, seconds)
        store.add_epochs([row])
        settings.append(choice.setting["prefetch"])
    return settings


def known_store(*bests):
    """A store of small trainings and of large ones; the small ones have known best settings."""
    store = open_store(":memory:")
    for i, faults in enumerate((10.0, 12.0, 9000.0, 9002.0)):
        store.add_profile(ProfileRow("old", f"o{i}", "{}", {"faults": faults}, False))
    for best in bests:
        row = ProfileRow("old", f"b{best}", "{}", {"faults": 11.0}, False)
        store.add_profile(row)
        store.add_profile(ProfileRow(*vars_of(row), {"prefetch": best}, TIMES[best]))
    return store


def vars_of(row):
    return row.job, row.trial, row.batch, row.counters, row.was_known


def test_the_fastest_setting_of_similar_trainings_is_taken_over():
    assert train(known_store(1, 4)) == [2, 2, *[4] * 7]


def test_a_setting_that_this_training_may_not_have_is_not_taken_over():
    assert train(known_store(1, 4), values=(1, 2)) == [2, 2, *[1] * 7]
    assert train(known_store(4), values=(1, 2)) == [2, 2, 1, *[2] * 6]


def test_a_setting_that_failed_before_is_neither_taken_over_nor_tried():
    assert 4 not in train(known_store(4), infeasible=[{"prefetch": 4}])
    assert 4 not in train(open_store(":memory:"), infeasible=[{"prefetch": 4}])


def test_a_training_that_goes_on_keeps_its_best_setting():
    store = open_store(":memory:")
    assert train(store, epochs=range(6)) == [2, 2, 1, 4, 4, 4]
    assert train(store, epochs=range(6, 9)) == [4, 4, 4]
    (found,) = store.profiles()
    assert (found.best, found.best_s) == ({"prefetch": 4}, 1.0)


def test_a_training_that_goes_on_tries_only_what_it_has_not_tried():
    store = open_store(":memory:")
    assert train(store, epochs=range(3)) == [2, 2, 1]
    assert train(store, epochs=range(3, 7)) == [2, 4, 4, 4]


def test_a_best_setting_that_was_found_is_not_forgotten():
    store = known_store(1)
    store.add_profile(ProfileRow("old", "b1", "{}", {"faults": 11.0}, False))
    assert store.profiles()[-1].best == {"prefetch": 1}
