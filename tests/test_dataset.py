"""The table of runs: what a model of a target sees of it, and the notes for the user."""

import numpy as np
import pandas as pd
import pytest

from foretell.dataset import Dataset, read_dataset
from foretell.errors import DatasetError, Option

ROLES = {
    "threads": "parameter",
    "status": "remark",
    "wall_time_s": "measured",
    "cpu_time_s": "measured",
    "peak_memory_bytes": "measured",
    "n_errors": "printed",
}


def measured(**columns):
    values = {
        "threads": [1, 2, 3, 4],
        "status": ["ok"] * 4,
        "wall_time_s": [4.0, 3.0, 2.0, 1.0],
        "cpu_time_s": [4.0, 0.0, 2.0, 1.0],
        "peak_memory_bytes": [5e6, np.nan, np.nan, 4e6],
        "n_errors": [0, 1, 0, 2],
        **columns,
    }
    return Dataset(pd.DataFrame(values), "runs.csv", ROLES)


@pytest.mark.parametrize(
    ("target", "rows"),
    [
        ("wall_time_s", [1, 2, 3, 4]),
        ("cpu_time_s", [1, 3, 4]),
        ("peak_memory_bytes", [1, 4]),
        ("n_errors", [1, 2, 3, 4]),
    ],
)
def test_runs_too_short_to_be_measured_are_left_out_with_a_note(target, rows):
    found, notes = measured().for_target(target)
    assert found.row_numbers.tolist() == rows
    assert set(found.columns) == {"threads", target}
    n_left_out = 4 - len(rows)
    assert notes == [] if not n_left_out else f"{n_left_out} of 4 runs" in notes[0]
    assert all(target in note for note in notes)


def test_failed_runs_go_first_and_rows_keep_their_numbers():
    found, notes = measured(status=["ok", "failed", "ok", "ok"]).for_target("peak_memory_bytes")
    assert found.row_numbers.tolist() == [1, 4]
    assert "1 of 4 runs" in notes[0] and "1 failed" in notes[0]
    assert "1 of 3 runs" in notes[1]


def test_a_target_that_was_never_measured_is_refused():
    with pytest.raises(DatasetError, match="no run in which 'peak_memory_bytes' was measured"):
        measured(peak_memory_bytes=[np.nan] * 4).for_target("peak_memory_bytes")
    with pytest.raises(DatasetError, match="no run that went well"):
        measured(status=["failed"] * 4).for_target("wall_time_s")


def test_a_table_of_ones_own_may_say_which_runs_failed():
    frame = pd.DataFrame({"n": [1, 2, 3], "status": ["ok", "failed", "ok"], "time_s": [1, 9, 3]})
    found, notes = read_dataset(frame).for_target("time_s")
    assert found.columns == ["n", "time_s"]
    assert found.row_numbers.tolist() == [1, 3]
    assert notes == ["1 of 3 runs were left out: 1 failed."]


def test_a_status_in_other_words_is_a_setting_with_a_note():
    frame = pd.DataFrame({"n": [1, 2], "status": ["done", "timeout"], "time_s": [1, 9]})
    found, notes = read_dataset(frame).for_target("time_s")
    assert found.columns == ["n", "status", "time_s"]
    assert len(notes) == 1 and "write ok, failed, timed out" in notes[0]
    assert read_dataset(frame.assign(status=[200, 404])).for_target("time_s")[1] == []


def test_a_table_that_foretell_did_not_measure_keeps_its_gaps():
    frame = measured().frame.drop(columns="status")
    found, notes = Dataset(frame, "runs.csv").for_target("cpu_time_s")
    assert found.frame is frame
    assert notes == []


def test_all_columns_with_gaps_are_reported_at_once():
    dataset = Dataset(pd.DataFrame({"a": [1, None], "b": [1, 2], "c": [None, None]}), "t.csv")
    with pytest.raises(DatasetError) as caught:
        dataset.refuse_missing(["a", "b", "c"], remedy=("set ", Option("drop_missing")))
    text = str(caught.value)
    assert "'a' has 1 missing value (row 2)" in text
    assert "'c' has 2 missing values (rows 1, 2)" in text
    assert "'b'" not in text
    assert text.endswith("set drop_missing")
    dataset.refuse_missing(["b"])


def notes_on(values, name="memory"):
    frame = pd.DataFrame({name: values, "time_s": range(1, len(values) + 1)})
    return read_dataset(frame).for_target("time_s")[1]


def test_numbers_with_a_unit_are_noted_with_what_to_write():
    (note,) = notes_on(["16GB", "32GB", "64 GB"])
    assert "'memory'" in note and "16GB" in note
    assert "rename the column to memory_gb and write 16 in its cells" in note


@pytest.mark.parametrize("name", ["memory_gb", "memory_GB"])
def test_unit_that_the_name_has_already_is_not_added_to_it(name):
    (note,) = notes_on(["16GB", "32GB"], name)
    assert "write 16 in its cells" in note and "rename" not in note


@pytest.mark.parametrize("name", ["memory_mb", "memory_MiB", "memory_percent"])
def test_unit_in_the_name_is_replaced_by_that_of_the_values(name):
    (note,) = notes_on(["16GB", "32GB"], name)
    assert "rename the column to memory_gb and" in note


def test_numbers_in_several_units_are_to_be_written_in_one():
    (note,) = notes_on(["512MB", "16GB"])
    assert "memory_mb" in note and "all of them in MB" in note and "512 in" not in note


@pytest.mark.parametrize(
    "values", [["m5", "c5"], ["16GB", "large"], ["1a", "2b"], [16, 32], ["2x", "4x"], [True, False]]
)
def test_other_names_are_not_taken_for_numbers_with_a_unit(values):
    assert notes_on(values) == []


def test_levels_that_differ_only_in_case_are_noted():
    (note,) = notes_on(["M5.LARGE", "c5", "m5.large"])
    assert "'M5.LARGE' and 'm5.large' differ only in case" in note


def test_a_unit_of_the_target_is_not_noted():
    frame = pd.DataFrame({"nodes": [1, 2], "time_s": ["5s", "6s"]})
    assert read_dataset(frame).for_target("time_s")[1] == []
