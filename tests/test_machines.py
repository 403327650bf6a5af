"""The algebra of resources, and what nodes have left: exact, whatever the amounts."""

import math
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.errors import UsageError
from foretell.machines import Needs, Node, NodeType, Resources, read_amount

# As users write them: CPUs in thousandths, memory in bytes, other resources by name.
milli = st.integers(0, 10**6).map(lambda n: n / 1000)
amounts = st.builds(
    Resources,
    cpus=milli,
    memory_bytes=st.integers(0, 2**45),
    gpus=milli,
    custom=st.dictionaries(st.sampled_from(["pods", "fpga", "disk"]), milli),
)


def exact(resources):
    """Return the amounts as fractions of whole thousandths: an oracle without rounding."""
    return {name: Fraction(round(n * 1000), 1000) for name, n in resources.amounts().items()}


@given(amounts, amounts, amounts)
def test_adding_is_exact_and_does_not_depend_on_the_order(a, b, c):
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + Resources() == a
    names = {**exact(a), **exact(b)}
    assert exact(a + b) == {n: exact(a).get(n, 0) + exact(b).get(n, 0) for n in names}


@given(amounts, amounts)
def test_what_was_added_can_be_taken_away_without_a_remainder(a, b):
    assert (a + b) - b == a
    assert a.fits_in(a + b)
    assert hash((a + b) - b) == hash(a)


@given(amounts, amounts)
def test_a_task_fits_when_it_lacks_nothing_and_only_then(task, free):
    fits = all(n <= exact(free).get(name, 0) for name, n in exact(task).items())
    assert task.fits_in(free) is fits
    assert (task.lacking(free) == Resources()) is fits
    assert task.fits_in(free + task.lacking(free))
    if not fits:
        with pytest.raises(ValueError, match="cannot be taken from"):
            free - task


@given(amounts, amounts)
def test_as_many_tasks_fit_as_are_counted_and_no_more(task, capacity):
    n = capacity.n_fitting(task)
    if task == Resources():
        assert n > 10**9
        return
    counts = [math.floor(exact(capacity).get(name, 0) / x) for name, x in exact(task).items()]
    assert n == min(counts)
    assert (task * n).fits_in(capacity)
    assert not (task * (n + 1)).fits_in(capacity)


@given(st.lists(amounts, max_size=8))
def test_a_node_has_all_its_capacity_again_when_its_tasks_have_left(tasks):
    capacity = sum(tasks, Resources(cpus=1))
    node = Node("a", NodeType("big", capacity))
    for task in tasks:
        node = node.take(task)
    assert node.free == Resources(cpus=1)
    for task in reversed(tasks):
        node = node.give_back(task)
    assert node.free == capacity


def test_a_node_takes_no_task_that_does_not_fit():
    node = Node("a", NodeType("small", Resources(cpus=2, memory_bytes=100)))
    busy = node.take(Resources(cpus=1.5))
    assert node.fits(Resources(cpus=2))
    assert not busy.fits(Resources(cpus=0.6))
    assert not node.fits(Resources(custom={"fpga": 1}))
    with pytest.raises(ValueError, match=r"a has 0\.5 CPUs"):
        busy.take(Resources(cpus=1))


def test_resources_are_values_that_nobody_can_change_from_outside():
    given_custom = {"pods": 3}
    resources = Resources(cpus=1, custom=given_custom)
    given_custom["pods"] = 99
    assert resources.custom == {"pods": 3}
    assert pickle.loads(pickle.dumps(resources)) == resources
    assert Resources(custom={"pods": 0}) == Resources()
    with pytest.raises(AttributeError):
        resources.cpus = 2


@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf, True, "2"])
@pytest.mark.parametrize("name", ["cpus", "memory_bytes", "gpus"])
def test_amounts_are_non_negative_numbers(name, wrong):
    with pytest.raises(UsageError, match=f"{name}: must be a non-negative number"):
        Resources(**{name: wrong})
    with pytest.raises(UsageError, match="fpga: must be"):
        Resources(custom={"fpga": wrong})


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2", 2),
        ("500m", 0.5),
        ("1Gi", 2**30),
        ("1.5Ki", 1536),
        ("2k", 2000),
        (".5M", 5e5),
        (7, 7),
        ("1e3", 1000),
        ("12E2", 1200),
        ("2E", 2e18),
        ("1Ei", 2**60),
        ("1500000n", 0.0015),
    ],
)
def test_amounts_are_read_as_kubernetes_writes_them(text, amount):
    assert read_amount(text) == amount


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "-1", "1e400", "nan", "1Gi2", "½"])
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(UsageError, match="memory: must be an amount such as 2, 500m or 1Gi"):
        read_amount(text, "memory")


def test_one_resource_under_two_names_is_refused():
    with pytest.raises(UsageError, match="cpus and cpu are the same"):
        Resources.read({"cpu": 1, "cpus": 2})


def test_needs_and_node_types_are_checked():
    with pytest.raises(UsageError, match="n_parts must be at least 1"):
        Needs(n_parts=0)
    with pytest.raises(UsageError, match=r"busy_w of a \(1\) is less than idle_w \(2\)"):
        NodeType("a", Resources(), idle_w=2, busy_w=1)
    with pytest.raises(UsageError, match="price_per_h of a: must be a non-negative number"):
        NodeType("a", Resources(), price_per_h=-1)
