"""The time left: known before if there is a model, learnt if there is none, right in the end."""

import math
import threading

import pytest

from foretell.decide.tuning.schedulers import SCHEDULERS
from foretell.decide.tuning.space import read_space
from foretell.errors import UsageError
from foretell.tune import Rules, Search, TimeLeft

from .known import MEAN_S, SPACE, KnownTimes

CONFIG = {"width": 20, "batch_size": 16, "lr": 0.01}  # 2 s per epoch


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


def time_left(scheduler="random", n_trials=20, slots=1, max_epochs=3, **options):
    clock = Clock()
    search = Search(scheduler, n_trials, Rules(max_epochs), slots)
    return TimeLeft(search, clock=clock, **options), clock


def run_trial(left, clock, trial, *, epochs=3, seconds=2.0, start_up_s=0.0, config=CONFIG):
    clock.now_s += start_up_s
    for epoch in range(1, epochs + 1):
        clock.now_s += seconds
        left.epoch(trial, epoch, seconds, configuration=config)
    left.ended(trial)


def test_nothing_is_known_before_the_first_epoch_without_a_model():
    left, _ = time_left()
    assert all(map(math.isnan, left.left()))


def test_a_model_knows_nothing_before_the_first_epoch_without_a_space():
    left, clock = time_left(model=KnownTimes())
    assert all(map(math.isnan, left.left()))
    run_trial(left, clock, 0)
    assert left.left()[0] == pytest.approx(19 * 6.0, rel=0.5)


def test_a_model_knows_before_the_first_epoch():
    left, _ = time_left(space=SPACE, model=KnownTimes())
    median, lower, upper = left.left()
    assert median == pytest.approx(20 * 3 * MEAN_S, rel=0.1)
    assert lower < median < upper


def test_equal_trials_teach_the_time_of_the_others():
    left, clock = time_left()
    widths = []
    for i in range(19):
        run_trial(left, clock, i)
        median, lower, upper = left.left()
        assert lower <= median <= upper
        assert median == pytest.approx((19 - i) * 6.0, rel=0.25)
        widths.append((upper - lower) / median)
    assert widths[8] < widths[0]
    run_trial(left, clock, 19)
    assert left.left() == (0.0, 0.0, 0.0)
    assert left.elapsed() == 120.0
    assert left.n_ended == 20


def test_start_up_is_learnt():
    left, clock = time_left()
    for i in range(5):
        run_trial(left, clock, i, start_up_s=10.0)
    assert left.left()[0] == pytest.approx(15 * 16.0, rel=0.1)


def test_a_first_epoch_that_takes_longer_does_not_count_for_all():
    left, clock = time_left(max_epochs=20, n_trials=10)
    for i in range(3):
        clock.now_s += 30.0
        left.epoch(i, 1, 30.0)
        for epoch in range(2, 21):
            clock.now_s += 1.0
            left.epoch(i, epoch, 1.0)
        left.ended(i)
    assert left.left()[0] == pytest.approx(7 * 49.0, rel=0.1)


def test_an_error_of_the_model_that_all_trials_share_is_corrected():
    left, clock = time_left(space=SPACE, model=KnownTimes(0.3))
    before = left.left()[0]
    for i in range(6):
        run_trial(left, clock, i, seconds=4.0)  # twice what the model says
    per_trial = left.left()[0] / 14
    assert per_trial == pytest.approx(2 * before / 20, rel=0.2)


def test_dependence_on_hyperparameters_is_learnt_from_a_space_alone():
    left, clock = time_left(n_trials=40, space=SPACE)
    for i, (width, batch) in enumerate([(10, 16), (20, 160), (30, 16), (10, 160), (20, 16)] * 2):
        seconds = width / 10 * 16 / batch
        config = {"width": width, "batch_size": batch, "lr": 0.01}
        run_trial(left, clock, i, seconds=seconds, config=config)
    for i in range(10, 40):  # all that are left are the quickest
        left.planned(i, {"width": 10, "batch_size": 160, "lr": 0.01})
    assert left.left()[0] == pytest.approx(30 * 3 * 0.1, rel=0.3)


