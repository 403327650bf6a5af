"""Studies, driven by hand: what is run, what comes of it, and that the order does not matter."""

import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.model.campaigns.search.searches import GridSearch, Search
from foretell.model.campaigns.study import Study, Trial
from foretell.model.campaigns.validation.scores import Scores
from foretell.model.campaigns.validation.splits import OuterSplit
from foretell.model.campaigns.work import Outcome
from foretell.model.shared_fits import Point, groups
from foretell.model.techniques import TECHNIQUES, complete


class Scripted(Search):
    """Proposes what it was given, and remembers what it was told."""

    def __init__(self, *batches):
        self.batches = list(batches)
        self.told = []

    @property
    def n_trials(self):
        return len(self.told) + sum(map(len, self.batches))

    def propose(self):
        return self.batches.pop(0) if self.batches else []

    def tell(self, scores):
        self.told += scores


def ridge(*alphas):
    return [{"alpha": alpha} for alpha in alphas]


def groups_of(technique, space, split_key):
    """Group as for a table of 50 rows and 4 columns; what is not named has its default."""
    known = TECHNIQUES.get(technique)()
    points = [Point(known, complete(known, params)) for params in space]
    named = {id(point): params for point, params in zip(points, space, strict=True)}
    return [tuple(named[id(point)] for point in group) for group in groups(points, 50, 4)]


def opened(search, *, folds=3, technique="LRRidge", is_racing=False, finished=None, number=0):
    split = OuterSplit("0.0", tuple(f"0.0/{fold}" for fold in range(folds)))
    return Study(
        split,
        technique,
        search,
        number=number,
        score_name="mape",
        is_racing=is_racing,
        finished={} if finished is None else finished,
        groups=groups_of,
    )


def ended(mape, seconds=1.0):
    """Return an outcome with an error, or a failure for a text."""
    if isinstance(mape, str):
        return Outcome(seconds, reason=mape)
    return Outcome(seconds, test=Scores(mape, 10 * mape, 0.5, mape, mape))


def fold_of(task):
    return int(task.split_key.partition("/")[2])


def drive(study, error, choose=lambda n: 0):
    """Run a study to its end; return the tasks run and the trials in the order they finished."""
    waiting, tasks, finished = [], [], []
    while True:
        waiting += study.advance()
        if not waiting:
            return tasks, finished
        task = waiting.pop(choose(len(waiting)))
        tasks.append(task)
        outcomes = [ended(error(params, fold_of(task))) for params in task.batch]
        finished += study.receive(task, outcomes)


def by_alpha(params, fold):
    """Give each alpha an error of its own size, a little different on each fold."""
    return params["alpha"] * (1 + fold / 100)


# Without racing


def test_every_proposal_runs_on_every_fold_and_the_search_is_told():
    search = Scripted(ridge(3, 1), ridge(2))
    study = opened(search)
    tasks, finished = drive(study, by_alpha)
    run = [(task.batch[0]["alpha"], fold_of(task)) for task in tasks]
    assert run == [(a, fold) for a in (3, 1, 2) for fold in range(3)]
    assert all(len(task.batch) == 1 for task in tasks)
    assert [t.params["alpha"] for t in study.trials] == [3, 1, 2]
    assert study.trials == finished
    assert search.told == pytest.approx([3.03, 1.01, 2.02])
    assert study.is_over
    assert study.best is study.trials[1]
    assert (study.n_finished, study.n_trials) == (3, 3)
    assert study.least_error == pytest.approx(1.01)
    assert study.trials[0].seconds == 3


def test_second_batch_waits_for_the_first():
    study = opened(Scripted(ridge(1), ridge(2)), folds=2)
    first = study.advance()
    assert len(first) == 2
    assert study.advance() == []
    study.receive(first[0], [ended(1.0)])
    assert study.advance() == []
    study.receive(first[1], [ended(1.0)])
    assert [task.batch[0]["alpha"] for task in study.advance()] == [2, 2]


def test_trial_is_finished_with_its_last_fold_not_with_its_batch():
    study = opened(GridSearch(ridge(1, 2, 3)), folds=2)
    tasks = study.advance()
    assert study.receive(tasks[0], [ended(1.0)]) == []
    (trial,) = study.receive(tasks[1], [ended(3.0)])
    assert trial.params == {"alpha": 1}
    assert trial.error("mape") == 2
    assert study.n_finished == 1


def test_one_fit_serves_all_values_of_the_path():
    grid = [
        {"n_estimators": n, "max_depth": depth, "gamma": 0.0} for n in (50, 150) for depth in (3, 6)
    ]
    study = opened(GridSearch(grid), technique="XGBoost", folds=2)
    tasks = study.advance()
    assert [[p["n_estimators"] for p in task.batch] for task in tasks] == [[50, 150]] * 4
    assert [{p["max_depth"] for p in task.batch} for task in tasks] == [{3}, {3}, {6}, {6}]
    for task in tasks:
        study.receive(task, [ended(p["n_estimators"] + p["max_depth"]) for p in task.batch])
    study.advance()
    assert [t.params for t in study.trials] == grid
    assert [t.error("mape") for t in study.trials] == [53, 56, 153, 156]


