"""Data of tasks: which parts of arrays overlap, compared with the elements themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.errors import UsageError
from foretell.tasks import Graph, task
from foretell.tasks.data import Dependencies, box_of, owner_of


class Doer:
    def __init__(self, number):
        self.id = number


def before(first, second, *, reads=False):
    known = Dependencies()
    one, two = Doer(0), Doer(1)
    known.add(one, [], [first])
    return known.add(two, [second] if reads else [], [] if reads else [second]) == [one]


SHAPE = (6, 5)


def slices(n):
    ends = st.integers(0, n)
    steps = st.sampled_from([1, 1, 2, 3, -1, -2])
    return st.builds(slice, ends, ends, steps) | st.integers(0, n - 1)


indices = st.tuples(slices(SHAPE[0]), slices(SHAPE[1]))


@given(one=indices, other=indices, transpose=st.booleans(), order=st.sampled_from("CF"))
def test_dependencies_never_miss_a_shared_element(one, other, transpose, order):
    array = np.zeros(SHAPE, order=order)
    first, second = array[one], array[other]
    if transpose and isinstance(second, np.ndarray):
        second = second.T
    if not (isinstance(first, np.ndarray) and isinstance(second, np.ndarray)):
        return
    if np.shares_memory(first, second):
        assert before(first, second)


@given(one=indices)
def test_box_has_exactly_the_elements_of_the_view(one):
    array = np.zeros(SHAPE)
    part = array[one]
    if not isinstance(part, np.ndarray) or not part.size:
        return
    box = box_of(part, array)
    assert box is not None
    expected = np.zeros(SHAPE, dtype=bool)
    expected[one] = True
    found = np.zeros(SHAPE, dtype=bool)
    found[tuple(slice(*axis) for axis in box)] = True
    np.testing.assert_array_equal(found, expected)


def test_disjoint_blocks_and_alternating_columns_are_independent():
    a = np.zeros((8, 8))
    assert not before(a[:4, :4], a[4:, :4])
    assert not before(a[:4, :4], a[:4, 4:])
    assert not before(a[:, ::2], a[:, 1::2])
    assert before(a[:, ::2], a[:, ::3])


@pytest.mark.parametrize(
    "other",
    [
        lambda a: a.reshape(-1)[5:9],
        lambda a: a.view(np.uint8),
        lambda a: a.ravel(),
        lambda a: np.frombuffer(a.data),
        lambda a: a[::-1],
        lambda a: a.T[2:3],
    ],
)
def test_other_views_of_the_same_memory_are_known(other):
    a = np.zeros((4, 4))
    assert before(a, other(a))
    assert before(a[1:3], other(a))


def test_buffers_that_numpy_does_not_own_are_known_by_address():
    memory = bytearray(64)
    one, two, three = (np.frombuffer(memory, np.uint8)[s] for s in
                       (slice(0, 32), slice(16, 48), slice(40, 64)))  # fmt: skip
    assert owner_of(one) is None
    assert before(one, two)
    assert not before(one, three)


def test_keys_are_the_same_data_when_they_are_equal_and_of_one_type():
    assert before("x", "x")
    assert before(("block", 1, 2), ("block", 1, 2))
    assert not before("x", "y")
    assert not before(1, True)


def test_objects_are_known_by_identity():
    one, other = [1], [1]
    assert before(one, one)
    assert not before(one, other)


def test_tensors_that_share_memory_are_the_same_data():
    torch = pytest.importorskip("torch")
    a = torch.zeros(4, 4)
    assert before(a[:2], a[1:])
    assert not before(a[:2], a[2:])


@task(reads="a", writes="b")
def add_to(a, b):
    for one in b if isinstance(b, list) else [b]:
        one += a.sum()


def test_tensors_of_any_type_are_data_of_tasks_and_count_as_large_as_they_are():
    torch = pytest.importorskip("torch")
    with Graph(workers=2) as g:
        for kind in (torch.float32, torch.bfloat16, torch.complex64):
            a, b = torch.ones(3, dtype=kind), torch.zeros(2, 4, dtype=kind)
            add_to(a, [b, torch.ones(1, dtype=kind)])
            last = add_to(a, b[1:].conj())
            assert (g.tasks[-2].size, last.size) == (12, 7)
            assert last.before == (last.id - 1,)
            g.wait()
            assert b.tolist() == [[3] * 4, [6] * 4]


def test_tensors_whose_memory_cannot_be_told_are_refused():
    torch = pytest.importorskip("torch")
    with Graph(workers=1), pytest.raises(UsageError, match="sparse"):
        add_to(torch.ones(1), torch.eye(2).to_sparse())


def test_lists_of_arrays_count_as_large_as_their_arrays():
    with Graph(workers=1):
        assert add_to(np.ones(3), [np.ones(4), np.ones((2, 5))]).size == 17


def test_readers_do_not_wait_for_one_another_and_a_writer_waits_for_all():
    known, tasks = Dependencies(), [Doer(k) for k in range(5)]
    assert known.add(tasks[0], [], ["x"]) == []
    for reader in tasks[1:4]:
        assert known.add(reader, ["x"], []) == [tasks[0]]
    assert known.add(tasks[4], ["x"], ["x"]) == tasks[:4]


def test_empty_views_depend_on_nothing():
    a = np.zeros(4)
    assert not before(a, a[2:2])
