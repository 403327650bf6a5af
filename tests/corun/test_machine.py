"""The machine: bubbles are measured for real, and its file is checked."""

import json
import sys

import pytest

from foretell.corun.machine import (
    Machine,
    bubble_rate,
    inverted_bandwidth,
    measure_machine,
    read_machine,
)
from foretell.errors import NothingUsableError, UsageError

from .jobs import made_up_machine


def test_a_machine_is_measured_and_read_again(tmp_path):
    found = measure_machine(tmp_path / "this.machine", seconds=0.1)
    assert read_machine(tmp_path / "this.machine") == found
    assert found.bandwidth >= found.stream_rate > 1e6
    assert {len(values) for values in found.sensitivities.values()} == {5}
    assert all(value >= 1 for values in found.sensitivities.values() for value in values)
    assert "memory bandwidth" in str(found)


def with_facts(**change):
    content = made_up_machine().model_dump()
    return json.dumps({**content, "facts": {**content["facts"], **change}})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{}", "facts"),
        ("[1]", "does not describe a machine"),
        ("not json", "does not describe a machine"),
        (json.dumps({**made_up_machine().model_dump(), "disk": -1}), "disk"),
        (json.dumps({**made_up_machine().model_dump(), "facts": {}}), r"facts\.cpu"),
        (with_facts(n_usable="abc"), r"facts\.n_usable: must be a whole number"),
        (with_facts(n_usable=-3), r"facts\.n_usable: must be at least 1"),
        (with_facts(memory_bytes="lots"), r"facts\.memory_bytes"),
        (with_facts(cpu="x" * 3000), r"facts\.cpu: must be at most 200 .{,90}$"),
        (json.dumps({**made_up_machine().model_dump(), "dsik": 1}), "dsik"),
    ],
)
def test_a_file_that_is_wrong_is_refused(content, reason, tmp_path):
    (tmp_path / "x.machine").write_text(content)
    with pytest.raises(UsageError, match=reason):
        read_machine(tmp_path / "x.machine")


def test_bandwidth_is_what_a_full_bubble_leaves():
    machine = made_up_machine(stream_rate=10.0, bandwidth=12.0)
    assert inverted_bandwidth(machine, 1.0, 10.0) == 0.0
    # The bubble lost 4: the job had 6, and at full speed it would have had 1.5 times as much.
    assert inverted_bandwidth(machine, 1.5, 6.0) == pytest.approx(9.0)


def test_a_bubble_that_says_nothing_is_an_error():
    with pytest.raises(NothingUsableError, match="did nothing"):
        bubble_rate("oh no")
    assert bubble_rate("rate 12.5\n") == 12.5


def test_capacity_is_that_of_the_file():
    assert made_up_machine(disk=0.5).capacity().disk == 0.5
    assert isinstance(made_up_machine(), Machine)
    assert sys.version_info >= (3, 11)
