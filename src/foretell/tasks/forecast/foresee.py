"""Foreseeing a graph: its makespan before it runs, the best settings, and how many workers help."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from foretell.errors import Option, UsageError
from foretell.predictor import Predictor
from foretell.simulate.graph import Overhead, PlayedGraph, TaskGraph, play_graph
from foretell.spaces.values import Scalar, Values
from foretell.tasks.declare import PROTECTION
from foretell.tasks.forecast.program import read_program, read_workers
from foretell.tasks.forecast.times import (
    Means,
    Models,
    TaskTimes,
    load_task_models,
    measure_overhead,
    modelled_times,
    place_notes,
    recorded_times,
)
from foretell.tasks.running.policies import POLICIES, check_policy, upward_ranks
from foretell.tasks.running.runtime import DENSE_S, MOST_HELD_S
from foretell.tasks.running.threads import patience_s
from foretell.tasks.trace import Bar, Row, read_rows, rows_of_dask

#: More workers that gain less than this share are not worth it.
WORTH = 0.03
#: A larger share of overhead is told.
MUCH_OVERHEAD = 0.05
_Z90 = 1.6448536269514722
_TASKS_DRAWN = 80_000  # in all draws of one cell
_N_BUILDS = 3  # of each graph, if what submitting takes is told by the quickest
_FEWEST_DRAWS, _MOST_DRAWS = 8, 200


@dataclass(frozen=True)
class Cell:
    """One setting with one number of workers.

    Attributes
    ----------
    makespan_s
        Simulated with the predicted times; ``lower_s`` and ``upper_s`` are the ends of a 90 %
        interval, None where it was not computed.
    work_s, critical_path_s
        The sum of all times, and the longest chain of tasks that wait for one another.
    overhead
        The share of the runtime itself in all that workers do.
    overheads
        The same for the tasks of each label.
    """

    settings: Mapping[str, Scalar]
    workers: int
    n_tasks: int
    makespan_s: float
    work_s: float
    critical_path_s: float
    overhead: float
    lower_s: float | None = None
    upper_s: float | None = None
    overheads: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self), "settings": dict(self.settings), "overheads": dict(self.overheads)}


@dataclass(frozen=True, eq=False)
class GraphForecast:
    """What a graph will take.

    Attributes
    ----------
    best
        The setting and number of workers to use: the shortest makespan, and of those within 3 %
        of it the fewest workers.
    cells
        All settings and numbers of workers.
    helps_to
        The number of workers beyond which more gain less than 3 %; None if the most that were
        looked at still help.
    bars
        The tasks of the best cell on a timeline.
    source
        Where the times of tasks come from.
    """

    best: Cell
    cells: tuple[Cell, ...]
    varied: tuple[str, ...]
    policy: str
    overhead_s: float
    helps_to: int | None
    bars: tuple[Bar, ...]
    source: str
    notes: tuple[str, ...]
    seed: int

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "label": f"simulated, from {self.source} task times",
            "best": self.best.to_json(),
            "helps_to": self.helps_to,
            "policy": self.policy,
            "overhead_s": self.overhead_s,
            "interval": 0.9,
            "cells": [cell.to_json() for cell in self.cells],
            "seed": self.seed,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        from foretell.tasks.forecast.text import forecast_text

        return forecast_text(self)


def foresee(
    source: str | Path | Callable[..., Any] | Mapping[Any, Any],
    *,
    model: Models | str | Path | Sequence[str | Path] | None = None,
    workers: Values | None = None,
    vary: Mapping[str, Values] | None = None,
    fix: Mapping[str, Scalar] | None = None,
    runs: str | Path | Means | None = None,
    **options: Any,
) -> GraphForecast:
    """Tell how long a task graph takes, before it runs.

    Parameters
    ----------
    source
        A function that opens a graph, itself or as ``app.py:main``, which is called without
        running bodies of tasks; the trace of a run (``.csv``); or a Dask graph. A function that
        computes for less than 0.2 s is called up to three times for each setting, to measure what
        submitting takes, unless ``overhead_s`` is given.
    model
        Predicts the time of a task from its label and size: a model, its folder, or one for each
        label. A trace needs none.
    workers
        How many to look at; by default the cores of this machine.
    vary, fix
        Arguments of the function: those to choose, and those that are given.
    runs
        The trace that the model was fitted on. A model tells typical times; with it they are
        corrected to means, which makespans follow from.
    options
        Fields of ``Settings``: policy, overhead_s, seed.
    """
    chosen = check_settings(**options)
    models, means = read_models(model, runs)
    counts = read_workers(_default_workers() if workers is None else workers)
    n_builds = _N_BUILDS if chosen.overhead_s is None else 1
    shapes = _shapes(source, vary, fix, chosen.policy, n_builds)
    overhead = _overhead(chosen.overhead_s)
    cells: list[Cell] = []
    looks: dict[int, _Look] = {}
    notes = [*shapes.notes, *(() if means is None else means.notes)]
    for settings, rows, policy, build_s in shapes.calls:
        # Keys are found sooner than arrays.
        own = overhead if chosen.overhead_s is not None else overhead.of_program(build_s)
        if shapes.is_on_threads and own.submit_s <= DENSE_S:
            own = replace(own, held_s=MOST_HELD_S)
        look = _Look(rows, policy, own, models, means)
        for count in counts:
            cells.append(look.cell(settings, count))
            looks[id(cells[-1])] = look
        notes += look.notes
    best = _best(cells)
    look = looks[id(best)]
    notes += overhead_notes(cells, shapes.varied)
    if any("sandbox" in row.isolation for _, rows, *_ in shapes.calls for row in rows):
        notes.append(PROTECTION)
    alike = [cell for cell in cells if cell.settings == best.settings]
    with_interval = look.with_interval(best, chosen.seed)
    return GraphForecast(
        with_interval,
        tuple(with_interval if cell is best else cell for cell in cells),
        shapes.varied,
        look.policy,
        look.overhead.task_s,
        _helps_to(alike),
        look.bars(best),
        "recorded" if models is None else "modelled",
        tuple(dict.fromkeys(notes)),
        chosen.seed,
    )


def read_models(
    model: Models | str | Path | Sequence[str | Path] | None, runs: str | Path | Means | None
) -> tuple[Models | None, Means | None]:
    """Read what predicts the times of tasks; what was read before stays as it is."""
    models: Models | None
    if isinstance(model, Mapping):
        models = {label: _model_of(label, given) for label, given in model.items()}
    elif model is None or isinstance(model, Predictor):
        models = model
    else:
        models = load_task_models([model] if isinstance(model, str | Path) else list(model))
    if runs is None or isinstance(runs, Means):
        return models, runs
    return models, Means.of(runs, _needed(models))


def _model_of(label: str, given: Any) -> Predictor:
    """Return the model of one label, from its file if that is given."""
    found: Predictor = given
    if isinstance(given, str | Path):
        read = load_task_models([given])
        found = next(iter(read.values())) if isinstance(read, Mapping) else read
    if not hasattr(found, "outlook"):
        raise UsageError(
            f"of '{label}' must be a model or its folder, not {type(given).__name__}; "
            "foretell.load_model reads one",
            option=Option("model"),
        )
    return found


@dataclass(frozen=True)
class Settings:
    """How a graph is foreseen.

    Attributes
    ----------
    policy
        In place of that of the graph.
    overhead_s
        What the runtime takes for a task, in all or by part; measured on the spot by default. How
        long workers wait for Python's lock follows from the times of tasks, whatever is given.
    """

    policy: str | None = None
    overhead_s: float | Overhead | None = None
    seed: int = 0


def check_settings(**given: Any) -> Settings:
    """Read how a graph is to be foreseen, and refuse what cannot be."""
    from foretell.errors import suggest

    known = list(vars(Settings()))
    for name in given:
        if name not in known:
            raise UsageError(f"there is no option '{name}'. {suggest(name, known)}")
    found = Settings(**given)
    if found.policy is not None:
        check_policy(found.policy)
    given_s = found.overhead_s
    parts = vars(given_s) if isinstance(given_s, Overhead) else {"": given_s or 0.0}
    for name, part in parts.items():
        if not 0 <= part < math.inf:
            raise UsageError(f"{name} must be 0 s or more, not {part}".lstrip(),
                             option=Option("overhead"))  # fmt: skip
    if found.seed < 0:
        raise UsageError(f"must be at least 0, not {found.seed}", option=Option("seed"))
    return found


def _needed(models: Models | None) -> Models:
    if models is None:
        raise UsageError("a trace corrects the times of a model", option=Option("runs"),
                         remedy=("give one with ", Option("model", "...")))  # fmt: skip
    return models


def _overhead(given: float | Overhead | None) -> Overhead:
    """Measure what the runtime takes, or split it: submitting and running take nearly the same."""
    if given is None:
        return measure_overhead()
    return given if isinstance(given, Overhead) else Overhead(given / 2, given / 2)


def _default_workers() -> list[Scalar]:
    from foretell.executors import n_cores

    return list(range(1, n_cores() + 1))


@dataclass(frozen=True, eq=False)
class _Shapes:
    calls: Sequence[tuple[Mapping[str, Scalar], list[Row], str, float]]
    varied: tuple[str, ...]
    notes: tuple[str, ...] = ()
    is_on_threads: bool = True


def _shapes(
    source: Any, vary: Mapping[str, Values] | None, fix: Mapping[str, Scalar] | None,
    policy: str | None, n_builds: int,
) -> _Shapes:  # fmt: skip
    is_trace = isinstance(source, str | Path) and str(source).endswith((".csv", ".json"))
    is_dask = hasattr(source, "__dask_graph__")  # which may be callable, too
    if is_trace or is_dask or not (isinstance(source, str) or callable(source)):
        if vary or fix:
            raise UsageError("a recorded graph has no settings to vary", option=Option("vary"))
        rows, notes = read_rows(source) if is_trace else (rows_of_dask(source), [])
        return _Shapes([({}, rows, policy or "critical", 0.0)], (), tuple(notes))
    program = read_program(source, vary, fix)
    calls = []
    places: list[str] = []
    for settings in program.settings:
        built = program.built(settings, n_builds)
        calls.append((settings, built.rows, policy or built.policy, built.submit_s))
        places += built.places
    is_on_threads = all(on == "threads" for on in places)
    return _Shapes(calls, program.varied, tuple(place_notes(places)), is_on_threads)


class _Look:
    """One graph, looked at with several numbers of workers."""

    def __init__(
        self, rows: list[Row], policy: str, overhead: Overhead, models: Models | None,
        means: Means | None = None,
    ) -> None:  # fmt: skip
        self.rows, self.policy, self.overhead = rows, policy, overhead
        self._models, self._means = models, means
        self.graph = TaskGraph.of([row.before for row in rows], [row.is_wait for row in rows])
        self.notes: list[str] = []
        self._times: dict[int, TaskTimes] = {}
        self._overheads: dict[int, Overhead] = {}
        self._played: dict[int, PlayedGraph] = {}
        self._priority = [row.priority for row in rows]
        names = dict.fromkeys(row.label for row in rows if not row.is_wait)
        self._labels = {label: number for number, label in enumerate(names)}
        own = [len(names) if row.is_wait else self._labels[row.label] for row in rows]
        self._label = np.array(own, dtype=np.intp)

    def times(self, workers: int) -> TaskTimes:
        if self._models is None:
            workers = 0  # as recorded, however many there are
        if workers not in self._times:
            found = (
                recorded_times(self.rows)
                if self._models is None
                else modelled_times(self.rows, self._models, workers, self._means)
            )
            self.notes += found.notes
            self._times[workers] = found
        return self._times[workers]

    def play(self, times_s: Sequence[float], ranks: Sequence[float], workers: int) -> PlayedGraph:
        ready = POLICIES[self.policy](workers, ranks.__getitem__, self._priority.__getitem__)
        return play_graph(self.graph, times_s, workers, ready, self._overhead_with(workers))

    def _overhead_with(self, workers: int) -> Overhead:
        """Add how long workers wait for Python's lock: that depends on how long tasks are."""
        if workers not in self._overheads:
            own = [t for t, row in zip(self.times(workers).time_s, self.rows, strict=True)
                   if not row.is_wait]  # fmt: skip
            self._overheads[workers] = replace(self.overhead, patience_s=patience_s(own))
        return self._overheads[workers]

    def cell(self, settings: Mapping[str, Scalar], workers: int) -> Cell:
        times = self.times(workers).time_s.tolist()
        ranks = upward_ranks(times, self.graph.after)
        n = sum(not row.is_wait for row in self.rows)
        work, spent = sum(times), n * self.overhead.task_s
        self._played[workers] = played = self.play(times, ranks, workers)
        path = max(ranks, default=0.0)
        share = spent / (work + spent) if work + spent else 0.0
        cell = Cell(dict(settings), workers, n, played.makespan_s, work, path, share)
        return replace(cell, overheads=self._overheads_by_label(workers))

    def _overheads_by_label(self, workers: int) -> dict[str, float]:
        size = len(self._labels) + 1
        work = np.bincount(self._label, self.times(workers).time_s, size)
        spent = np.bincount(self._label, minlength=size) * self.overhead.task_s
        with np.errstate(invalid="ignore"):  # of tasks that take no time, without any overhead
            shares = np.nan_to_num(spent / (work + spent))
        return {label: float(shares[number]) for label, number in self._labels.items()}

    def with_interval(self, cell: Cell, seed: int) -> Cell:
        """Add a 90 % interval: the graph is played with times that are off."""
        times = self.times(cell.workers)
        if not times.spread.any():
            return cell
        n = min(max(_TASKS_DRAWN // max(len(self.rows), 1), _FEWEST_DRAWS), _MOST_DRAWS)
        random = np.random.default_rng(seed)
        # The policy orders tasks by what it believes, and not by what they will take.
        ranks = upward_ranks(times.time_s.tolist(), self.graph.after)
        logs = [
            math.log(self.play(times.drawn(random), ranks, cell.workers).makespan_s)
            for _ in range(n)
        ]
        off = _Z90 * float(np.std(logs, ddof=1))
        middle = math.log(cell.makespan_s)
        return replace(cell, lower_s=math.exp(middle - off), upper_s=math.exp(middle + off))

    def bars(self, cell: Cell) -> tuple[Bar, ...]:
        played = self._played[cell.workers]
        return tuple(
            Bar(row.label, played.worker[k], played.start_s[k], played.end_s[k], f"task {k}")
            for k, row in enumerate(self.rows)
            if not row.is_wait
        )


def _best(cells: Sequence[Cell]) -> Cell:
    least = min(cell.makespan_s for cell in cells)
    good = [cell for cell in cells if cell.makespan_s <= (1 + WORTH) * least]
    return min(good, key=lambda cell: (cell.workers, cell.makespan_s))


def _helps_to(cells: Sequence[Cell]) -> int | None:
    """Return the fewest workers that no larger number beats by more than 3 %."""
    ordered = sorted(cells, key=lambda cell: cell.workers)
    for k, cell in enumerate(ordered[:-1]):
        rest = min(other.makespan_s for other in ordered[k + 1 :])
        if rest > (1 - WORTH) * cell.makespan_s:
            return cell.workers
    return None


def overhead_notes(cells: Sequence[Cell], varied: Sequence[str]) -> list[str]:
    """Say which settings spend much of their time on overhead, or else tasks of which labels."""
    from foretell.tasks.forecast.text import settings_text
    from foretell.wording import rough_percent

    found: dict[str, str] = {}
    for cell in cells:
        name = settings_text(cell.settings, varied)
        much = [f"{label} {rough_percent(share)}" for label, share in cell.overheads.items()
                if share > MUCH_OVERHEAD]  # fmt: skip
        if cell.overhead > MUCH_OVERHEAD:
            share = rough_percent(cell.overhead)
            found[name] = f"{name or 'The program'} spends {share} on overhead."
        elif much:
            place = f"With {name}, tasks" if name else "Tasks"
            found[name] = f"{place} of some labels spend much on overhead: {', '.join(much)}."
    return list(found.values())
