"""Jobs of several classes that arrive: at random, in bursts of a Markov process, or as recorded."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import Dataset, as_numbers, describe_rows, read_with_text
from foretell.decide.queueing.queue_file import long_run
from foretell.errors import DatasetError, suggest

Array = NDArray[np.float64]
CLASS, ARRIVAL, SERVICE = "class", "arrival_s", "service_s"


@dataclass(frozen=True, eq=False)
class JobArrivals:
    """When each job arrives, its class, and how long it takes, where that was recorded."""

    at_s: Array
    class_of: NDArray[np.int64]
    service_s: Array | None = None

    def draw(self, random: np.random.Generator, n_jobs: int) -> JobArrivals:
        """Return the first jobs; nothing is drawn."""
        service_s = None if self.service_s is None else self.service_s[:n_jobs]
        return JobArrivals(self.at_s[:n_jobs], self.class_of[:n_jobs], service_s)


@dataclass(frozen=True)
class PoissonArrivals:
    """Jobs that come independently of one another, so many per second of each class."""

    rates_per_s: tuple[float, ...]

    def draw(self, random: np.random.Generator, n_jobs: int) -> JobArrivals:
        """Draw jobs."""
        rates = np.asarray(self.rates_per_s)
        total = rates.sum()
        at_s = np.cumsum(random.exponential(1 / total, n_jobs))
        return JobArrivals(at_s, random.choice(len(rates), n_jobs, p=rates / total))


@dataclass(frozen=True, eq=False)
class MarkedArrivals:
    """Jobs of a marked Markovian arrival process, which has bursts, and classes that follow others.

    Attributes
    ----------
    matrices
        D0, D1 to DK: the rates of changes between states without a job, and with one of each class.
    """

    matrices: tuple[Array, ...]

    @property
    def rates_per_s(self) -> Array:
        """How many jobs of each class come per second in the long run."""
        return np.array([(self.stationary @ d).sum() for d in self.matrices[1:]])

    @property
    def stationary(self) -> Array:
        """How likely each state is in the long run."""
        return long_run(self.matrices)

    def draw(self, random: np.random.Generator, n_jobs: int) -> JobArrivals:
        """Draw jobs, beginning in a state of the long run."""
        silent = self.matrices[0] - np.diag(np.diag(self.matrices[0]))
        rates = np.concatenate([silent, *self.matrices[1:]], axis=1)
        leave = rates.sum(axis=1)
        states, moves = self._walk(np.cumsum(rates / leave[:, None], axis=1), random, n_jobs)
        at_s = np.cumsum(random.exponential(1.0, len(states)) / leave[states])
        marks = np.array(moves) // len(leave)
        return JobArrivals(at_s[marks > 0], marks[marks > 0] - 1)

    def _walk(
        self, shares: Array, random: np.random.Generator, n_jobs: int
    ) -> tuple[list[int], list[int]]:
        """Return the states passed and the move out of each, until so many jobs have come."""
        n = len(shares)
        start = np.clip(self.stationary, 0, None)
        state = int(random.choice(n, p=start / start.sum()))
        steps = [row[:-1] for row in shares.tolist()]  # the last one is sure
        states: list[int] = []
        moves: list[int] = []
        n_found = 0
        while n_found < n_jobs:
            for drawn in random.random(2 * n_jobs).tolist():
                move = bisect_right(steps[state], drawn)
                states.append(state)
                moves.append(move)
                state = move % n
                n_found += move >= n
                if n_found == n_jobs:
                    break
        return states, moves


Arrivals = PoissonArrivals | MarkedArrivals | JobArrivals


def read_jobs(source: str | Path | pd.DataFrame | Dataset, names: Sequence[str]) -> JobArrivals:
    """Read recorded jobs: columns ``class``, ``arrival_s`` and, if known, ``service_s``.

    ``names`` are the classes, the lowest priority first.
    """
    dataset = read_with_text(source, lambda _: {CLASS})
    dataset.require([CLASS, ARRIVAL])
    classes = dataset.frame[CLASS].astype(str).to_numpy()
    for name in dict.fromkeys(classes):
        if name not in names:
            rows = describe_rows(classes == name, dataset.row_numbers, f"class '{name}'")
            raise DatasetError(
                f"{dataset.name}, column '{CLASS}' has {rows}, which is not in the class file. "
                f"{suggest(name, names)}"
            )
    at_s = _seconds(dataset, ARRIVAL)
    order = np.argsort(at_s, kind="stable")
    place = {name: i for i, name in enumerate(names)}
    class_of = np.array([place[name] for name in classes], dtype=np.int64)
    service_s = _seconds(dataset, SERVICE) if SERVICE in dataset.columns else None
    return JobArrivals(
        at_s[order], class_of[order], None if service_s is None else service_s[order]
    )


def _seconds(dataset: Dataset, column: str) -> Array:
    values: Array = as_numbers(dataset.frame[column])
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        told = describe_rows(wrong, dataset.row_numbers, "value that is no time")
        raise DatasetError(
            f"{dataset.name}, column '{column}' has {told}; write seconds from 0 on, such as 12.5."
        )
    return values
