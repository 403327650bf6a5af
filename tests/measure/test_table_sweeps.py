"""More runs in a table that is there: what is added, what is refused, and what survives a kill."""

from __future__ import annotations

import csv
import json

import pandas as pd
import pytest

from foretell.errors import NothingUsableError, StorageError, UsageError
from foretell.files.journal import decode, encode
from foretell.measure.measure import MeasureOptions, estimate_time, measure_sweep, prepare_sweep

from .conftest import command, python

APPENDED = MeasureOptions(append=True)


def sweep(*numbers, call="quick", **rest):
    runs = [{"n": n} for n in numbers]
    return {"workload": python(call), "configurations": runs, "meters": [], **rest}


def calls(folder):
    return [int(line) for line in (folder / "calls.txt").read_text().split()]


def numbers(folder):
    return sorted(pd.read_csv(folder / "runs.csv")["n"])


@pytest.fixture
def table(folder):
    measure_sweep(sweep(1, 2), folder / "runs.csv")
    return folder / "runs.csv"


def test_runs_come_on_top_and_none_is_made_twice(folder, table):
    for _ in range(2):
        measured = measure_sweep(sweep(3, 4), table, APPENDED)
    assert numbers(folder) == [1, 2, 3, 4]
    assert sorted(calls(folder)) == [1, 2, 3, 4]
    assert measured.n_ok == 4
    measure_sweep(sweep(2, 5), table, APPENDED)  # another sweep may repeat a configuration
    assert numbers(folder) == [1, 2, 2, 3, 4, 5]


def test_the_first_sweep_goes_on_as_before(folder, table):
    before = table.read_bytes()
    measure_sweep(sweep(3), table, APPENDED)
    measure_sweep(sweep(1, 2), table)
    assert sorted(calls(folder)) == [1, 2, 3]
    assert table.read_bytes().startswith(before)
    with pytest.raises(StorageError, match="another sweep"):
        measure_sweep(sweep(3), table)


@pytest.mark.parametrize("at_once", [1, 2])
def test_runs_that_may_not_start_are_left_for_another_time(folder, at_once):
    path = folder / "runs.csv"
    asked = sweep(1, 2, 3, 4, 5, order="written", at_once=at_once)
    seen = []

    def may_start(records, runs):
        seen.append((len(records), [run["n"] for run in runs]))
        return all(run["n"] != 2 for run in runs) and len(records) < 2

    measure_sweep(asked, path, MeasureOptions(may_start=may_start))
    assert numbers(folder) == [1, 3]
    assert max(len(runs) for _, runs in seen) == at_once
    n_sessions = len(json.loads(path.with_suffix(".json").read_text())["sessions"])
    measure_sweep(asked, path, MeasureOptions(may_start=may_start))
    assert numbers(folder) == [1, 3]
    assert len(json.loads(path.with_suffix(".json").read_text())["sessions"]) == n_sessions
    measure_sweep(asked, path)
    assert sorted(calls(folder)) == [1, 2, 3, 4, 5]


def test_where_no_run_may_start_nothing_is_written(folder):
    with pytest.raises(NothingUsableError, match="none of 2 runs"):
        measure_sweep(sweep(1, 2), folder / "runs.csv", MeasureOptions(may_start=lambda *_: False))
    assert not (folder / "runs.csv").exists()


def test_the_description_names_every_sweep(folder, table):
    measure_sweep(sweep(3), table, APPENDED)
    measure_sweep(sweep(4), table, APPENDED)
    for _ in range(2):
        found = json.loads((folder / "runs.json").read_text())
        assert found["sweep"]["configurations"] == [{"n": 1}, {"n": 2}]
        assert [s["configurations"] for s in found["appended"]] == [[{"n": 3}], [{"n": 4}]]
        assert found["runs"] == {"ok": 4}
        measure_sweep(sweep(1, 2), table)


def test_a_run_that_fails_on_top_loses_nothing(folder):
    table = folder / "runs.csv"
    measure_sweep(sweep(1, call="picky"), table)
    measure_sweep(sweep(2, 5, call="picky", order="written"), table, APPENDED)
    assert pd.read_csv(table)["status"].tolist() == ["ok", "failed", "ok"]


def test_how_long_the_rest_takes_counts_the_own_runs_only(folder, table):
    prepared = prepare_sweep(sweep(3, 4))
    assert estimate_time(prepared, table).n_left == 2
    measure_sweep(sweep(3, 4), table, APPENDED)
    assert estimate_time(prepared, table).n_left == 0


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (sweep(3, call="wordy"), "another workload; results never mix"),
        ({**sweep(3), "parameters": {"m": 1}}, None),
    ],
)
def test_runs_of_another_job_are_refused(folder, table, other, words):
    before = table.read_bytes()
    with pytest.raises((StorageError, UsageError), match=words or "'m'|other parameters"):
        measure_sweep(other, table, APPENDED)
    assert table.read_bytes() == before


