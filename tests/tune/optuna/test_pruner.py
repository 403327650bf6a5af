"""TimePruner compares at equal time, keeps deadlines, and works with other pruners and threads."""

import math
from datetime import datetime, timedelta

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial

from foretell.errors import UsageError
from foretell.tune.optuna import TimePruner
from foretell.tune.optuna.elapsed import KEY, elapsed_by_step

optuna.logging.set_verbosity(optuna.logging.ERROR)


def trial_of(values, seconds, *, state=TrialState.COMPLETE, start=None):
    """A trial whose steps were reported after some seconds."""
    trial = create_trial(
        state=state,
        value=values[-1] if state == TrialState.COMPLETE else None,
        params={"x": 0.5},
        distributions={"x": FloatDistribution(0, 1)},
        intermediate_values=dict(enumerate(values)),
        system_attrs={KEY: {str(i): s for i, s in enumerate(seconds)}},
    )
    trial.datetime_start = start or datetime.now() - timedelta(seconds=seconds[-1])
    return trial


def study_of(trials, **options):
    study = optuna.create_study(direction="maximize", **options)
    study.add_trials(trials)
    return study


def slow_and_good(n):
    """Trials that are at 0.5 after 10 s, and at 0.9 after 20 s."""
    return [trial_of([0.5, 0.9], [10.0, 20.0]) for _ in range(n)]


def verdict(study, trial, **options):
    study.add_trial(trial)
    return TimePruner(**options).prune(study, study.trials[-1])


@pytest.mark.parametrize(
    ("value", "after_s", "is_pruned"),
    [
        (0.6, 12.0, False),  # others had 0.5 by then
        (0.4, 12.0, True),
        (0.6, 25.0, True),  # others had 0.9 by then
        (0.6, 90.0, True),  # others had ended with 0.9
        (0.1, 1.5, False),  # a tenth of the usual time is not over
        (0.1, 5.0, False),  # no other had reported
        (math.nan, 12.0, True),
    ],
)
def test_trials_are_compared_after_the_same_seconds(value, after_s, is_pruned):
    study = study_of(slow_and_good(5))
    running = trial_of([value], [after_s], state=TrialState.RUNNING)
    assert verdict(study, running) is is_pruned


def test_no_trial_is_compared_before_five_are_completed():
    study = study_of(slow_and_good(4))
    assert not verdict(study, trial_of([0.0], [30.0], state=TrialState.RUNNING))


def test_smaller_is_better_where_a_study_minimizes():
    study = optuna.create_study(direction="minimize")
    study.add_trials(slow_and_good(5))
    assert not verdict(study, trial_of([0.1], [30.0], state=TrialState.RUNNING))
    assert verdict(study, trial_of([0.95], [30.0], state=TrialState.RUNNING))


@pytest.mark.parametrize(("deadline_s", "is_pruned"), [(110.0, True), (135.0, False)])
def test_a_trial_whose_rest_goes_beyond_the_deadline_is_pruned(deadline_s, is_pruned):
    """100 s are spent, and 2 of 4 steps took 20 s: 20 s are left to train."""
    first = trial_of([0.1] * 4, [1.0, 2.0, 3.0, 4.0], start=datetime.now() - timedelta(seconds=100))
    study = study_of([first])
    running = trial_of([0.1, 0.2], [10.0, 20.0], state=TrialState.RUNNING)
    assert verdict(study, running, deadline_s=deadline_s) is is_pruned
    assert verdict(study, running, deadline_s=deadline_s, max_epochs=2) is False


class Always(optuna.pruners.BasePruner):
    def prune(self, study, trial):
        return True


def test_a_wrapped_pruner_prunes_as_well():
    study = study_of([])
    running = trial_of([0.6], [1.0], state=TrialState.RUNNING)
    assert verdict(study, running, wrapped=Always())
    assert not verdict(study, running, wrapped=optuna.pruners.NopPruner())


@pytest.mark.parametrize(("n_jobs", "storage"), [(1, None), (3, None), (2, "sqlite")])
def test_studies_run_and_keep_when_steps_were_reported(n_jobs, storage, tmp_path):
    url = None if storage is None else f"sqlite:///{tmp_path / 'study.db'}"
    study = optuna.create_study(direction="maximize", pruner=TimePruner(), storage=url)

    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        for step in range(3):
            trial.report(x, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return x

    study.optimize(objective, n_trials=8, n_jobs=n_jobs)
    assert len(study.trials) == 8
    for trial in study.trials:
        elapsed = elapsed_by_step(trial)
        assert sorted(elapsed) == list(trial.intermediate_values)
        assert list(elapsed.values()) == sorted(elapsed.values())


@pytest.mark.parametrize(
    "wrong",
    [
        {"wrapped": "median"},
        {"deadline_s": 0.0},
        {"max_epochs": 0},
        {"n_startup_trials": 0},
        {"warm_up": 1.5},
    ],
)
def test_options_without_sense_are_refused(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        TimePruner(**wrong)
