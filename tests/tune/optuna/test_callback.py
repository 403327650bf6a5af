"""The callback of Optuna: one line per trial, any pruner, any number of threads."""

import math
import re

import optuna
import pytest
from optuna.pruners import HyperbandPruner, MedianPruner, NopPruner, SuccessiveHalvingPruner

from foretell.errors import UsageError
from foretell.tune import Rules, Search
from foretell.tune.optuna import Callback, TimePruner
from foretell.tune.optuna.callback import recognized

from ..known import SPACE, KnownTimes

optuna.logging.set_verbosity(optuna.logging.ERROR)


def objective(trial):
    x = trial.suggest_float("x", 0.1, 1.0, log=True)
    kind = trial.suggest_categorical("kind", ["a", None])
    for step in range(4):
        trial.report(x, step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return x if kind else x + 1


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("pruner", [NopPruner(), HyperbandPruner(1, 4, 2), TimePruner()])
def test_each_trial_is_told_and_the_last_ends_it(n_jobs, pruner):
    lines = []
    study = optuna.create_study(direction="maximize", pruner=pruner)
    callback = Callback(12, 4, n_jobs=n_jobs, tell=lines.append)
    study.optimize(objective, n_trials=12, n_jobs=n_jobs, callbacks=[callback])
    assert len(lines) == 12
    assert lines[-1] == "12 of 12 trials ended."
    assert callback.left() == (0.0, 0.0, 0.0)
    told = [re.match(r"(\d+) of 12 trials ended; about .+ left \(.+ – .+\)\.$", x) for x in lines]
    assert any(told)


def test_a_study_that_goes_on_counts_its_new_trials_only():
    study = optuna.create_study()
    study.optimize(objective, n_trials=5)
    lines = []
    study.optimize(objective, n_trials=3, callbacks=[Callback(3, 4, tell=lines.append)])
    assert lines[0].startswith("1 of 3 ")
    assert lines[-1] == "3 of 3 trials ended."


def test_trials_that_report_nothing_or_fail_count_as_well():
    def fails_sometimes(trial):
        if trial.number % 2:
            raise ValueError
        return trial.suggest_int("n", 1, 5)

    lines = []
    study = optuna.create_study()
    study.optimize(
        fails_sometimes, n_trials=6, catch=ValueError, callbacks=[Callback(6, tell=lines.append)]
    )
    assert lines[-1] == "6 of 6 trials ended."


def test_several_objectives_are_no_obstacle():
    lines = []
    study = optuna.create_study(directions=["minimize", "maximize"])
    callback = Callback(4, tell=lines.append)
    study.optimize(lambda t: (t.suggest_float("x", 0, 1), 1.0), n_trials=4, callbacks=[callback])
    assert lines[-1] == "4 of 4 trials ended."


def test_lines_go_to_the_log_of_optuna(caplog):
    optuna.logging.set_verbosity(optuna.logging.INFO)
    try:
        study = optuna.create_study()
        study.optimize(objective, n_trials=2, callbacks=[Callback(2, 4)])
    finally:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
    assert "1 of 2 trials ended; about" in caplog.text


@pytest.mark.parametrize(
    ("pruner", "scheduler", "eta", "least"),
    [
        (HyperbandPruner(2, 27, 4), "optuna-hyperband", 4, 2),
        (SuccessiveHalvingPruner(min_resource=1, reduction_factor=2), "optuna-halving", 2, 1),
        (SuccessiveHalvingPruner(), "optuna-halving-auto", 4, 1),
        (TimePruner(HyperbandPruner(1, 27, 3)), "optuna-hyperband", 3, 1),
        (MedianPruner(), "random", 3, 1),
        (NopPruner(), "random", 3, 1),
    ],
)
def test_pruners_of_optuna_are_recognized(pruner, scheduler, eta, least):
    found = recognized(pruner, Search("random", 10, Rules(27)))
    assert (found.scheduler, found.rules) == (scheduler, Rules(27, eta, least))


def test_wrong_options_are_refused_before_the_study():
    with pytest.raises(UsageError, match="Did you mean 'asha'"):
        Callback(10, scheduler="ahsa")
    with pytest.raises(UsageError, match="trials"):
        Callback(0)


def test_a_model_that_needs_more_than_trials_choose_does_not_end_the_study(caplog):
    lines, times = [], KnownTimes(columns=("width", "batch_size", "threads"))
    study = optuna.create_study()
    study.optimize(
        objective, n_trials=3, callbacks=[Callback(3, 4, model=times, tell=lines.append)]
    )
    assert lines[-1] == "3 of 3 trials ended."
    assert caplog.text.count("threads") == 1
    with pytest.raises(UsageError, match="needs threads"):  # what a user gave must fit
        Callback(3, 4, model=times, space=SPACE)


def test_whole_numbers_beyond_floating_point_can_be_chosen(caplog):
    lines = []
    study = optuna.create_study()
    callback = Callback(3, tell=lines.append)
    study.optimize(lambda t: t.suggest_int("n", 0, 2**60), n_trials=3, callbacks=[callback])
    assert len(lines) == 3
    assert not caplog.text


def test_an_error_of_the_callback_is_told_and_does_not_end_the_study(caplog, monkeypatch):
    study, callback = optuna.create_study(), Callback(3, 4)
    study.optimize(objective, n_trials=1, callbacks=[callback])
    monkeypatch.setattr(callback._left, "left", lambda: 1 / 0)
    study.optimize(objective, n_trials=2, callbacks=[callback])
    assert len(study.trials) == 3
    assert all(map(math.isnan, callback.left()))
    assert "the time left is not known: division by zero" in caplog.text


@pytest.mark.parametrize("pruner", [NopPruner(), TimePruner(HyperbandPruner(1, 4, 2))])
def test_more_trials_than_were_said_are_counted_as_well(pruner, caplog):
    lines = []
    study = optuna.create_study(direction="maximize", pruner=pruner)
    callback = Callback(3, 4, n_jobs=3, tell=lines.append)
    study.optimize(objective, n_trials=12, n_jobs=3, callbacks=[callback])
    assert lines[-1] == "12 of 12 trials ended."
    assert not caplog.text


def test_a_trial_of_another_process_that_was_under_way_before_counts():
    study, lines = optuna.create_study(), []
    early = study.ask()
    callback = Callback(2, tell=lines.append)
    study.tell(early, 1.0)
    study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=1, callbacks=[callback])
    assert lines == ["2 of 2 trials ended."]
