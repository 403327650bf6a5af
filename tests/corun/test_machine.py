"""The machine: bubbles are measured for real, and its file is checked."""

import json
import sys

import pytest

from foretell.corun.group import group_jobs
from foretell.corun.machine import (
    Machine,
    bubble_rate,
    default_path,
    inverted_bandwidth,
    keep_machine,
    measure_machine,
    read_machine,
)
from foretell.corun.predict import predict_together
from foretell.errors import NothingUsableError, StorageError, UsageError

from .jobs import made_up, made_up_machine


def test_a_machine_is_measured_and_read_again(tmp_path):
    found = measure_machine(tmp_path / "this.machine", seconds=0.1)
    assert read_machine(tmp_path / "this.machine") == found
    assert found.bandwidth >= found.stream_rate > 1e6
    assert {len(values) for values in found.sensitivities.values()} == {5}
    assert all(value >= 1 for values in found.sensitivities.values() for value in values)
    assert "memory bandwidth" in str(found)
    assert 0 <= found.wake_s < 1
    assert found.capacity().wake_s == found.wake_s


def test_a_disturbed_measurement_is_kept_only_in_a_file_that_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    disturbed, calm = made_up_machine(other_load=0.4), made_up_machine(other_load=0.05)
    with pytest.raises(NothingUsableError, match=r"kept 0\.40 cores .*Nothing was kept") as told:
        keep_machine(disturbed)
    assert "this.machine" in str(told.value)
    assert not default_path().exists()
    keep_machine(disturbed, tmp_path / "x.machine")
    assert read_machine(tmp_path / "x.machine") == disturbed
    with pytest.raises(StorageError, match="exists already"):
        measure_machine(tmp_path / "x.machine", seconds=0.1)
    keep_machine(calm)
    assert read_machine(default_path()) == calm
    assert calm.notes() == []


def test_the_load_of_others_is_shown_and_noted_in_predictions():
    disturbed = made_up_machine(other_load=0.4)
    assert "others kept 0.40 cores" in str(disturbed)
    for found in (
        predict_together([made_up()], machine=disturbed),
        group_jobs({"a": made_up()}, machine=disturbed),
    ):
        assert any("0.40 cores" in note for note in found.notes)


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