def test_what_foretell_did_not_measure_is_left_alone(folder, table):
    with pytest.raises(UsageError, match=r"no table .*none\.csv to add runs to"):
        measure_sweep(sweep(3), folder / "none.csv", APPENDED)
    (folder / "own.csv").write_text("n,wall_time_s\n1,2\n")
    with pytest.raises(StorageError, match=r"own\.csv"):
        measure_sweep(sweep(3), folder / "own.csv", APPENDED)
    table.write_text(table.read_text().replace("ok", "OK"))
    with pytest.raises(StorageError, match="was changed since foretell wrote it"):
        measure_sweep(sweep(3), table, APPENDED)
    (folder / "runs.json").write_text("{}")
    with pytest.raises(StorageError, match=r"says how runs\.csv was measured, is missing"):
        measure_sweep(sweep(3), table, APPENDED)


def test_after_kill_9_the_same_command_adds_what_is_missing(folder, table, foretell):
    listed = "".join(f"[[configurations]]\nn = {n}\n" for n in range(3, 9))
    job = "meters = []\n[workload]\nuse = 'python'\ncall = 'jobs:quick'\n"
    (folder / "next.toml").write_text(job + listed)
    words = ["measure", "next.toml", "--append", "runs.csv", "-q"]
    run = foretell(*words)
    journal = folder / "runs.journal"
    assert run.reaches(lambda: len(_runs(journal)) >= 4), run.text
    run.kill()
    again = foretell(*words)
    assert again.wait() == 0, again.text
    assert numbers(folder) == list(range(1, 9))
    # One run may have been cut off in its midst, and is made again.
    assert len(calls(folder)) <= 9


def _runs(journal):
    return [r for r in decode(journal.read_bytes())[0] if r["kind"] == "run"]


# Rows that were deleted


def without_row(table, number):
    """Delete a row of a table, as with an editor."""
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join(lines[:number] + lines[number + 1 :]))


@pytest.mark.parametrize("row", [1, 2, 3], ids=["first", "middle", "last"])
def test_a_deleted_row_stays_deleted_and_more_runs_can_be_added(folder, row):
    table = folder / "runs.csv"
    measure_sweep(sweep(1, 2, 3, order="written"), table)
    without_row(table, row)
    left = [n for n in (1, 2, 3) if n != row]
    assert numbers(folder) == left
    again = measure_sweep(sweep(1, 2, 3, order="written"), table)
    assert numbers(folder) == left
    assert (again.n_new, again.n_deleted) == (0, 1)
    measured = measure_sweep(sweep(4), table, APPENDED)
    assert numbers(folder) == [*left, 4]
    assert measured.n_deleted == 1
    assert sorted(calls(folder)) == [1, 2, 3, 4]
    assert json.loads((folder / "runs.json").read_text())["runs"] == {"ok": 3}
    assert "1 rows were deleted" in (folder / "runs.log").read_text()


def test_rows_may_be_deleted_again_and_again(folder):
    table = folder / "runs.csv"
    measure_sweep(sweep(1, 2, 3, 4, order="written"), table)
    for left in ([1, 3, 4], [1, 3], [3]):
        rows = pd.read_csv(table)["n"].tolist()
        without_row(table, 1 + next(i for i, n in enumerate(rows) if n not in left))
        measure_sweep(sweep(1, 2, 3, 4, order="written"), table)
        assert numbers(folder) == left
    without_row(table, 1)
    with pytest.raises(NothingUsableError, match="all rows were deleted"):
        measure_sweep(sweep(1, 2, 3, 4, order="written"), table)


def test_rows_that_were_not_written_before_a_crash_are_not_taken_for_deleted(folder, table):
    """The journal has a run that table and description do not have yet."""
    before = {name: (folder / name).read_bytes() for name in ("runs.csv", "runs.json")}
    measure_sweep(sweep(3), table, APPENDED)
    for name, content in before.items():
        (folder / name).write_bytes(content)
    assert measure_sweep(sweep(3), table, APPENDED).n_deleted == 0
    assert numbers(folder) == [1, 2, 3]
    (folder / "runs.json").write_bytes(before["runs.json"])  # the table is written first
    assert measure_sweep(sweep(3), table, APPENDED).n_deleted == 0
    assert numbers(folder) == [1, 2, 3]


def test_rows_in_another_order_are_a_change_and_not_a_deletion(folder, table):
    header, *rows = table.read_text().splitlines(keepends=True)
    table.write_text("".join([header, *reversed(rows)]))
    with pytest.raises(StorageError, match="was changed since foretell wrote it"):
        measure_sweep(sweep(3), table, APPENDED)


