"""Traces: what was run, as a table of runs, as a timeline for Perfetto, and read again."""

from __future__ import annotations

import csv
import io
import json
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.dataset import KIND_OF_RUNS, PARAMETER, description_path, read_dataset
from foretell.errors import DatasetError, StorageError, UsageError
from foretell.files.directory import write_whole
from foretell.statuses import Status
from foretell.tasks.running.submitted import DONE, FAILED
from foretell.wording import counted

if TYPE_CHECKING:
    import pandas as pd

    from foretell.tasks.graph import Graph
    from foretell.tasks.running.submitted import Task

#: What a task is known by before it runs: the columns that models use.
KNOWN = ("label", "size", "workers", "isolation")
_MEASURED = ("time_s", "cpu_time_s", "start_s", "end_s")
_REMARKS = ("status", "run", "task", "worker", "after", "waited", "parent", "priority")
COLUMNS = (*KNOWN, *_MEASURED, *_REMARKS)
_ALL = "*"
#: What ends the keys of Dask: a hash, or a random number as of `uuid4`.
_HASH = re.compile(r"-(?:[0-9a-f]{16,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$")


@dataclass(frozen=True)
class Wait:
    """A wait of the program between tasks.

    Attributes
    ----------
    n_before
        How many tasks had been submitted.
    tasks
        What it waited for; None for all of them.
    """

    n_before: int
    tasks: tuple[int, ...] | None


@dataclass(frozen=True)
class Row:
    """One task of a graph, as a forecast sees it.

    Attributes
    ----------
    before
        The numbers of the tasks that must end first.
    is_wait
        Whether it stands for a wait of the program, which takes no time and no worker.
    time_s
        What it took; None if it has not run.
    """

    label: str
    size: float = 0.0
    isolation: str = "none"
    before: tuple[int, ...] = ()
    priority: int = 0
    is_wait: bool = False
    time_s: float | None = None


@dataclass(frozen=True)
class Bar:
    """A task on a timeline."""

    name: str
    worker: int
    start_s: float
    end_s: float
    detail: str = ""


def isolation_of(task: Task) -> str:
    """Name how a task is kept apart: by what it runs in, and not by what it asked for."""
    options = task.function.options
    name = options.allow if options.isolation == "enclave" and options.allow else options.isolation
    return f"{name}+sealed" if options.sealed else name


def rows_of(graph: Graph) -> list[Row]:
    """Return the tasks of a graph that was built or run, its waits among them."""
    tasks: list[_Submitted] = []
    for t in graph.tasks:
        time_s = _time(t) if t.start_s else None
        row = Row(t.label, t.size, isolation_of(t), tuple(t.before), t.priority, time_s=time_s)
        tasks.append((t.id, None if t.parent is None else t.parent.id, row))
    return _with_waits(tasks, graph.waits)


#: A task as it was submitted: its number, that of the task that submitted it, and what it is.
_Submitted = tuple[int, int | None, Row]


def _with_waits(tasks: Sequence[_Submitted], waits: Sequence[Wait]) -> list[Row]:
    """Number tasks anew: each followed by those that it submitted, and waits between them."""
    return _Numbering(tasks).rows(waits)


class _Numbering:
    """Puts the tasks of a graph into one order, in which each waits for earlier ones only."""

    def __init__(self, tasks: Sequence[_Submitted]) -> None:
        self._found: list[Row] = []
        #: Where those stand that none waits for yet: when they have ended, all have.
        self._last: dict[int, None] = {}
        #: Where a task and all within it stand: it has ended when they have.
        self._places: dict[int, tuple[int, ...]] = {}
        self._within: dict[int | None, list[tuple[int, Row]]] = {}
        for number, parent, row in tasks:
            self._within.setdefault(parent, []).append((number, row))

    def rows(self, waits: Sequence[Wait]) -> list[Row]:
        left = deque(waits)
        last: tuple[int, ...] = ()
        for number, row in self._within.get(None, ()):
            while left and left[0].n_before <= number:
                before = tuple(dict.fromkeys((*self._waited(left.popleft()), *last)))
                last = (self._put(Row("wait", before=before, is_wait=True)),)
            self._add(number, row, last)
        return self._found

    def _put(self, row: Row) -> int:
        place = len(self._found)
        self._found.append(row)
        for one in row.before:
            self._last.pop(one, None)
        self._last[place] = None
        return place

    def _add(self, number: int, row: Row, after: tuple[int, ...]) -> tuple[int, ...]:
        """Add a task after some places, and then those that it submitted."""
        own = dict.fromkeys(p for b in row.before for p in self._places.get(b, ()))
        before = tuple(dict.fromkeys((*own, *after)))
        places: tuple[int, ...] = (
            self._put(row if before == row.before else replace(row, before=before)),
        )
        for inner, inner_row in self._within.get(number, ()):
            places += self._add(inner, inner_row, before)
        self._places[number] = places
        return places

    def _waited(self, wait: Wait) -> tuple[int, ...]:
        if wait.tasks is not None:
            return tuple(p for t in wait.tasks for p in self._places.get(t, ()))
        return tuple(self._last)