def test_equal_trials_run_once_and_share_the_result():
    search = Scripted(ridge(1, 2, 1), ridge(2, 3))
    study = opened(search, folds=2)
    tasks, finished = drive(study, by_alpha)
    assert [task.batch[0]["alpha"] for task in tasks] == [1, 1, 2, 2, 3, 3]
    assert [t.params["alpha"] for t in study.trials] == [1, 2, 1, 2, 3]
    assert study.trials[0] is study.trials[2]
    assert study.trials[1] is study.trials[3]
    assert len(finished) == 3
    assert search.told == pytest.approx([1.005, 2.01, 1.005, 2.01, 3.015])
    assert study.n_finished == 5


def test_trials_of_the_journal_are_not_run_again():
    finished = {}
    drive(opened(Scripted(ridge(1, 2)), finished=finished), by_alpha)
    search = Scripted(ridge(1, 2), ridge(3))
    again = opened(search, finished=dict(finished))
    tasks, done = drive(again, by_alpha)
    assert {task.batch[0]["alpha"] for task in tasks} == {3}
    assert [t.params["alpha"] for t in done] == [3]
    assert search.told == pytest.approx([1.01, 2.02, 3.03])


def test_searches_of_one_technique_keep_their_trials_apart():
    finished = {}
    for number in (0, 1):
        tasks, _ = drive(opened(Scripted(ridge(1)), finished=finished, number=number), by_alpha)
        assert len(tasks) == 3
    assert len(finished) == 2


def test_trial_survives_the_journal():
    study = opened(Scripted(ridge(1, 2), ridge(9)), is_racing=True, number=1)
    drive(study, lambda params, fold: "broken" if params["alpha"] == 2 else params["alpha"])
    for trial in study.trials:
        assert Trial.from_json(json.loads(json.dumps(trial.to_json()))) == trial


def test_failure_on_one_fold_is_the_failure_of_the_trial():
    def error(params, fold):
        if params["alpha"] == 1:
            return ["fine", "boom", "bang"][fold] if fold else 0.001
        return 5.0

    search = Scripted(ridge(1, 2))
    study = opened(search)
    drive(study, error)
    failed, sound = study.trials
    assert failed.reason == "boom"  # the first fold that failed, and the first alone counts
    assert failed.error("mape") == math.inf
    assert not failed.is_complete
    assert study.best is sound
    assert search.told == [math.inf, 5]
    assert study.least_error == 5


@pytest.mark.parametrize("error", [math.nan, math.inf])
def test_error_that_is_no_number_is_a_failure(error):
    study = opened(Scripted(ridge(1)))
    drive(study, lambda params, fold: error if fold == 1 else 0.1)
    assert study.trials[0].reason == "mape is not finite"
    assert study.best is None


def test_first_of_equals_is_the_best():
    study = opened(Scripted(ridge(3, 1), ridge(2)))
    drive(study, lambda params, fold: 0.5)
    assert study.best is study.trials[0]


def test_stop_keeps_what_is_finished_and_nothing_else():
    study = opened(Scripted(ridge(5), ridge(1, 2, 1, 3)), folds=2)
    for task in study.advance():
        study.receive(task, [ended(5.0)])
    tasks = study.advance()
    study.receive(tasks[0], [ended(1.0)])
    study.receive(tasks[1], [ended(1.0)])
    study.receive(tasks[2], [ended(2.0)])  # half of the second one
    study.stop()
    assert study.is_over
    assert study.advance() == []
    assert [t.params["alpha"] for t in study.trials] == [5, 1, 1]
    assert all(t.is_complete for t in study.trials)
    assert study.best.error("mape") == 1


# Racing


def test_racing_stops_what_is_worse_on_the_same_rows_and_estimates_it():
    def error(params, fold):  # 4 is as good as 1 on the first fold, and worse on the next two
        return by_alpha(
            {"alpha": 1 if (params["alpha"], fold) == (4, 0) else params["alpha"]}, fold
        )

    search = Scripted(ridge(1), ridge(2, 0.5, 4))
    study = opened(search, folds=5, is_racing=True)
    tasks, _ = drive(study, error)
    n_folds = {a: sum(t.batch[0]["alpha"] == a for t in tasks) for a in (1, 2, 0.5, 4)}
    assert n_folds == {1: 5, 2: 1, 0.5: 5, 4: 3}
    _, worse, better, late = study.trials
    # As many times worse than the best on all rows as it was on those seen.
    assert worse.estimate == pytest.approx(2 * 1.02)
    assert late.estimate == pytest.approx((1 + 4 * 1.01 + 4 * 1.02) / (1 + 1.01 + 1.02) * 1.02)
    assert search.told == [t.error("mape") for t in study.trials]
    assert not worse.is_complete
    assert worse.reason is None
    assert study.best is better


