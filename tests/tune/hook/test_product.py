"""Product mode on trainings whose epoch times are known: what is tried, chosen and left."""

import math

import numpy as np
import pytest

from foretell.tune.hook.clock import Measured
from foretell.tune.hook.policy import Grid, Moment, Objective
from foretell.tune.hook.product import ProductPolicy
from foretell.tune.knobs import Knob
from foretell.tune.store import EpochRow, open_store


class Fake(Knob):
    """Threads of a machine that is not there."""

    def __init__(self, value):
        self.value = value

    def read(self):
        return self.value

    def apply(self, value):
        self.value = value

    def check(self, value):
        pass

    def n_cores(self, value):
        return value / 100  # never more than there are

    def prior(self, value, against):
        return (0.45, 2.2)


def train(store, truth, *, n_epochs=9, rungs=(), trial="t", hyper=None, start=2, shared=False,
          objective="throughput", noise=0.0, warm_up=1.1):  # fmt: skip
    """Play a training; return the setting of each epoch, and which were probes."""
    knobs = {"threads": Fake(start)}
    hyper = hyper or {"batch": 16}
    grid = Grid(knobs, {"threads": list(truth)}, infeasible=store.infeasible("j", trial))
    policy = ProductPolicy(store, grid, Objective(objective), job="j", trial=trial, hyper=hyper)
    rng, settings, probes = np.random.default_rng(0), [], []
    for epoch in range(n_epochs):
        left = min(r for r in (*rungs, n_epochs) if r > epoch) - epoch
        moment = Moment(epoch, n_epochs, left, epoch == 0, shared)
        choice = policy.choose(moment)
        threads = choice.setting["threads"]
        seconds = truth[threads] * rng.lognormal(0, noise) * (warm_up if epoch == 0 else 1.0)
        policy.observe(choice, moment, Measured(seconds, seconds, 0.0, int(shared)))
        phase = "warm-up" if epoch == 0 else choice.phase
        store.add_epochs(
            [EpochRow("j", trial, epoch, phase, hyper, choice.setting, seconds,
                      n_siblings=int(shared))]
        )  # fmt: skip
        settings.append(threads)
        probes.append(choice.phase == "probe")
    return settings, sum(probes)


@pytest.mark.parametrize("truth", [{1: 1.0, 2: 3.0}, {1: 3.0, 2: 1.0}, {1: 1.0, 2: 1.0}])
def test_the_best_setting_is_found_with_at_most_a_quarter_of_the_epochs_as_probes(truth):
    settings, n_probes = train(open_store(":memory:"), truth, noise=0.02)
    assert truth[settings[-1]] == min(truth.values())
    assert n_probes <= 2


def test_with_a_warm_store_the_best_setting_is_there_from_the_first_epoch_and_nothing_is_tried():
    store, truth = open_store(":memory:"), {1: 1.0, 2: 2.0}
    for i in range(4):
        train(store, truth, trial=f"t{i}")
    settings, n_probes = train(store, truth, trial="new")
    assert settings == [1] * 9
    assert n_probes == 0


def test_nothing_is_tried_where_the_next_rung_is_near():
    settings, n_probes = train(open_store(":memory:"), {1: 1.0, 2: 1.1}, rungs=range(1, 9))
    assert n_probes == 0
    assert set(settings) == {2}


@pytest.mark.parametrize("n_epochs", [1, 2])
def test_nothing_is_tried_in_trainings_of_fewer_than_three_epochs(n_epochs):
    assert train(open_store(":memory:"), {1: 0.1, 2: 9.0}, n_epochs=n_epochs) == ([2] * n_epochs, 0)


def test_a_setting_is_not_left_for_one_that_is_better_by_less_than_hysteresis():
    settings, _ = train(open_store(":memory:"), {1: 0.985, 2: 1.0}, n_epochs=40, warm_up=1.0)
    assert settings[-1] == 2


