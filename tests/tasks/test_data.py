"""Data of tasks: which parts of arrays overlap, compared with the elements themselves."""

from itertools import count, product

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


RECORD = np.dtype([("a", np.float32), ("b", np.float64), ("c", np.float32)])
KINDS = {
    "whole": lambda part: part,
    "real": lambda part: part.real,
    "imaginary": lambda part: part.imag,
    "field a": lambda part: part["a"],
    "field b": lambda part: part["b"],
    "fields": lambda part: part[["a", "c"]],
}
OF_TYPE = {
    np.dtype(complex): ("whole", "real", "imaginary"),
    np.dtype(np.complex64): ("whole", "real", "imaginary"),
    RECORD: ("whole", "field a", "field b", "fields"),
}


@given(data=st.data(), kind=st.sampled_from(list(OF_TYPE)), order=st.sampled_from("CF"))
def test_dependencies_never_miss_a_shared_part_of_an_element(data, kind, order):
    array = np.zeros(SHAPE, dtype=kind, order=order)
    names = st.sampled_from(OF_TYPE[kind])
    one = np.s_[1 : 1 + data.draw(st.integers(1, 2)), 2:3]  # few elements: nothing else overlaps
    parts = st.sampled_from([data.draw(indices), one])
    views = [KINDS[data.draw(names)](array[data.draw(parts)]) for _ in range(3)]
    if not all(isinstance(view, np.ndarray) for view in views):
        return
    known, tasks = Dependencies(), [Doer(k) for k in range(3)]
    found = [known.add(one, [], [view]) for one, view in zip(tasks, views, strict=True)]
    if np.shares_memory(views[0], views[1]):
        assert tasks[0] in found[1]
    if np.shares_memory(views[0], views[2]):  # if need be, by way of the second
        assert tasks[0] in found[2] or (tasks[0] in found[1] and tasks[1] in found[2])
    if np.shares_memory(views[1], views[2]):
        assert tasks[1] in found[2]


def test_part_of_an_element_and_the_element_are_not_taken_for_each_other():
    array = np.zeros(4, dtype=complex)
    known, tasks = Dependencies(), [Doer(k) for k in range(3)]
    assert known.add(tasks[0], [], [array[:1].real]) == []
    assert known.add(tasks[1], [], [array[:1]]) == [tasks[0]]
    assert known.add(tasks[2], [], [array[:1].imag]) == [tasks[1]]


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


def test_numbers_and_texts_of_numpy_are_the_same_data_as_those_that_they_equal():
    assert before(np.int64(3), 3)
    assert all(before(one, other) for one, other in zip(np.arange(3), np.arange(3), strict=True))
    assert before(("block", np.int32(1), np.float64(0.5)), ("block", 1, 0.5))
    assert before(np.str_("x"), "x")
    assert before(np.float64(0.5), 0.5)
    assert before(np.bool_(True), True)
    assert before(np.datetime64("2026-01-01"), np.datetime64("2026-01-01"))
    assert not before(np.int64(3), np.int64(4))
    assert not before(np.int64(1), np.bool_(True))
    records = np.zeros(2, dtype=[("a", int)])
    assert not before(records[0], records[1])


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


steps = st.lists(
    st.tuples(st.lists(indices, max_size=2), st.lists(indices, max_size=2)), min_size=2, max_size=12
)


@given(steps=steps, order=st.sampled_from("CF"))
def test_tasks_that_share_elements_which_one_writes_are_ordered_if_by_way_of_others(steps, order):
    array = np.zeros(SHAPE, order=order)
    known, done = Dependencies(), []
    for number, names in enumerate(steps):
        reads, writes = ([part for name in some if isinstance(part := array[name], np.ndarray)]
                         for some in names)  # fmt: skip
        one = Doer(number)
        found = known.add(one, reads, writes)
        one.before = set(found).union(*(other.before for other in found))
        for other, other_reads, other_writes in done:
            pairs = [*product(reads, other_writes), *product(writes, other_reads + other_writes)]
            if any(np.shares_memory(a, b) for a, b in pairs):
                assert other in one.before
        done.append((one, reads, writes))


def most_readers(known):
    return max(len(entry.readers) for base in known._arrays.values()
               for entry in base._entries.values())  # fmt: skip


def test_readers_of_parts_are_forgotten_once_all_of_them_is_written():
    a, known, number = np.zeros((8, 8)), Dependencies(), count()
    for _ in range(20):
        for i in range(4):
            known.add(Doer(next(number)), [a[2 * i : 2 * i + 2]], [])
        known.add(Doer(next(number)), [], [a[:, :4]])
        assert len(known.add(Doer(next(number)), [], [a])) <= 6
    assert most_readers(known) == 0


def test_readers_of_parts_with_borders_are_forgotten_once_they_are_read_again():
    now, then, known, number = np.zeros(40), np.zeros(40), Dependencies(), count()
    for _ in range(30):
        for i in range(2, 38, 4):
            found = known.add(Doer(next(number)), [now[i - 1 : i + 5]], [then[i : i + 4]])
            assert len(found) <= 12
        now, then = then, now
    assert most_readers(known) <= 2


def test_empty_views_depend_on_nothing():
    a = np.zeros(4)
    assert not before(a, a[2:2])