def texts(*values):
    """Return a sweep over texts, which the job prints and the table has as settings."""
    workload = command("echo", "{text}")
    return {"workload": workload, "parameters": {"text": [*values]}, "meters": [],
            "order": "written"}  # fmt: skip


def delete_row(table, number):
    """Delete a row of a table whose cells may have several lines."""
    with table.open(newline="") as file:
        rows = list(csv.reader(file))
    del rows[number]
    with table.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


@pytest.mark.parametrize("deleted", [0, 1, 2])
def test_a_row_can_be_deleted_from_a_table_whose_settings_have_several_lines(folder, deleted):
    table, values = folder / "runs.csv", ['a\n"b"\n', "c", "d\n\ne"]
    measure_sweep(texts(*values), table)
    delete_row(table, 1 + deleted)
    for _ in range(2):
        again = measure_sweep(texts(*values), table)
        assert (again.n_new, again.n_deleted) == (0, 1)
        left = [*values[:deleted], *values[deleted + 1 :]]
        assert pd.read_csv(table)["text"].tolist() == left


def test_lines_of_a_setting_are_not_taken_for_rows_after_a_crash(folder):
    """The journal has five runs, the table and its description have three."""
    table, values = folder / "runs.csv", ["a\nb\nc", "d", "e", "f", "g"]
    measure_sweep(texts(*values), table)
    delete_row(table, 5)
    delete_row(table, 4)
    described = json.loads((folder / "runs.json").read_text())
    (folder / "runs.json").write_text(json.dumps({**described, "runs": {"ok": 3}}))
    again = measure_sweep(texts(*values), table)
    assert (again.n_new, again.n_deleted) == (0, 0)
    assert pd.read_csv(table)["text"].tolist() == values


@pytest.fixture
def stop_early(monkeypatch):
    """Return a function that appends a sweep, and stops when the runs should be made."""

    def unreachable(*_):
        raise ConnectionError("the cluster cannot be reached")

    def append(sweep, table):
        with monkeypatch.context() as patch:
            patch.setattr("foretell.measure.measure.open_place", unreachable)
            with pytest.raises(ConnectionError):
                measure_sweep(sweep, table, APPENDED)

    return append


def test_a_deletion_is_complete_even_if_the_command_stops_before_its_first_run(folder, stop_early):
    """The deleted row was the only one with a column ``only``."""
    (folder / "own.py").write_text("def f(n):\n    return {'only': 1} if n == 1 else {'all': 1}\n")
    runs = sweep(1, 2, order="written") | {"workload": {"use": "python", "call": "own:f"}}
    more = {**runs, "configurations": [{"n": 3}]}
    table = folder / "runs.csv"
    measure_sweep(runs, table)
    delete_row(table, 1)
    stop_early(more, table)
    assert "only" not in pd.read_csv(table)
    assert json.loads((folder / "runs.json").read_text())["runs"] == {"ok": 1}
    assert measure_sweep(more, table, APPENDED).n_deleted == 1
    assert numbers(folder) == [2, 3]


@pytest.mark.parametrize("n_deleted", [1, 2], ids=["one", "all"])
def test_a_run_that_was_not_written_after_a_deletion_is_not_taken_for_deleted(
    folder, table, stop_early, n_deleted
):
    """The process is killed when the first run after a deletion is in the journal alone."""
    for _ in range(n_deleted):
        delete_row(table, 1)
    stop_early(sweep(3), table)
    journal = folder / "runs.journal"
    records = decode(journal.read_bytes())[0]
    run = next(r for r in records if r["kind"] == "run")
    mark = next(r["of_sweep"] for r in records if r["kind"] == "sweep")
    new = {**run, "run": 0, "configuration": {"n": 3}, "of_sweep": mark}
    with journal.open("ab") as file:
        file.write(encode(new))
    again = measure_sweep(sweep(3), table, APPENDED)
    assert (again.n_new, again.n_deleted) == (0, n_deleted)
    assert 3 in numbers(folder)
    assert len(numbers(folder)) == 3 - n_deleted


def test_more_runs_can_be_added_after_all_rows_were_deleted(folder, table):
    for _ in range(2):
        delete_row(table, 1)
    for _ in range(2):
        with pytest.raises(NothingUsableError, match="all rows were deleted"):
            measure_sweep(sweep(1, 2), table)
    assert measure_sweep(sweep(3), table, APPENDED).n_deleted == 2
    assert numbers(folder) == [3]


def test_a_deletion_keeps_what_the_description_says_of_missing_meters(folder, table, stop_early):
    described = json.loads((folder / "runs.json").read_text())
    missing = {"gpu": "no GPU here"}
    (folder / "runs.json").write_text(json.dumps({**described, "meters_missing": missing}))
    delete_row(table, 1)
    stop_early(sweep(3), table)
    described = json.loads((folder / "runs.json").read_text())
    assert (described["runs"], described["meters_missing"]) == ({"ok": 1}, missing)