def _time(task: Task) -> float:
    return max(task.end_s - task.start_s - task.waited_s, 0.0)


# Tables


def write_table(graphs: Sequence[Graph], path: Path, *, append: bool = False) -> None:
    """Write the tasks of graphs as a table of runs, with the description beside it."""
    old = _old_lines(path) if append and path.exists() else []
    first = 1 + max((int(line["run"]) for line in old), default=0)
    new = [line for k, graph in enumerate(graphs) for line in _lines(graph, first + k)]
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows([*old, *new])
    roles = dict.fromkeys(KNOWN, PARAMETER)
    roles |= dict.fromkeys(_MEASURED, "measured") | dict.fromkeys(_REMARKS, "remark")
    description = {
        "kind": KIND_OF_RUNS,
        "format": 1,
        "table": path.name,
        "columns": roles,
        "graphs": [{"workers": g.workers, "policy": g.policy, "on": g.on} for g in graphs],
    }
    _check_beside(path)
    write_whole(path, text.getvalue().encode())
    write_whole(description_path(path), json.dumps(description, indent=1).encode())


def _check_beside(path: Path) -> None:
    """Refuse to replace a file beside the table that foretell did not write."""
    beside = description_path(path)
    if not beside.exists():
        return
    try:
        is_ours = json.loads(beside.read_bytes()).get("kind") == KIND_OF_RUNS
    except (ValueError, AttributeError):
        is_ours = False
    if not is_ours:
        raise StorageError(f"{beside} exists, and would be the description of {path}; rename one")


def _old_lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise StorageError(f"{path} is not a trace of tasks, so nothing is added to it")
        return list(reader)


def _ran(graph: Graph) -> list[Task]:
    return [task for task in graph.tasks if task.start_s]


def _lines(graph: Graph, run: int) -> list[dict[str, Any]]:
    ran = _ran(graph)
    start_s = min((t.start_s for t in ran), default=0.0)
    texts = _waited(graph.waits)
    numbers = sorted(texts)
    lines = []
    for t in ran:
        place = bisect_right(numbers, t.id)
        waited = texts[numbers[place - 1]] if place else ""
        lines.append({**_cells(t, run, start_s), "workers": graph.workers, "waited": waited})
    return lines


def _cells(task: Task, run: int, start: float) -> dict[str, Any]:
    return {
        "label": task.label,
        "size": f"{task.size:g}" if task.size != int(task.size) else int(task.size),
        "isolation": isolation_of(task),
        "time_s": f"{_time(task):.9f}",
        "cpu_time_s": f"{task.cpu_s:.9f}",
        "start_s": f"{task.start_s - start:.9f}",
        "end_s": f"{task.end_s - start:.9f}",
        "status": Status.OK if task.state == DONE else Status.FAILED,
        "run": run,
        "task": task.id,
        "worker": task.worker,
        "after": " ".join(map(str, task.before)),
        "parent": "" if task.parent is None else task.parent.id,
        "priority": task.priority,
    }


def _waited(waits: Sequence[Wait]) -> dict[int, str]:
    """Write the waits after each number of tasks: that number, and which tasks were meant."""
    names: dict[int, list[str]] = {}
    for wait in waits:
        name = _ALL if wait.tasks is None else ",".join(map(str, wait.tasks))
        names.setdefault(wait.n_before, []).append(name)
    return {n: f"{n}:{'+'.join(own)}" for n, own in names.items()}


def read_trace(path: Path | str) -> pd.DataFrame:
    """Read the table of a trace."""
    path = Path(path)
    if path.suffix == ".json":
        raise DatasetError(f"{path} is a timeline; a forecast reads the table (.csv) of a run")
    frame = read_dataset(path).frame
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise DatasetError(
            f"{path} is not a trace of tasks: it has no column '{missing[0]}'. "
            "Graph.trace writes one."
        )
    return frame


def read_rows(path: Path | str, run: int | None = None) -> tuple[list[Row], list[str]]:
    """Read the tasks of a trace, by default those of its last run, and what to know about them."""
    frame = read_trace(path)
    runs = sorted(frame["run"].unique())
    if run is not None and run not in runs:
        raise UsageError(f"{path} has the runs {runs[0]} to {runs[-1]}, and none called {run}")
    played = runs[-1] if run is None else run
    lines = frame[frame["run"] == played].sort_values("task")
    try:
        notes = [
            f"The tasks were recorded on {counted(_workers(lines), 'worker')}, and are taken to be "
            "as fast on other numbers."
        ]
        rows = _read(lines.to_dict("records"))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise DatasetError(f"{path} is not a trace of tasks that can be read: {error}") from None
    if run is None and len(runs) > 1:
        notes.insert(0, f"The trace has {len(runs)} graphs; played is the last one, run {played} "
                     f"of {counted(len(lines), 'task')}.")  # fmt: skip
    return rows, notes


