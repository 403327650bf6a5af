"""Merging repeats: their median, their noise, and little weight on outliers."""

from __future__ import annotations

import numpy as np
import pytest

from foretell.model.techniques import TrainingRows
from foretell.model.techniques.points.merging import (
    RepeatNoise,
    group_medians,
    merge,
    merge_robustly,
)


def repeats(n_points, n_repeats, deviation, seed=0):
    """Logs of repeated runs, and the point of each."""
    point = np.repeat(np.arange(n_points), n_repeats)
    return np.random.default_rng(seed).normal(point, deviation), point


def noise_of(log_y, point):
    return RepeatNoise.of(log_y, group_medians(log_y, point, point.max() + 1), point)


@pytest.mark.parametrize("n_repeats", [2, 3, 4, 10])
def test_the_deviation_of_a_run_is_found_whatever_the_number_of_repeats(n_repeats):
    found = noise_of(*repeats(2_000, n_repeats, 0.1))
    assert found.pooled == pytest.approx(0.1, rel=0.15)
    assert found.own.mean() == pytest.approx(found.pooled, rel=1e-9)
    assert found.n_repeats == 2_000 * n_repeats


def test_points_that_were_measured_once_tell_nothing_of_the_noise():
    log_y, point = repeats(50, 4, 0.1)
    single = np.arange(50, 60)
    with_singles = noise_of(np.append(log_y, 100.0 * single), np.append(point, single))
    assert with_singles.pooled == pytest.approx(noise_of(log_y, point).pooled, rel=1e-12)
    assert (with_singles.own[50:] == 0).all()
    alone = noise_of(np.arange(3.0), np.arange(3))
    assert (alone.pooled, alone.own.tolist(), alone.n_repeats) == (0.0, [0.0] * 3, 0)


def test_a_point_that_is_noisier_than_the_others_is_seen():
    log_y, point = repeats(40, 5, 0.05)
    log_y[point == 7] = 7 + 10 * (log_y[point == 7] - 7)
    found = noise_of(log_y, point)
    assert found.own.argmax() == 7
    assert found.own[7] > 3 * found.pooled


def test_merging_keeps_the_order_of_first_appearance_and_takes_medians():
    x = np.array([[4.0], [2.0], [4.0], [4.0], [2.0]])
    y = np.exp([1.0, 5.0, 2.0, 9.0, 7.0])
    points, point = merge(TrainingRows(x, y, np.ones(5)))
    assert points.x[:, 0].tolist() == [4.0, 2.0]
    assert points.log_y == pytest.approx([2.0, 6.0])
    assert points.weight.tolist() == [3.0, 2.0]
    assert point.tolist() == [0, 1, 0, 0, 1]
    assert points.noise is None  # of so few repeats


def test_a_run_that_took_ten_times_too_long_hardly_moves_its_point():
    x = np.repeat([1.0, 2, 4, 8, 16, 32, 64, 128], 3)[:, None]
    y = 100 / x[:, 0] * np.random.default_rng(0).lognormal(0, 0.02, len(x))
    slow = y.copy()
    slow[4] *= 10
    clean, disturbed = (
        merge_robustly(TrainingRows(x, values, np.ones(len(x)))).points.log_y
        for values in (y, slow)
    )
    assert np.abs(disturbed - clean).max() < 0.05
