"""Formulas of batch service, against sums by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.decide.deployment.formulas import parts_of, take_all_mean_s


def test_nobody_waits_where_nobody_else_arrives():
    assert take_all_mean_s(0.002, 0.001, 1e-9) == pytest.approx(0.003, rel=1e-6)


def test_there_is_no_mean_beyond_capacity():
    assert take_all_mean_s(0.002, 0.001, 1000) == math.inf


@given(st.integers(1, 500), st.integers(1, 64))
def test_parts_hold_all_samples_and_none_is_larger_than_the_batch(n_samples, batch):
    parts = parts_of(n_samples, batch)
    assert sum(parts) == n_samples
    assert len(parts) == math.ceil(n_samples / batch)
    assert 1 <= min(parts) <= max(parts) <= batch
