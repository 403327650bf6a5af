"""Times of tasks before they run: from models by label, or from a recorded run."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from foretell.errors import Option, UsageError, listing
from foretell.predictor import TRUST_INSIDE, Predictor
from foretell.simulate.graph import Overhead
from foretell.statuses import Status
from foretell.tasks.trace import KNOWN, Row, read_trace
from foretell.wording import counted, number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

N_EMPTY = 2_000
_N_ROUNDS = 3
_Z90 = 1.6448536269514722
#: How far single tasks are taken to be off where a model has no intervals.
_USUAL_SPREAD = 0.1
#: The ends of the interval that spreads are taken from.
_ENDS = (0.05, 0.95)

#: One model for all labels, or one for each.
Models = Predictor | Mapping[str, Predictor]


@dataclass(frozen=True, eq=False)
class TaskTimes:
    """What each task takes, and how far off that may be.

    Attributes
    ----------
    spread
        The standard deviation of the logarithm of each time; 0 where it was recorded.
    group
        Tasks of one group are off together by half of the variance, and each by itself by the
        other half.
    notes
        What to know about these times.
    """

    time_s: Array
    spread: Array
    group: NDArray[np.int64]
    notes: tuple[str, ...] = ()

    def drawn(self, random: np.random.Generator) -> list[float]:
        """Draw times: one error that tasks of a label share, and one of each task's own.

        The factor of each task's own is 1 on average, so that it does not change their sum.
        """
        shared = random.standard_normal(int(self.group.max(initial=0)) + 1)[self.group]
        own = random.standard_normal(len(self.time_s))
        half = self.spread / math.sqrt(2)
        found: list[float] = (
            self.time_s * np.exp(half * shared + half * own - half**2 / 2)
        ).tolist()
        return found


def load_task_models(paths: Sequence[str | Path]) -> Models:
    """Load one model for all labels, or ``label=path`` for each of them."""
    from foretell.model.saved.model import load_models

    named: dict[str, Predictor] = {}
    for given in paths:
        label, sign, path = str(given).rpartition("=")
        models = load_models(path)
        timed = [model for model in models if model.target.endswith("_s")]
        if len(timed) != 1:
            found = listing(model.target for model in models)
            raise UsageError(f"{path} must have one model of a time, and has {found}")
        if not sign:
            if len(paths) > 1:
                raise UsageError("one model is for all labels; name several as label=path",
                                 option=Option("model"))  # fmt: skip
            return timed[0]
        named[label] = timed[0]
    return named


class Means:
    """Turns what a model predicts into mean times, by label, number of workers and size.

    A model of foretell predicts the time that is off by the smallest share. Where times of equal
    tasks differ, that is below their mean, and a makespan is made of sums. A model of CPU times
    does not know either what tasks wait for on their workers, such as Python's lock.
    """

    def __init__(
        self, factors: Mapping[tuple[str, int], tuple[Array, Array]], notes: Sequence[str] = ()
    ) -> None:
        self._factors = dict(factors)
        self.notes = tuple(notes)

    @classmethod
    def of(cls, path: str | Path, models: Models) -> Means:
        """Compare what the tasks of a trace took with what is predicted of them.

        A trace may have other tasks, too; those that no model knows are left out.
        """
        frame = read_trace(path)
        notes = nested_notes(int(frame["parent"].notna().sum()), len(frame))
        known = models if isinstance(models, Mapping) else models.categories.get("label")
        is_known = True if known is None else frame["label"].isin(list(known))
        frame = frame[(frame["status"] == Status.OK) & is_known]
        sums: dict[tuple[str, int], dict[float, list[float]]] = {}
        for label, model in _by_label(list(dict.fromkeys(frame["label"])), models):
            own = frame if label is None else frame[frame["label"] == label]
            if model.target not in own:
                raise UsageError(
                    f"{path} has no column '{model.target}', which the model predicts",
                    option=Option("runs"),
                )
            if own.empty:
                continue
            took, n = ("time_s", "sum"), ("time_s", "count")
            kinds = own.groupby(list(KNOWN), as_index=False).agg(took=took, n=n)
            each = model.predict(kinds[[name for name in KNOWN if name in model.columns]])
            for kind, predicted in zip(kinds.to_dict("records"), each, strict=True):
                by_size = sums.setdefault((str(kind["label"]), int(kind["workers"])), {})
                both = by_size.setdefault(float(kind["size"]), [0.0, 0.0])
                both[0] += kind["took"]
                both[1] += kind["n"] * predicted
        return cls({key: _log_factors(by_size) for key, by_size in sums.items()}, notes)

    def factors(self, rows: Sequence[Row], workers: int) -> Array:
        """Return what to multiply the predicted time of each task with."""
        known: dict[tuple[str, float], float] = {}
        for row in rows:
            if (row.label, row.size) not in known:
                known[row.label, row.size] = self._factor(row.label, row.size, workers)
        return np.array([known[row.label, row.size] for row in rows])

    def _factor(self, label: str, size: float, workers: int) -> float:
        counts = [n for name, n in self._factors if name == label]
        if not counts:
            return 1.0
        nearest = max((n for n in counts if n <= workers), default=min(counts))
        sizes, logs = self._factors[label, nearest]
        return math.exp(float(np.interp(math.log(max(size, 1e-9)), sizes, logs)))


def nested_notes(n_nested: int, n_tasks: int) -> list[str]:
    """Say how many tasks of a run were submitted by other tasks, which a program does not show.

    >>> nested_notes(80, 84)
    ['80 of 84 tasks were submitted by tasks when it ran; such tasks are not foreseen.']
    >>> nested_notes(1, 1)
    ['1 of 1 task was submitted by tasks when it ran; such tasks are not foreseen.']
    """
    if not n_nested:
        return []
    were = "was" if n_nested == 1 else "were"
    return [
        f"{n_nested:,} of {counted(n_tasks, 'task')} {were} submitted by tasks when it ran; such "
        "tasks are not foreseen."
    ]


def place_notes(places: Iterable[str]) -> list[str]:
    """Say that sending data is not foreseen, where graphs run elsewhere than on threads."""
    return [
        f"The graph runs on {on}: what sending data there takes is not in the forecast."
        for on in dict.fromkeys(places) if on != "threads"
    ]  # fmt: skip


def _log_factors(by_size: Mapping[float, list[float]]) -> tuple[Array, Array]:
    sizes = sorted(by_size)
    logs = [math.log(max(by_size[size][0], 1e-9) / by_size[size][1]) for size in sizes]
    return np.log(np.maximum(sizes, 1e-9)), np.array(logs)


def modelled_times(
    rows: Sequence[Row], models: Models, workers: int, means: Means | None = None
) -> TaskTimes:
    """Predict what tasks take, each combination of label and size once."""
    labels = list(dict.fromkeys(row.label for row in rows if not row.is_wait))
    groups = {label: k for k, label in enumerate(labels)}
    value, spread = np.zeros(len(rows)), np.zeros(len(rows))
    group = np.array([groups.get(row.label, 0) for row in rows], dtype=np.int64)
    notes: list[str] = []
    for label, model in _by_label(labels, models):
        places = [
            k for k, row in enumerate(rows)
            if not row.is_wait and (label is None or row.label == label)
        ]  # fmt: skip
        found = _predicted([rows[k] for k in places], model, workers, notes)
        value[places], spread[places] = found
    if means is not None:
        value *= means.factors(rows, workers)
    return TaskTimes(value, spread, group, tuple(dict.fromkeys(notes)))


def _by_label(labels: Sequence[str], models: Models) -> list[tuple[str | None, Predictor]]:
    if not isinstance(models, Mapping):
        known = models.categories.get("label")
        if known is not None and (unknown := [x for x in labels if x not in known]):
            raise UsageError(
                f"the model has no runs of '{unknown[0]}'; it knows {listing(known)}. Run such "
                "tasks with a trace, and fit again."
            )
        return [(None, models)]
    for label in labels:
        if label not in models:
            raise UsageError(f"there is no model for tasks '{label}'; models: {listing(models)}")
    return [(label, models[label]) for label in labels]


def _predicted(
    rows: Sequence[Row], model: Predictor, workers: int, notes: list[str]
) -> tuple[Array, Array]:
    import pandas as pd

    unknown = [name for name in model.columns if name not in KNOWN]
    if unknown:
        raise UsageError(
            f"the model needs the column '{unknown[0]}', and of tasks only {listing(KNOWN)} are "
            "known; fit it on a trace"
        )
    low, high = model.ranges.get("workers", (workers, workers))
    if workers > high and "workers" in model.columns:
        notes.append(
            f"No run had more than {counted(round(high), 'worker')}; with more, tasks are taken to "
            "be as fast as with these. Bodies that keep Python's lock, or wait for memory, take "
            "longer: run some tasks on more workers, and fit again."
        )
    known = model.categories.get("isolation")
    apart = sorted({row.isolation for row in rows} - set(known or ()))
    if known is not None and apart:
        notes.append(
            f"The model has no runs of tasks in isolation '{apart[0]}', and what that takes is not "
            "in the forecast; run such tasks with a trace, and fit again."
        )
    shown = min(max(workers, low), high)
    combinations: dict[tuple[str, float, str], int] = {}
    place = [combinations.setdefault((r.label, r.size, r.isolation), len(combinations))
             for r in rows]  # fmt: skip
    frame = pd.DataFrame(list(combinations), columns=["label", "size", "isolation"])
    frame["workers"] = shown
    frame = frame[[name for name in KNOWN if name in model.columns]]
    outlook = model.outlook(frame, _ENDS)
    if not np.isfinite(outlook.value).all():
        wrong = frame[~np.isfinite(outlook.value)].iloc[0].to_dict()
        raise UsageError(f"the model predicts nothing for {wrong}; fit it on such tasks")
    far = [name for name, trust in zip(combinations, outlook.trust, strict=True)
           if trust != TRUST_INSIDE]  # fmt: skip
    if far:
        label, size, _ = far[0]
        notes.append(
            f"Trust: {len(far)} of {len(combinations)} kinds of tasks are outside the data of the "
            f"model, such as {label} of size {number(size)}."
        )
    return outlook.value[place], _spreads(outlook.quantiles.values)[place]


def _spreads(quantiles: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(quantiles[:, 1] / quantiles[:, 0]) / (2 * _Z90)
    return np.where(np.isfinite(found) & (found >= 0), found, _USUAL_SPREAD)


def recorded_times(rows: Sequence[Row]) -> TaskTimes:
    """Return what tasks took when they were run."""
    missing = [row.label for row in rows if row.time_s is None and not row.is_wait]
    if missing:
        raise UsageError(
            f"nothing tells how long '{missing[0]}' takes; give a model that was fitted on a trace",
            option=Option("model"),
        )
    value = np.array([row.time_s or 0.0 for row in rows])
    return TaskTimes(value, np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int64))


def measure_overhead(n_tasks: int = N_EMPTY) -> Overhead:
    """Measure what the runtime itself takes to submit a task and to run it, with empty ones.

    It is CPU time, so that what else the machine does is not taken for overhead.
    """
    from foretell.tasks.declare import task
    from foretell.tasks.graph import Graph
    from foretell.tasks.running.opening import planning

    @task(writes="key")
    def empty(key: str) -> None: ...

    @task()
    def hold(gate: threading.Event) -> None:
        gate.wait()

    keys = [f"key {k}" for k in range(50)]
    submit_s = run_s = build_s = math.inf
    for _ in range(_N_ROUNDS):
        gate = threading.Event()
        with Graph(workers=1, policy="breadth", max_open=n_tasks + 1) as graph:
            try:
                hold(gate)
                started = time.thread_time()
                for k in range(n_tasks):
                    empty(keys[k % len(keys)])
                submit_s = min(submit_s, (time.thread_time() - started) / n_tasks)
                started = time.process_time()  # it is another thread that runs them
            finally:
                gate.set()
            graph.wait()
            run_s = min(run_s, (time.process_time() - started) / n_tasks)
        with planning(), Graph():
            started = time.thread_time()
            for k in range(n_tasks):
                empty(keys[k % len(keys)])
            build_s = min(build_s, (time.thread_time() - started) / n_tasks)
    wake_s = min(_wake() for _ in range(_N_ROUNDS))
    return Overhead(submit_s, run_s, wake_s=wake_s, build_s=build_s)


def _wake(n_times: int = 200) -> float:
    """Measure how long a thread takes to go on that another has woken, in seconds."""
    there, back = threading.Semaphore(0), threading.Semaphore(0)

    def answer() -> None:
        for _ in range(n_times):
            there.acquire()
            back.release()

    thread = threading.Thread(target=answer, daemon=True)  # Ctrl-C leaves it waiting
    thread.start()
    started = time.perf_counter()
    for _ in range(n_times):
        there.release()
        back.acquire()
    took = time.perf_counter() - started
    thread.join()
    return took / (2 * n_times)
