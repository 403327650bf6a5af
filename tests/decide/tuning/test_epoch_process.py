"""Epoch times from few rows: what is known, and how sure it is."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.decide.tuning.epoch_process import EpochProcess, Epochs

PRIORS = {("threads", 2): (0.45, 2.2), ("threads", 4): (0.22, 4.4)}


def median(ratio):
    return math.sqrt(ratio.low * ratio.high)


def trials(rng, n, ratio_of, noise=0.03):
    """Trainings under 1 and 2 threads; the ratio may depend on the hyperparameters."""
    rows = []
    for _ in range(n):
        hyper = {"batch": float(rng.choice([16, 32, 64, 128])), "lr": float(rng.random())}
        base = 100 / hyper["batch"] ** 0.5
        for threads in (1, 2):
            seconds = base * (ratio_of(hyper) if threads == 2 else 1) * rng.lognormal(0, noise)
            rows.append(Epochs(hyper, {"threads": threads}, math.log(seconds)))
    return rows


def test_without_rows_the_prior_of_the_knob_is_returned():
    found = EpochProcess([], PRIORS).ratio({"lr": 0.1}, {"threads": 2}, {"threads": 1})
    assert found.low == pytest.approx(0.45, rel=0.1)
    assert found.high == pytest.approx(2.2, rel=0.1)
    assert not found.is_inside


def test_ratios_that_depend_on_a_hyperparameter_are_learned():
    rng = np.random.default_rng(0)
    process = EpochProcess(trials(rng, 20, lambda h: 0.25 * math.log2(h["batch"])), PRIORS)
    for batch in (16, 32, 64, 128):
        found = process.ratio({"batch": batch, "lr": 0.5}, {"threads": 2}, {"threads": 1})
        assert median(found) == pytest.approx(0.25 * math.log2(batch), rel=0.12)
        assert found.is_inside


def test_hyperparameters_beyond_the_data_are_outside_and_less_sure():
    rng = np.random.default_rng(0)
    process = EpochProcess(trials(rng, 20, lambda h: 0.7), PRIORS)
    inside, beyond = (
        process.ratio({"batch": batch, "lr": 0.5}, {"threads": 2}, {"threads": 1})
        for batch in (32, 4096)
    )
    assert not beyond.is_inside
    assert beyond.high / beyond.low > inside.high / inside.low


def test_intervals_contain_the_truth_about_as_often_as_they_say():
    rng, held = np.random.default_rng(3), []
    for _ in range(60):
        truth = math.exp(rng.normal(0, 0.4))
        process = EpochProcess(trials(rng, 4, lambda h, truth=truth: truth), PRIORS)
        found = process.ratio({"batch": 64.0, "lr": 0.3}, {"threads": 2}, {"threads": 1})
        held.append(found.low <= truth <= found.high)
    assert np.mean(held) >= 0.85


@given(
    seconds=st.lists(st.floats(1e-3, 1e4), min_size=0, max_size=8),
    name=st.sampled_from(["relu", "tanh"]),
)
def test_any_rows_give_a_finite_interval_and_its_inverse_the_other_way_round(seconds, name):
    rows = [Epochs({"f": name, "b": i}, {"threads": 1 + i % 2}, math.log(s), is_warm_up=i % 3 == 0)
            for i, s in enumerate(seconds)]  # fmt: skip
    process = EpochProcess(rows, PRIORS)
    a, b = ({"threads": 1}, {"threads": 2})
    there, back = process.ratio({"f": name}, a, b), process.ratio({"f": name}, b, a)
    assert 0 < there.low <= there.high < math.inf
    assert there.low == pytest.approx(1 / back.high, rel=1e-6)
