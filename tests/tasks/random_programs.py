"""Random programs of tasks, for comparing a run in parallel with a run in order."""

from pathlib import PurePosixPath

import numpy as np
from hypothesis import strategies as st

from foretell.tasks import task
from foretell.tasks.declare import active

MODULUS = 1_000_003
N = 12
KEYS = ("a", 1, 1.5, None, True, b"b", PurePosixPath("c"), ("d", 2))


@task(reads="sources targets", writes="targets")
def mix(sources, targets, number):
    """Change all targets by all sources in a way that depends on the order of tasks."""
    total = sum(int(s.sum()) * (k + 3) for k, s in enumerate(sources)) % MODULUS
    for t in targets:
        change(t, total + number)


@task(reads="sources", writes="targets")
def outer(sources, targets, numbers):
    """Submit children, which depend on one another."""
    for number in numbers:
        mix(sources, targets, number)


@task(reads="source", writes="box")
def change_box(source, box, number):
    """Change all that is in a tuple, a list or a dict."""
    change(box, int(source.sum()) + number)


@task(writes="key line")
def note(key, line, number):
    change(line, number)


def change(value, total):
    """Change numbers and arrays however deep, and put another order into lists of arrays."""
    if isinstance(value, np.ndarray):
        value *= 7
        value += total + 1
        value %= MODULUS
        return value
    if isinstance(value, int):
        return (7 * value + total + 1) % MODULUS
    if isinstance(value, tuple):
        for part in value:
            change(part, total)
        return value
    for key in value if isinstance(value, dict) else range(len(value)):
        value[key] = change(value[key], total)
    if isinstance(value, dict):
        value["rows"].reverse()
        value["new"] = [total, value["rows"][0]]
    return value


class State:
    """Data of a program: arrays, what holds arrays, and other names of arrays that are held."""

    def __init__(self):
        self.arrays = [np.arange(N, dtype=np.int64) * (k + 1) for k in range(3)]
        self.arrays.append(np.arange(24).reshape(4, 6))
        self.held = [np.arange(3) + k for k in range(4)]
        pair = (self.arrays[0][:5], self.arrays[3][1:3, ::2])
        listed = [self.arrays[1][::2], 5, [self.held[0], 6], (self.held[1], 7)]
        self.boxes = [pair, listed, {"rows": self.held[2:], "n": 8}]


def view(arrays, spec):
    which, start, length, step = spec
    if which == 3:
        return arrays[3][start % 4 : start % 4 + length, start // 4 :: step]
    return arrays[which][start : start + length : step]


views = st.tuples(st.integers(0, 3), st.integers(0, N - 1), st.integers(1, N), st.integers(1, 3))
mixes = st.tuples(
    st.just("mix"), st.lists(views, min_size=1, max_size=2),
    st.lists(views, min_size=1, max_size=2), st.integers(0, 3), st.booleans(),
)  # fmt: skip
changes = st.tuples(st.just("change"), views, st.integers(0, 2))
notes = st.tuples(st.just("note"), st.sampled_from(KEYS), st.integers(0, 3))
waits = st.tuples(st.just("wait"), st.none() | views)
programs = st.lists(st.one_of(mixes, mixes, changes, notes, waits), min_size=1, max_size=14)


def play(program, state):
    """Call the tasks of a program: in parallel if a graph is open, else one after the other."""
    for number, (kind, *step) in enumerate(program):
        if kind == "mix":
            sources, targets, priority, is_nested = step
            given = [[view(state.arrays, spec) for spec in some] for some in (sources, targets)]
            if is_nested:
                outer(*given, [number, number + 100])
            else:
                mix.with_options(priority=priority)(*given, number)
        elif kind == "change":
            change_box(view(state.arrays, step[0]), state.boxes[step[1]], number)
        elif kind == "note":
            note(step[0], state.arrays[3][step[1]], number)
        elif active.graph is not None:
            on = step[0]
            active.graph.wait(on=None if on is None else [view(state.arrays, on)])


def assert_same(program, state):
    """Raise an AssertionError unless a state is what the program makes of a new one in order."""
    expected = State()
    play(program, expected)
    _compare(vars(state), vars(expected))


def _compare(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        _compare(list(found.values()), list(expected.values()))
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            _compare(one, other)
    else:
        assert found == expected