def _workers(lines: pd.DataFrame) -> int:
    known = lines["workers"].dropna()
    if known.empty:
        raise ValueError("the column 'workers' is empty")
    return int(known.iloc[0])


def _read(lines: Sequence[Mapping[Any, Any]]) -> list[Row]:
    tasks: list[_Submitted] = []
    waits: dict[str, Wait] = {}
    for line in lines:
        number, after = int(line["task"]), _text(line["after"]).split()
        before = tuple(int(float(b)) for b in after)
        if any(b >= number for b in before):
            raise ValueError(f"task {number} waits for a later one")
        time_s = float(line["time_s"])
        if not 0 <= time_s < float("inf"):
            raise ValueError(f"task {number} took {time_s} s")
        row = Row(str(line["label"]), float(line["size"]), str(line["isolation"]), before,
                  int(line["priority"]), time_s=time_s)  # fmt: skip
        parent = _text(line["parent"])
        tasks.append((number, int(float(parent)) if parent else None, row))
        if (text := _text(line["waited"])) and text not in waits:
            n, _, names = text.partition(":")
            parts = names.split("+")
            is_all = _ALL in parts
            named = tuple(int(t) for p in parts if p != _ALL for t in p.split(",") if t)
            waits[text] = Wait(int(n), None if is_all else named)
    return _with_waits(tasks, list(waits.values()))


def _text(cell: Any) -> str:
    if cell is None or cell != cell:  # NaN, of an empty cell
        return ""
    return str(int(cell)) if isinstance(cell, float) else str(cell)


# Graphs of others


def rows_of_dask(graph: Any) -> list[Row]:
    """Return the tasks of a Dask graph: a collection, or a mapping of keys to tasks.

    Nothing is computed, and Dask need not be installed for a plain mapping.

    >>> [row.before for row in rows_of_dask({"a": 1, "b": (abs, "a"), "c": (max, "a", "b")})]
    [(), (0,)]
    """
    found = getattr(graph, "__dask_graph__", lambda: graph)()
    if not isinstance(found, Mapping):
        raise UsageError(f"a Dask graph is a collection or a mapping, not {type(graph).__name__}")
    tasks = dict(found)
    needs = {key: [n for n in _names_in(value, tasks) if n != key] for key, value in tasks.items()}
    order = _sorted(needs)
    is_task = {key: _is_task(tasks[key]) for key in tasks}
    places: dict[Any, tuple[int, ...]] = {}
    rows: list[Row] = []
    for key in order:
        before = tuple(dict.fromkeys(p for n in needs[key] for p in places[n]))
        if not is_task[key]:
            places[key] = before  # data, or another name of a task
            continue
        places[key] = (len(rows),)
        rows.append(Row(_dask_label(key), 1.0, before=before))
    return rows


def _is_task(value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(value) and callable(value[0])
    return callable(value) and hasattr(value, "dependencies") and hasattr(value, "func")


def _names_in(value: Any, tasks: Mapping[Any, Any]) -> list[Any]:
    if hasattr(value, "dependencies") and not isinstance(value, tuple | list):
        return list(value.dependencies)
    try:
        if value in tasks:
            return [value]
    except (TypeError, ValueError):  # it cannot be a key
        pass
    if isinstance(value, tuple | list):
        return [name for part in value for name in _names_in(part, tasks)]
    if isinstance(value, dict):
        return [name for part in value.values() for name in _names_in(part, tasks)]
    return []


def _sorted(needs: Mapping[Any, list[Any]]) -> list[Any]:
    from graphlib import CycleError, TopologicalSorter

    try:
        return list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        names = " -> ".join(map(str, error.args[1]))
        raise UsageError(f"the graph has a cycle: {names}") from None


def _dask_label(key: Any) -> str:
    """Name a task as Dask does in its pictures: the part of its key before the hash."""
    name = key[0] if isinstance(key, tuple) and key else key
    return _HASH.sub("", str(name))


# Timelines


def bars_of(graph: Graph) -> list[Bar]:
    """Return the tasks that ran as bars of a timeline."""
    ran = _ran(graph)
    start = min((t.start_s for t in ran), default=0.0)
    return [
        Bar(t.label, t.worker or 0, t.start_s - start, t.end_s - start,
            "failed" if t.state == FAILED else f"task {t.id}, size {t.size:g}")
        for t in ran
    ]  # fmt: skip


def write_perfetto(bars: Sequence[Bar], path: Path, name: str = "foretell") -> None:
    """Write a timeline in the format of Chrome's traces, which ui.perfetto.dev opens."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": name}}
    ]
    for worker in sorted({bar.worker for bar in bars}):
        events.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": worker,
                       "args": {"name": f"worker {worker}"}})  # fmt: skip
    events += [
        {"ph": "X", "name": bar.name, "pid": 1, "tid": bar.worker, "ts": 1e6 * bar.start_s,
         "dur": 1e6 * (bar.end_s - bar.start_s), "args": {"detail": bar.detail}}
        for bar in bars
    ]  # fmt: skip
    write_whole(path, json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}).encode())