def test_racing_goes_in_growing_stages_and_the_first_batch_has_no_rival():
    study = opened(Scripted(ridge(1, 9)), folds=5, is_racing=True)
    tasks, _ = drive(study, by_alpha)
    assert [fold_of(task) for task in tasks] == [0, 0, 1, 2, 1, 2, 3, 4, 3, 4]
    assert all(t.is_complete for t in study.trials)


@pytest.mark.parametrize(("alpha", "n_tasks"), [(1.009, 3), (1.011, 1)])
def test_racing_lets_a_trial_be_a_percent_worse_after_one_fold_and_less_after_more(alpha, n_tasks):
    study = opened(Scripted(ridge(1), ridge(alpha)), folds=5, is_racing=True)
    tasks, _ = drive(study, by_alpha)
    assert sum(t.batch[0]["alpha"] == alpha for t in tasks) == n_tasks


def test_racing_against_a_perfect_trial_leaves_no_trial_with_its_error():
    search = Scripted(ridge(0), ridge(4))
    study = opened(search, is_racing=True)
    drive(study, lambda params, fold: float(params["alpha"]))
    assert study.trials[1].estimate == 4
    assert search.told == [0, 4]
    assert study.best is study.trials[0]


def test_racing_against_a_trial_that_failed_is_no_race():
    study = opened(Scripted(ridge(1), ridge(2)), is_racing=True)
    drive(study, lambda params, fold: "broken" if params["alpha"] == 1 else 2.0)
    assert study.trials[1].is_complete


def test_stopped_trial_never_wins_however_well_it_is_estimated():
    def error(params, fold):  # 2 is bad where 1 is good, and would be splendid elsewhere
        return {1: [1.0, 50.0], 2: [1.1, 0.0]}[params["alpha"]][fold]

    study = opened(Scripted(ridge(1), ridge(2)), folds=2, is_racing=True)
    drive(study, error)
    assert study.trials[1].estimate is not None
    assert study.best is study.trials[0]


def test_single_fold_leaves_nothing_to_race_about():
    study = opened(Scripted(ridge(1), ridge(9)), folds=1, is_racing=True)
    drive(study, by_alpha)
    assert all(t.is_complete for t in study.trials)


# The order in which results arrive

errors = st.floats(0, 10) | st.just(0.0) | st.just(math.nan) | st.sampled_from(["broken", "bent"])
values = st.integers(0, 5)
batches = st.lists(st.lists(values, min_size=1, max_size=5), min_size=1, max_size=4)


def described(study):
    """Say all that a study came to."""
    best = study.best
    return (
        [trial.to_json() for trial in study.trials],
        best.to_json() if best else None,
        study.n_finished,
        study.least_error,
    )


@given(
    batches,
    st.tuples(*[st.tuples(errors, errors, errors) for _ in range(12)]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_order_of_arrival_changes_nothing(proposals, table, is_racing, chance):
    def error(params, fold):
        return table[2 * params["max_depth"] + (params["n_estimators"] > 50)][fold]

    def study():
        search = Scripted(
            *[
                [{"n_estimators": n, "max_depth": v} for v in batch for n in (50, 100)]
                for batch in proposals
            ]
        )
        return opened(search, technique="XGBoost", is_racing=is_racing), search

    in_order, told = study()
    drive(in_order, error)
    shuffled, told_too = study()
    _, finished = drive(shuffled, error, choose=lambda n: chance.randrange(n))
    assert described(shuffled) == described(in_order)
    assert told_too.told == told.told
    keys = [trial.key for trial in finished]
    assert sorted(keys) == sorted({trial.key for trial in in_order.trials})  # each of them once


@given(
    batches,
    st.tuples(*[st.tuples(errors, errors) for _ in range(6)]),
    st.booleans(),
    st.data(),
)
def test_any_part_of_the_trials_may_be_known_before(proposals, table, is_racing, data):
    def error(params, fold):
        return table[params["alpha"]][fold]

    search = [ridge(*batch) for batch in proposals]
    whole = opened(Scripted(*search), folds=2, is_racing=is_racing)
    _, finished = drive(whole, error)
    n_known = data.draw(st.integers(0, len(finished)))
    known = {trial.key: Trial.from_json(trial.to_json()) for trial in finished[:n_known]}
    resumed = opened(Scripted(*search), folds=2, is_racing=is_racing, finished=known)
    _, rest = drive(resumed, error, choose=random.Random(1).randrange)
    assert described(resumed) == described(whole)
    assert len(rest) == len(finished) - n_known
