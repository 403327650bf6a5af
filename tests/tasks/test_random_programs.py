"""Whatever a program of tasks is, running it in parallel gives what running it in order gives."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.tasks import Graph

from .random_programs import State, assert_same, play, programs


@pytest.mark.parametrize("policy", ["critical", "breadth", "work"])
@settings(max_examples=120)
@given(program=programs, workers=st.integers(1, 3), max_open=st.sampled_from([1, 3, 10_000]))
def test_programs_give_what_they_give_in_order(policy, program, workers, max_open):
    state = State()
    with Graph(workers=workers, policy=policy, max_open=max_open):
        play(program, state)
    assert_same(program, state)