def test_a_trial_that_runs_counts_with_what_is_left_of_it():
    left, clock = time_left(n_trials=2, max_epochs=10)
    run_trial(left, clock, "a", epochs=10)
    for epoch in range(1, 9):
        clock.now_s += 2.0
        left.epoch("b", epoch, 2.0, configuration=CONFIG)
    clock.now_s += 1.0
    assert left.left()[0] == pytest.approx(3.0, rel=0.15)


def test_trials_that_wait_at_a_rung_leave_their_slot():
    left, clock = time_left("hyperband", n_trials=5, max_epochs=3, slots=1)
    for i in range(2):
        run_trial(left, clock, i)
    for i, value in ((2, 0.1), (3, 0.9), (4, 0.5)):  # the last bracket: one of three goes on
        clock.now_s += 2.0
        left.epoch(i, 1, 2.0, configuration=CONFIG, value=value)
    left.ended(2)
    left.ended(4)
    assert left.left()[0] == pytest.approx(4.0, rel=0.3)


def test_values_decide_who_goes_on():
    """Under ASHA a trial that is the worst of all ends at its rung; the best goes on."""
    ends = {}
    for value in (0.0, 1.0):
        left, clock = time_left("asha", n_trials=9, max_epochs=27)
        for i in range(8):
            clock.now_s += 2.0
            left.epoch(i, 1, 2.0, configuration=CONFIG, value=0.1 * i)
            left.ended(i)
        clock.now_s += 2.0
        left.epoch(8, 1, 2.0, configuration=CONFIG, value=value)
        ends[value] = left.left()[0]
    assert ends[0.0] == 0.0
    assert ends[1.0] > 3.0


def test_smaller_values_are_better_if_it_is_said():
    left, clock = time_left("asha", n_trials=2, max_epochs=27, mode="min")
    for i, value in ((0, 0.5), (1, 0.1)):
        clock.now_s += 2.0
        left.epoch(i, 1, 2.0, value=value)
    left.ended(0)
    assert left.left()[0] > 3.0
    with pytest.raises(UsageError, match="must be max or min"):
        time_left(mode="most")


def test_trials_that_fail_at_once_and_more_than_were_said_do_no_harm():
    left, clock = time_left(n_trials=3)
    left.ended("failed")
    for i in range(3):
        run_trial(left, clock, i)
    assert left.left() == (0.0, 0.0, 0.0)
    run_trial(left, clock, "one more")
    assert left.left() == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("scheduler", ["hyperband", "asha", "random", "optuna-hyperband"])
def test_threads_can_report_at_the_same_time(scheduler):
    left, clock = time_left(scheduler, n_trials=12, slots=4)
    errors = []

    def work(part):
        try:
            for i in part:
                run_trial(left, clock, i)
                left.left(n_draws=20)
        except Exception as error:  # an error in a thread is lost otherwise
            errors.append(error)

    threads = [threading.Thread(target=work, args=(range(k, 12, 4),)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not errors
    assert left.n_ended == 12


def test_a_model_that_needs_more_than_a_learned_space_has_is_left_out_and_told_once(caplog):
    times = KnownTimes(columns=("width", "batch_size", "threads"))
    left, clock = time_left(model=times)
    for _ in range(2):
        left.use_space(read_space(SPACE))
    run_trial(left, clock, 0)
    assert left.left()[0] == pytest.approx(19 * 6, rel=0.5)
    assert caplog.text.count("threads") == 1
    with pytest.raises(UsageError, match="needs threads"):
        time_left(model=times, space=SPACE)


@pytest.mark.parametrize("scheduler", SCHEDULERS.names())
def test_more_trials_than_were_said_may_run_and_wait(scheduler):
    left, clock = time_left(scheduler, n_trials=3, slots=2)
    for i in range(7):
        left.planned(i, CONFIG)
    for i in range(6):
        clock.now_s += 2.0
        left.epoch(i, 1, 2.0, configuration=CONFIG, value=0.1 * i)
        if i < 3:
            left.ended(i)
    assert (left.n_ended, left.n_trials) == (3, 7)
    assert 2.0 < left.left()[0] < 60.0