def test_a_setting_whose_probe_never_ended_is_not_tried_again():
    store = open_store(":memory:")
    store.begin_probe("j", "t", {"threads": 1})
    settings, n_probes = train(store, {1: 0.1, 2: 1.0})
    assert set(settings) == {2}
    assert n_probes == 0


def test_a_setting_that_is_given_up_counts_as_one_that_was_tried():
    grid = Grid({"threads": Fake(2)}, {"threads": [1, 2, 4]})
    policy = ProductPolicy(
        open_store(":memory:"), grid, Objective("throughput"), job="j", trial="t", hyper={}
    )
    phases = []
    for epoch in range(5):  # one of which may be a probe
        moment = Moment(epoch, 5, 5 - epoch, epoch == 0, False)
        choice = policy.choose(moment)
        phases.append(choice.phase)
        if choice.phase == "probe":
            grid.refuse(choice.setting)  # no batch came under it, and so nothing is observed
        else:
            policy.observe(choice, moment, Measured(1.0, 1.0, 0.0, 0))
    assert phases.count("probe") == 1


def test_hyperparameters_decide_which_setting_is_best():
    store, rng = open_store(":memory:"), np.random.default_rng(0)
    for i, batch in enumerate(rng.choice([16, 32, 64, 128, 256], 25)):
        truth = {1: 1.0, 2: 2.0 * (32 / batch) ** 0.5}
        train(store, truth, hyper={"batch": int(batch)}, trial=f"t{i}", noise=0.02)
    chosen = [train(store, {1: 1.0, 2: 2.0 * math.sqrt(32 / b)}, hyper={"batch": b}, trial=f"n{b}")
              for b in (16, 256)]  # fmt: skip
    assert [settings[-1] for settings, _ in chosen] == [1, 2]


def test_while_others_train_core_seconds_count_and_alone_seconds_do():
    weights = [
        Objective("throughput").weight(n, is_shared=s) for s in (True, False) for n in (1, 2)
    ]
    assert weights == [1, 2, 1, 1]
    assert Objective("throughput", lease=2).weight(1, is_shared=True) == 2  # set aside in any case
    assert Objective("latency").weight(2, is_shared=True) == 1
    assert (
        Objective("energy").weight(1, is_shared=True)
        < Objective("energy").weight(2, is_shared=True) + 1e-9
    )


def regrets(n_trials, noise):
    """Return how much more the setting at the end costs than the best, trial after trial."""
    store, rng, found = open_store(":memory:"), np.random.default_rng(1), []
    for i in range(n_trials):
        batch = int(rng.choice([16, 32, 64, 128]))
        truth = {1: 1.0, 2: 0.4 + 12 / batch, 4: 0.3 + 30 / batch}
        settings, _ = train(
            store, truth, hyper={"batch": batch}, trial=f"t{i}", noise=noise, n_epochs=12
        )
        found.append(truth[settings[-1]] / min(truth.values()) - 1)
    return found


def test_nine_of_ten_trials_end_within_five_percent_of_the_best_of_all_settings():
    found = regrets(40, noise=0.03)
    assert np.mean(np.array(found) <= 0.05) >= 0.9


def test_choosing_uses_one_thread_for_linear_algebra_and_puts_the_others_back(monkeypatch):
    from threadpoolctl import ThreadpoolController, threadpool_limits

    from foretell.decide.tuning.epoch_process import EpochProcess

    def n_threads():
        found = ThreadpoolController().select(user_api="blas").lib_controllers
        return {library.num_threads for library in found}

    seen, ratio = [], EpochProcess.ratio

    def seeing(*args, **options):
        seen.append(n_threads())
        return ratio(*args, **options)

    monkeypatch.setattr(EpochProcess, "ratio", seeing)
    with threadpool_limits(2, user_api="blas"):
        train(open_store(":memory:"), {1: 1.0, 2: 3.0})
        assert n_threads() == {2}
    assert seen
    assert all(n == {1} for n in seen)
