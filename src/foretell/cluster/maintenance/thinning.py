"""Which completed tasks a refit uses: all that were badly predicted, and a share of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from foretell.cluster.maintenance.completed import CompletedTask


@dataclass(frozen=True)
class Kept:
    """A task that a refit uses, and how many tasks it stands for."""

    task: CompletedTask
    weight: int


def thinned(tasks: Sequence[CompletedTask], threshold: float, keep: float) -> list[Kept]:
    """Thin well predicted tasks to a share for each type and class, and weigh them back.

    Dropping them without weights would leave the tasks that are unlike the others, and the fit
    would follow these. Kept tasks are spread evenly over the times that tasks took, and their
    weights add up to the number of tasks that they stand for. With ``keep`` 0 they are dropped.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    weights = np.ones(len(tasks), dtype=np.int64)
    for i, task in enumerate(tasks):
        if was_accurate(task, threshold):
            groups.setdefault((task.type, task.class_name), []).append(i)
    for members in groups.values():
        weights[members] = 0
        n_kept = min(len(members), round(keep * len(members)) or (1 if keep else 0))
        if not n_kept:
            continue
        by_time = sorted(members, key=lambda i: (tasks[i].time_s, tasks[i].uid))
        for chosen, n in _representatives(len(members), n_kept):
            weights[by_time[chosen]] = n
    return [Kept(task, int(n)) for task, n in zip(tasks, weights, strict=True) if n]


def _representatives(n: int, n_kept: int) -> Iterator[tuple[int, int]]:
    """Choose places in a sorted list, with both ends, and how many are nearest to each."""
    places = np.linspace(0, n - 1, n_kept) if n_kept > 1 else np.array([(n - 1) / 2])
    chosen = np.floor(places + 0.5)
    between = np.ceil((chosen[1:] + chosen[:-1]) / 2)
    counts = np.diff(np.concatenate([[0], between, [n]]))
    yield from ((int(place), int(count)) for place, count in zip(chosen, counts, strict=True))


def was_accurate(task: CompletedTask, threshold: float) -> bool:
    """Whether every error of a task that is known is below the threshold, and one is known."""
    known = [error for error in (task.time_error, task.energy_error) if error == error]
    return bool(known) and all(error < threshold for error in known)
