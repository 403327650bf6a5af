"""Tasks as users write them."""

import pytest

from foretell.decide.placement.tasks import plain_value, read_h, read_task
from foretell.errors import UsageError
from foretell.machines import Resources


def test_needs_features_and_weights_are_told_apart():
    task = read_task("cpu=500m,memory=1Gi,nvidia.com/gpu=1,iterations=800,kind=text,H=0.6,name=a")
    assert task.needs == Resources(cpus=0.5, memory_bytes=2**30, gpus=1)
    assert task.features == {"iterations": 800, "kind": "text"}
    assert (task.H, task.name, task.migratable) == (0.6, "a", "never")
    assert task.columns["memory_mib"] == 1024
    assert read_task({"iterations": 3}).needs == Resources(cpus=1)


@pytest.mark.parametrize("text", ["memory=2Gi", "memory_mib=2048", "memory_gib=2"])
def test_memory_is_a_need_in_every_unit(text):
    task = read_task(text)
    assert task.needs.memory_bytes == 2**31
    assert not task.features
    assert task.columns["memory_mib"] == 2048


def test_tasks_with_the_same_predictions_have_the_same_key():
    one = read_task("cpu=2,a=1,b=x,H=0.1")
    assert one.key == read_task("b=x,a=1,cpu=2000m,H=0.9").key
    assert one.key != read_task("cpu=2,a=2,b=x").key
    assert read_task({"a": 1}).key != read_task({"a": "1"}).key


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cpu", "'cpu' is not NAME=VALUE"),
        ("cpu=2,,", "'' is not NAME=VALUE"),
        ("cpu=2,cpu=3", "cpu is given twice"),
        ("cpu=2,cpus=3", "cpus and cpu are the same"),
        ("memory_mib=2Gi", "memory_mib: must be a number, such as 512, not 2Gi"),
        ("cpu=-2", "must be an amount"),
        ("memory=lots", "must be an amount"),
        ("cpu=2,H=1.2", "from 0 to 1, not 1.2"),
        ("migratable=yes", "never, restart, resume, not yes$"),
        ("memory=1Gi,memory_mib=2048", "memory is given twice"),
        ("memory_gib=-1", "memory_gib: must be a non-negative number"),
        ({"a": float("nan")}, "a: must be a number or a text"),
        ({"a": [1]}, "a: must be a number or a text"),
    ],
)
def test_mistakes_are_named(text, expected):
    with pytest.raises(UsageError, match=expected):
        read_task(text)


@pytest.mark.parametrize("wrong", [-0.1, 1.1, "half", float("nan"), None])
def test_a_weight_of_energy_is_from_0_to_1(wrong):
    with pytest.raises(UsageError, match="from 0 to 1"):
        read_h(wrong)


def test_a_whole_number_that_is_too_large_for_a_float_stays_a_text():
    assert plain_value("9" * 400) == "9" * 400
