"""Tasks that arrive over time: read from a table, or made up from a few words and a seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from foretell.dataset import Dataset, as_numbers, describe_rows, read_with_text
from foretell.decide.placement.cluster import TraceTable
from foretell.decide.placement.tasks import Task, read_h, read_task
from foretell.errors import DatasetError, ForetellError, UsageError
from foretell.machines import Resources
from foretell.spaces.values import Values, drawn

ARRIVAL = "arrival_s"
_NOT_FEATURES = (ARRIVAL,)


@dataclass(frozen=True)
class Arrival:
    """A task, and when it arrives.

    Attributes
    ----------
    place
        Where it is written: a row of a table. Empty if it was made up.
    """

    at_s: float
    task: Task
    place: str = ""


def made_up(table: TraceTable, seed: int) -> list[Arrival]:
    """Draw tasks as a cluster file describes them; the same seed gives the same tasks."""
    random = np.random.default_rng([seed, 0])
    times = np.sort(_moments(table, random))
    found = []
    for i, at_s in enumerate(times):
        needs = {
            "cpu": _drawn(table.cpu, random, "cpu"),
            "memory": _drawn(table.memory, random, "memory"),
        }
        features = {name: _drawn(values, random, name) for name, values in table.features.items()}
        try:
            H = None if table.H is None else read_h(_drawn(table.H, random, "H"))
            read = Resources.read(needs)
        except UsageError as error:
            raise UsageError(f"trace.{error}") from None
        found.append(Arrival(float(at_s), Task(read, features, H, table.migratable, f"{i + 1}")))
    return found


def _drawn(values: Values, random: np.random.Generator, name: str) -> Any:
    try:
        return drawn(values, float(random.random()))
    except IndexError:
        raise UsageError(f"trace.{name}: must not be empty; write a value or a list") from None


def _moments(table: TraceTable, random: np.random.Generator) -> Any:
    n = table.tasks
    if table.arrivals == "at once":
        return np.zeros(n)
    if table.arrivals == "poisson":
        return np.cumsum(random.exponential(1 / table.rate_per_s, n))
    burst = np.arange(n) * table.bursts // n
    return burst * table.every_s + random.uniform(0, table.within_s, n)


def read_arrivals(source: str | Path | pd.DataFrame | Dataset) -> list[Arrival]:
    """Read tasks from a table: one row each, with ``arrival_s``, needs and features as columns."""
    dataset = read_with_text(source, lambda names: {"cpu", "memory", "gpu", "name"} & {*names})
    dataset.require([ARRIVAL])
    times = as_numbers(dataset.frame[ARRIVAL])
    _check(
        dataset, ~np.isfinite(times), "missing or unreadable value", "write seconds, such as 12.5"
    )
    _check(dataset, times < 0, "negative value", "count seconds from the start")
    _check(
        dataset, np.append(False, np.diff(times) < 0), "value that is earlier than the one above",
        f"sort the rows by {ARRIVAL}",
    )  # fmt: skip
    rows = dataset.frame.drop(columns=list(_NOT_FEATURES)).to_dict("records")
    numbers = dataset.row_numbers
    places = [f"{dataset.name}, row {number}" for number in numbers]
    return [
        Arrival(float(at_s), _task(row, place), place)
        for at_s, row, place in zip(times, rows, places, strict=True)
    ]


def _check(dataset: Dataset, wrong: Any, what: str, remedy: str) -> None:
    if wrong.any():
        told = describe_rows(wrong, dataset.row_numbers, what)
        raise DatasetError(f"{dataset.name}, column '{ARRIVAL}' has {told}; {remedy}.")


def _task(row: Mapping[Any, Any], place: str) -> Task:
    values = {}
    for name, value in row.items():
        is_missing = value is None or (isinstance(value, float) and math.isnan(value))
        if not is_missing:
            values[str(name)] = value.item() if isinstance(value, np.generic) else value
    try:
        return read_task(values)
    except ForetellError as error:
        column = ", column 'H'" if error.option is not None and error.option.name == "H" else ""
        raise DatasetError(f"{place}{column}: {error.text}; correct it.") from None
