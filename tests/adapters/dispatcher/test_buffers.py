"""Buffers against a plain list that is sorted each time."""

import hypothesis.strategies as st
from hypothesis import given

from foretell.adapters.dispatcher.buffers import Buffers
from foretell.adapters.dispatcher.jobs import Job

N_LEVELS = 3
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "first", "take", "remove"]), st.integers(0, 10**6))
)


@given(STEPS)
def test_the_head_is_the_oldest_of_the_highest_class_whatever_came_and_went(steps):
    buffers, model = Buffers(N_LEVELS), []  # entries: level, place in line, job
    for number, (step, choice) in enumerate(steps):
        level = choice % N_LEVELS
        if step in ("add", "first"):
            job = Job(str(number), "any", level, ["true"])
            model.append((-level, number if step == "add" else -number, job))
            (buffers.add if step == "add" else buffers.add_first)(job)
        elif model:
            model.sort(key=lambda entry: entry[:2])
            entry = model.pop(0 if step == "take" else choice % len(model))
            assert step == "remove" or buffers.head is entry[2]
            buffers.remove(entry[2])
        model.sort(key=lambda entry: entry[:2])
        assert list(buffers) == [job for *_, job in model]
        assert buffers.lengths == [sum(-m[0] == i for m in model) for i in range(N_LEVELS)]
        assert len(buffers) == len(model)
    assert (buffers.head is None) == (not model)
