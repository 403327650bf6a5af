"""Random programs of tasks, for comparing a run in parallel with a run in order."""

import numpy as np
from hypothesis import strategies as st

from foretell.tasks import task

MODULUS = 1_000_003
N = 12


@task(reads="sources targets", writes="targets")
def mix(sources, targets, number):
    """Change all targets by all sources in a way that depends on the order of tasks."""
    total = sum(int(s.sum()) * (k + 3) for k, s in enumerate(sources)) % MODULUS
    for t in targets:
        t *= 7
        t += total + number + 1
        t %= MODULUS


@task(reads="sources", writes="targets")
def outer(sources, targets, numbers):
    """Submit children, which depend on one another."""
    for number in numbers:
        mix(sources, targets, number)


def view(arrays, spec):
    which, start, length, step = spec
    return arrays[which][start : start + length : step]


views = st.tuples(st.integers(0, 2), st.integers(0, N - 1), st.integers(1, N), st.integers(1, 3))
steps = st.tuples(
    st.lists(views, min_size=1, max_size=2), st.lists(views, min_size=1, max_size=2),
    st.integers(0, 3), st.booleans(),
)  # fmt: skip
programs = st.lists(steps, min_size=1, max_size=14)


def play(program, arrays):
    """Call the tasks of a program: in parallel if a graph is open, else one after the other."""
    for number, (sources, targets, priority, is_nested) in enumerate(program):
        given = [view(arrays, s) for s in sources], [view(arrays, t) for t in targets]
        if is_nested:
            outer(*given, [number, number + 100])
        else:
            mix.with_options(priority=priority)(*given, number)


def fresh():
    return [np.arange(N, dtype=np.int64) * (k + 1) for k in range(3)]


def in_order(program):
    arrays = fresh()
    play(program, arrays)
    return arrays
