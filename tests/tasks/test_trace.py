"""Traces: tables that a fit takes, timelines, and graphs that are read again."""

import json
from dataclasses import replace

import pandas as pd
import pytest

import foretell
from foretell.errors import DatasetError, StorageError, UsageError
from foretell.tasks import Graph, foresee, task
from foretell.tasks.trace import COLUMNS, Row, read_rows, rows_of, rows_of_dask


@task(reads="a", writes="b", size="n")
def step(a, b, n):
    pass


@task(writes="x")
def fail(x):
    raise ValueError


def a_run(workers=2):
    with Graph(workers=workers) as g:
        step("a", "b", 10)
        step("b", "c", 20)
        g.wait()
        step("z", "y", 30)
        g.wait(on=["y"])
        step("q", "r", 40)
    return g


def test_table_has_a_row_for_each_task_with_what_it_depends_on(tmp_path):
    a_run().trace(tmp_path / "run.csv")
    found = pd.read_csv(tmp_path / "run.csv", keep_default_na=False, dtype={"after": str})
    assert tuple(found.columns) == COLUMNS
    assert found["size"].tolist() == [10, 20, 30, 40]
    assert found["after"].tolist() == ["", "0", "", ""]
    assert (found["workers"] == 2).all()
    assert (found["time_s"] > 0).all()
    assert found["end_s"].is_monotonic_increasing


def test_trace_that_is_read_again_has_the_graph_of_the_run_and_its_waits(tmp_path):
    g = a_run()
    g.trace(tmp_path / "run.csv")
    found, _ = read_rows(tmp_path / "run.csv")
    assert [row.before for row in found] == [row.before for row in rows_of(g)]
    assert [row.label for row in found] == ["step", "step", "wait", "step", "wait", "step"]
    assert found[3].before == (2,)
    assert found[5].before == (4,)


def test_model_is_fitted_on_what_is_known_before_a_task_only(tmp_path):
    with Graph(workers=1) as g:
        for k in range(40):
            step("a", "b", 10 + k % 4)
    g.trace(tmp_path / "run.csv")
    dataset, _ = foretell.read_dataset(tmp_path / "run.csv").for_target("time_s")
    assert set(dataset.columns) == {"label", "size", "workers", "isolation", "time_s"}


def test_failed_tasks_are_in_the_trace_with_their_status(tmp_path):
    with pytest.raises(ExceptionGroup), Graph(workers=1) as g:
        fail("x")
        step("x", "y", 1)
        step("p", "q", 1)
    g.trace(tmp_path / "run.csv")
    assert pd.read_csv(tmp_path / "run.csv")["status"].tolist() == ["failed", "ok"]


def test_appended_runs_are_told_apart(tmp_path):
    path = tmp_path / "run.csv"
    a_run().trace(path)
    a_run(workers=1).trace(path, append=True)
    found = pd.read_csv(path)
    assert found["run"].tolist() == [1] * 4 + [2] * 4
    assert len(read_rows(path, run=1)[0]) == 6
    with pytest.raises(UsageError, match="1 to 2"):
        read_rows(path, run=3)


def test_timeline_has_an_event_for_each_task(tmp_path):
    g = a_run()
    g.trace(tmp_path / "run.json")
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    bars = [event for event in events if event["ph"] == "X"]
    assert len(bars) == 4
    assert all(bar["dur"] >= 0 and bar["ts"] >= 0 for bar in bars)


def test_other_files_are_neither_replaced_nor_read_as_traces(tmp_path):
    (tmp_path / "run.json").write_text('{"mine": 1}')
    with pytest.raises(StorageError, match=r"run\.json"):
        a_run().trace(tmp_path / "run.csv")
    with pytest.raises(UsageError, match="table"):
        a_run().trace(tmp_path / "run.txt")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DatasetError, match="not a trace of tasks"):
        read_rows(tmp_path / "other.csv")
    with pytest.raises(StorageError, match="nothing is added"):
        a_run().trace(tmp_path / "other.csv", append=True)


@pytest.mark.parametrize(
    ("column", "value"), [("after", "7"), ("time_s", "-1"), ("size", "much"), ("waited", "x:y")]
)
def test_traces_that_were_changed_are_refused(tmp_path, column, value):
    path = tmp_path / "run.csv"
    a_run().trace(path)
    found = pd.read_csv(path, dtype=str)
    found.loc[1, column] = value
    found.to_csv(path, index=False)
    with pytest.raises(DatasetError, match="trace"):
        read_rows(path)


def test_trace_without_its_number_of_workers_is_refused(tmp_path):
    path = tmp_path / "run.csv"
    a_run().trace(path)
    pd.read_csv(path).assign(workers=None).to_csv(path, index=False)
    with pytest.raises(DatasetError, match="trace"):
        foresee(path, workers=1, overhead_s=0.0)


def test_tasks_within_others_end_before_what_follows_these(tmp_path):
    @task(writes="x", size=1)
    def inner(x): ...

    @task(writes="x", size=1)
    def outer(x):
        inner(x)
        inner(x)

    with Graph(workers=1) as g:
        step("a", "x", 1)
        outer("x")
        step("x", "y", 1)
        g.wait()
        step("p", "q", 1)
    g.trace(tmp_path / "run.csv")
    rows, _ = read_rows(tmp_path / "run.csv")
    assert [row.label for row in rows] == [
        "step", "outer", "inner", "inner", "step", "wait", "step",
    ]  # fmt: skip
    assert rows[2].before == (0,)
    assert rows[3].before == (2, 0)
    assert set(rows[4].before) >= {1, 2, 3}
    assert rows[6].before == (5,)
    assert rows == rows_of_without_times(g, rows)


def rows_of_without_times(graph, like):
    return [replace(row, time_s=other.time_s) for row, other in
            zip(rows_of(graph), like, strict=True)]  # fmt: skip


class CountedList(list):
    n_times = 0

    def __iter__(self):
        CountedList.n_times += 1
        return super().__iter__()


class CountedRow(Row):
    n_times = 0

    def __getattribute__(self, name):
        CountedRow.n_times += name == "before"
        return super().__getattribute__(name)


def test_traces_with_many_waits_take_one_look_at_each(tmp_path, monkeypatch):
    CountedList.n_times = CountedRow.n_times = 0
    monkeypatch.setattr("foretell.tasks.trace.Row", CountedRow)
    with Graph(workers=1) as g:
        for _ in range(100):
            step("a", "b", 1)
            g.wait()
    g.waits = CountedList(g.waits)
    g.trace(tmp_path / "run.csv")
    rows, _ = read_rows(tmp_path / "run.csv")
    assert CountedList.n_times == 1
    assert CountedRow.n_times <= 10 * len(rows)
    assert [row.before for row in rows[-3:]] == [(195,), (196, 195), (197,)]


def test_dask_graphs_are_read_with_their_dependencies():
    graph = {
        "data": 5,
        ("load-0123456789abcdef", 0): (abs, "data"),
        ("load-0123456789abcdef", 1): (abs, "data"),
        "sum": (max, [("load-0123456789abcdef", 0), ("load-0123456789abcdef", 1)]),
        "alias": "sum",
        "end-0b1090a3-5c55-4421-ace1-8d263dbab877": (abs, "alias"),
    }
    rows = rows_of_dask(graph)
    assert [row.label for row in rows] == ["load", "load", "sum", "end"]
    assert [row.before for row in rows] == [(), (), (0, 1), (2,)]


def test_cycles_in_a_graph_of_others_are_refused():
    with pytest.raises(UsageError, match="cycle"):
        rows_of_dask({"a": (abs, "b"), "b": (abs, "a")})
