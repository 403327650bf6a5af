"""Schedulers of searches decide what those of Ray Tune and Optuna really decide."""

import math
from types import SimpleNamespace

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.decide.tuning.rungs import Rules
from foretell.decide.tuning.schedulers import GO_ON, PAUSE, SCHEDULERS, STOP
from foretell.decide.tuning.search import Search, slots_of
from foretell.errors import UsageError
from foretell.simulate.search import DrawnTrials, Underway, play_search

tune_schedulers = pytest.importorskip("ray.tune.schedulers")


def value_at(quality, epochs):
    """A learning curve; the order of trials changes on the way."""
    return quality * (1 - math.exp(-epochs * (0.2 + quality)))


@settings(max_examples=60)
@given(
    st.lists(st.floats(0.01, 1), min_size=1, max_size=25),
    st.sampled_from([2, 3, 4]),
    st.integers(1, 30),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
def test_asha_decides_as_ray_tune_does(qualities, eta, max_epochs, grace, random):
    grace = min(grace, max_epochs)
    real = tune_schedulers.ASHAScheduler(
        metric="v", mode="max", max_t=max_epochs, grace_period=grace, reduction_factor=eta
    )
    ours = SCHEDULERS.get("asha")(len(qualities), Rules(max_epochs, eta, grace))
    trials = [SimpleNamespace(trial_id=str(i)) for i in range(len(qualities))]
    for trial in trials:
        real.on_trial_add(None, trial)
    epochs = [0] * len(qualities)
    runs = list(range(len(qualities)))
    while runs:  # trials report in any order
        i = random.choice(runs)
        until = ours.until(i, epochs[i])
        epochs[i] += 1
        value = value_at(qualities[i], epochs[i])
        result = {"training_iteration": epochs[i], "v": value}
        decision = real.on_trial_result(None, trials[i], result)
        if epochs[i] < until:
            assert decision == "CONTINUE"
            continue
        assert (ours.reached(i, epochs[i], value) == GO_ON) == (decision == "CONTINUE")
        if decision != "CONTINUE":
            runs.remove(i)


class Controller:
    """Ends trials, as the controller of Ray Tune does."""

    def __init__(self, scheduler):
        self.scheduler = scheduler

    def stop_trial(self, trial):
        trial.status = "TERMINATED"
        self.scheduler.on_trial_remove(self, trial)


class RayTrial:
    """As much of a trial of Ray Tune as its scheduler looks at."""

    def __init__(self, number):
        self.trial_id, self.status, self.is_saving = str(number), "PENDING", False


def epochs_by_ray_hyperband(qualities, max_epochs, eta, stop=math.inf):
    """Run trials one after another under the scheduler of Ray Tune; return the epochs of each."""
    real = tune_schedulers.HyperBandScheduler(
        metric="v", mode="max", max_t=max_epochs, reduction_factor=eta
    )
    controller = Controller(real)
    trials = [RayTrial(i) for i in range(len(qualities))]
    epochs = [0] * len(trials)
    for trial in trials:
        real.on_trial_add(controller, trial)
    while (trial := real.choose_trial_to_run(controller)) is not None:
        trial.status = "RUNNING"
        i = int(trial.trial_id)
        while trial.status == "RUNNING":
            epochs[i] += 1
            result = {"training_iteration": epochs[i], "v": value_at(qualities[i], epochs[i])}
            # What stops trials comes before the scheduler, which does not hear of the result.
            if epochs[i] >= stop:
                decision = "STOP"
            else:
                decision = real.on_trial_result(controller, trial, result)
            if decision == "PAUSE":
                trial.status = "PAUSED"
            elif decision == "STOP":
                trial.status = "TERMINATED"
                real.on_trial_remove(controller, trial)
    return epochs


@settings(max_examples=60)
@given(
    st.lists(st.floats(0.01, 1), min_size=1, max_size=60, unique=True),
    st.sampled_from([2, 3, 4]),
    st.integers(1, 30),
)
def test_hyperband_trains_the_epochs_that_ray_tune_does(qualities, eta, max_epochs):
    ours = SCHEDULERS.get("hyperband")(len(qualities), Rules(max_epochs, eta))
    epochs = epochs_of(ours, qualities)
    assert epochs == epochs_by_ray_hyperband(qualities, max_epochs, eta)


@settings(max_examples=60)
@given(
    st.lists(st.floats(0.01, 1), min_size=1, max_size=60, unique=True),
    st.sampled_from([2, 3, 4]),
    st.integers(1, 30),
    st.integers(1, 30),
)
def test_hyperband_keeps_its_brackets_where_trials_are_stopped_before(qualities, eta, stop, rest):
    rules = Rules(stop, eta, bracket_epochs=stop + rest)
    epochs = epochs_of(SCHEDULERS.get("hyperband")(len(qualities), rules), qualities)
    assert epochs == epochs_by_ray_hyperband(qualities, stop + rest, eta, stop)


def epochs_of(scheduler, qualities):
    """Run trials one after another under a scheduler of ours; return the epochs of each."""
    epochs = [0] * len(qualities)
    while (i := scheduler.next_trial()) is not None:
        decision = GO_ON
        while decision == GO_ON:
            epochs[i] = scheduler.until(i, epochs[i])
            decision = scheduler.reached(i, epochs[i], value_at(qualities[i], epochs[i]))
    return epochs


@pytest.mark.parametrize("name", ["optuna-halving", "optuna-halving-auto", "optuna-hyperband"])
@pytest.mark.parametrize(("max_epochs", "eta", "least"), [(27, 3, 1), (10, 2, 1), (20, 4, 2)])
def test_optuna_prunes_where_ours_stops(name, max_epochs, eta, least):
    qualities = np.random.default_rng(3).random(40)
    if name == "optuna-hyperband":
        pruner = optuna.pruners.HyperbandPruner(least, max_epochs, eta)
    else:
        is_auto = name == "optuna-halving-auto"
        least = 1 if is_auto else least
        pruner = optuna.pruners.SuccessiveHalvingPruner("auto" if is_auto else least, eta)
    study = optuna.create_study(study_name="digits", direction="maximize", pruner=pruner)

    def objective(trial):
        for epoch in range(max_epochs):
            trial.report(value_at(qualities[trial.number], epoch + 1), epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return 0.0

    study.optimize(objective, n_trials=40)
    real = [len(t.intermediate_values) for t in study.trials]
    ours = Search(name, 40, Rules(max_epochs, eta, least), study="digits").make()
    assert epochs_of(ours, qualities) == real


def test_hyperband_halves_the_bracket_that_waits_for_a_trial_that_fails():
    ours = SCHEDULERS.get("hyperband")(5, Rules(3, 3))  # two trials alone, then three together
    [ours.next_trial() for _ in range(5)]
    assert [ours.reached(t, 1, t) for t in (2, 3)] == [PAUSE, PAUSE]
    ours.left(4)
    assert ours.next_trial() == 3
    assert ours.reached(3, 3, 1.0) == STOP


@pytest.mark.parametrize("name", SCHEDULERS.names())
@given(n=st.integers(1, 40), slots=st.integers(1, 8), max_epochs=st.integers(1, 27))
@settings(max_examples=25)
def test_no_search_ends_before_its_work_is_done(name, n, slots, max_epochs):
    random = np.random.default_rng(n)
    epoch_s = random.lognormal(size=n)
    search = Search(name, n, Rules(max_epochs), slots)
    trials = DrawnTrials(epoch_s.tolist(), random.random(n).tolist())
    played = play_search(search.make(), trials, n_slots=slots, start_up_s=1.0)
    work_s = float(np.dot(played.epochs, epoch_s)) + played.n_starts
    assert all(1 <= e <= max_epochs for e in played.epochs)
    assert max(played.epochs) == max_epochs  # the best always gets there
    assert work_s / slots <= played.end_s + 1e-9 <= work_s + 1e-6
    if slots == 1:
        assert played.end_s == pytest.approx(work_s)


def test_random_search_ends_as_list_scheduling_does():
    search = Search("random", 5, Rules(2), 2)
    trials = DrawnTrials([1.0, 2.0, 3.0, 4.0, 5.0], [0.0] * 5)
    # Slot 1: 2 + 6 + 10, slot 2: 4 + 8
    assert play_search(search.make(), trials, n_slots=2).end_s == 18.0


def test_trials_underway_go_on_where_they_are():
    scheduler = Search("random", 2, Rules(10), 2).make()
    assert [scheduler.next_trial(), scheduler.next_trial()] == [0, 1]
    trials = DrawnTrials([1.0, 2.0], [0.0, 0.0])
    underway = [Underway(0, 4, 0.5), Underway(1, 7, 2.0)]
    played = play_search(scheduler, trials, n_slots=2, underway=underway)
    assert played.end_s == 6.0
    assert (
        play_search(Search("random", 1, Rules(10)).make(), trials, n_slots=1, underway=[]).end_s
        == 10.0
    )


def test_trials_that_wait_at_a_rung_go_on_from_there():
    scheduler = Search("hyperband", 5, Rules(3)).make()
    for _ in range(5):
        scheduler.next_trial()
    for trial, epochs in ((0, 3), (1, 3), (2, 1), (3, 1), (4, 1)):
        scheduler.reached(trial, epochs, -trial)
    trials = DrawnTrials([1.0] * 5, [0.0] * 5)
    played = play_search(scheduler, trials, n_slots=1, behind={2: 1})
    assert played.end_s == 2.0  # of three epochs


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: Rules(0), "max_epochs: must be at least 1, not 0"),
        (lambda: Rules(9, 1.5), "eta=1.5: must be at least 2"),
        (lambda: Rules(9, math.nan), "eta"),
        (lambda: Rules(9, 3, 10), "min_epochs: must be from 1 to 9"),
        (lambda: Rules(9, bracket_epochs=8), "bracket_epochs: must be at least 9"),
        (lambda: Search("ahsa", 1, Rules(9)), "Did you mean 'asha'?"),
        (lambda: Search("asha", 0, Rules(9)), "trials: must be from 1"),
        (lambda: Search("asha", 1, Rules(9, bracket_epochs=27)), "bracket_epochs: asha has none"),
        (lambda: slots_of(2, 4), "a trial has 4 threads, and there are 2 cores"),
        (lambda: slots_of(0, 1), "cores: must be at least 1"),
    ],
)
def test_what_no_search_can_be_is_refused(wrong, told):
    with pytest.raises(UsageError) as caught:
        wrong()
    assert told in str(caught.value)
