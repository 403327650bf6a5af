"""A real server on the loopback interface: its batches, and its latencies beside predictions.

Nothing here depends on how quick the machine is: a batch sleeps for a time that is long beside
what a server in Python adds.
"""

import math
from pathlib import Path

import numpy as np
import pytest
from benchmarks.batch_server import Serving, start_server

from foretell.decide.deployment.batch_times import Point, times_by_threads
from foretell.decide.deployment.scenario import read_scenario
from foretell.decide.deployment.settings import Setting
from foretell.deploy.play import Player

pytest.importorskip("torch")
NETWORK = f"{Path(__file__).parent / 'sleeping.py'}:build"
FIXED_S, EACH_S = 0.02, 0.005


@pytest.fixture(scope="module")
def played():
    server = start_server(NETWORK, (4,), Serving(6, 0.01), answer_bytes=16)
    try:
        latencies = server.latencies(60.0, 240, seed=2)
    finally:
        sizes, _ = server.close()
    return latencies, sizes


def test_every_request_is_answered_in_batches_up_to_the_cap(played):
    latencies, sizes = played
    assert len(latencies) == 240
    assert sum(sizes) == 240
    assert 1 < max(sizes) <= 6
    assert (latencies >= FIXED_S + EACH_S - 1e-3).all()


def test_latencies_are_about_those_that_are_predicted(played):
    latencies, _ = played
    times = times_by_threads(
        Point(1, b, FIXED_S + EACH_S * b, (1.0,), 0.0, 1.0, 20) for b in range(1, 7)
    )
    figures = Player(times)(
        Setting(6, 0.01, 1), read_scenario("poisson:60/s"), sureness=0.0, is_rough=True
    )
    # A busy machine makes answers later and never earlier, and 240 requests are few.
    assert np.mean(latencies) > 0.75 * figures.mean_s
    assert np.median(latencies) < 3 * figures.mean_s
    assert math.isfinite(figures.p99_s)
