"""Times of tasks before they run: from models by label, or from a recorded run."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from foretell.errors import Option, UsageError, listing
from foretell.predictor import TRUST_INSIDE, Predictor
from foretell.tasks.trace import KNOWN, Row
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


def modelled_times(rows: Sequence[Row], models: Models, workers: int) -> TaskTimes:
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
            "be as fast as with these."
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


def measure_overhead(n_tasks: int = N_EMPTY) -> float:
    """Return what the runtime itself takes for a task: measured with empty ones, in seconds."""
    from foretell.tasks.declare import task
    from foretell.tasks.graph import Graph

    @task(writes="key")
    def empty(key: str) -> None: ...

    keys = [f"key {k}" for k in range(50)]
    best = math.inf
    for _ in range(_N_ROUNDS):
        with Graph(workers=1, policy="breadth") as graph:
            started = time.perf_counter()
            for k in range(n_tasks):
                empty(keys[k % len(keys)])
            graph.wait()
            best = min(best, (time.perf_counter() - started) / n_tasks)
    return best
