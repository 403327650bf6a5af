"""Values of parameters: ranges, and samples of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from foretell.spaces.values import Range, latin_hypercube


@given(st.integers(1, 60), st.integers(1, 5), st.integers(0, 2**31))
def test_a_latin_hypercube_has_one_point_in_each_part_of_every_column(n, n_columns, seed):
    points = latin_hypercube(n, n_columns, np.random.default_rng(seed))
    assert points.shape == (n, n_columns)
    for column in points.T:
        assert sorted(np.floor(column * n).astype(int).tolist()) == list(range(n))


@given(st.integers(-9, 9), st.integers(0, 20))
def test_every_whole_number_of_a_range_is_drawn_and_no_other(start, length):
    numbers = Range.model_validate({"from": start, "to": start + length})
    drawn = {numbers.draw(i / 1000) for i in range(1000)}
    assert drawn == set(range(start, start + length + 1))
