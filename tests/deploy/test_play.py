"""Bursts, played: the mean response by hand, and memory that does not grow with the samples."""

import tracemalloc

import pytest

from foretell.decide.deployment.batch_times import Point, times_by_threads
from foretell.decide.deployment.scenario import read_scenario
from foretell.decide.deployment.settings import Setting
from foretell.deploy.play import Player


def played(arrivals, batch, levels=(1.0,), replicas=1):
    times = times_by_threads([Point(1, b, 0.001 + 0.001 * b, levels, 0.0, 1.0, 20) for b in (1, 8)])
    setting = Setting(batch, 0.0, 1, replicas)
    return Player(times)(setting, read_scenario(arrivals), sureness=0.0, is_rough=True)


def test_mean_of_a_burst_counts_each_sample_with_the_end_of_its_batch():
    # 2 samples end after 3 ms, 2 after 6 ms, 1 after 8 ms
    figures = played("burst:5/50ms", 2)
    assert figures.mean_s == pytest.approx((2 * 0.003 + 2 * 0.006 + 0.008) / 5)
    assert figures.p99_s == pytest.approx(0.008)


def test_the_first_batch_of_a_burst_takes_longer_after_a_pause():
    times = times_by_threads([Point(1, 1, 0.002, (1.0,), 0.0, 1.0, 20, pause_s=0.003)])
    play, setting = Player(times), Setting(1, 0.0, 1)
    rare, busy = (
        play(setting, read_scenario(text), sureness=0.0, is_rough=True)
        for text in ("burst:2/50ms", "burst:2/4ms")
    )
    assert rare.mean_s == pytest.approx((0.005 + 0.007) / 2)
    assert busy.mean_s == pytest.approx((0.002 + 0.004) / 2)  # there is no pause


def test_bursts_of_many_batches_take_little_memory():
    tracemalloc.start()
    try:
        figures = played("burst:1000/60s", 1, levels=(0.5, 1.5))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 150e6
    # 1,000 batches of 2 ms with a standard deviation of 0.82 ms: 2.33 of those of their sum more.
    assert figures.p99_s == pytest.approx(2 + 2.33 * 1000**0.5 * 0.00082, abs=0.01)
