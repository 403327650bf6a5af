"""Start-ups: what was given counts on, slots that waited count little, and draws become surer."""

import numpy as np
import pytest

from foretell.decide.tuning.start_ups import StartUps


def drawn(starts):
    random = np.random.default_rng(0)
    return np.array([starts.draw(random) for _ in range(4_000)])


def test_first_starts_move_what_was_given_only_a_little():
    assert 5.0 < StartUps(5.0, [10.0]).mean_s < 7.0
    assert StartUps(5.0, [10.0] * 100).mean_s == pytest.approx(10.0, rel=0.03)


def test_without_a_given_time_the_first_start_counts_alone():
    assert StartUps(0.0).mean_s == 0.0
    assert StartUps(0.0, [7.0]).mean_s == 7.0


def test_a_slot_that_waited_for_other_trials_counts_little():
    starts = [4.0, 4.0, 4.0, 4.0, 40.0]
    assert StartUps(0.0, starts).mean_s < 5.0


def test_draws_are_around_the_mean_and_narrower_the_more_was_seen():
    few, many = drawn(StartUps(5.0)), drawn(StartUps(5.0, [5.0] * 30))
    assert np.median(few) == pytest.approx(5.0, rel=0.03)
    assert np.std(np.log(many)) < np.std(np.log(few)) / 2
    assert (few > 0).all()
