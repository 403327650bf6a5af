"""Errors and intervals of automatic mode on made-up tables whose truth is known everywhere.

    python -m benchmarks.known_truth [--families a,b] [--kinds a,b] [--seeds 0:3] [--jobs N]

Errors are relative to the truth without noise. An interval is for one run, so it is judged by a
noisy one. The tables come from `benchmarks/synthetic.py`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

import foretell
from benchmarks.synthetic import DISTANCES, FAMILIES, KINDS, TARGET, draw_task

LEVEL = 0.9


@dataclass(frozen=True)
class Row:
    """One predicted row of one task."""

    task: str
    family: str
    kind: str
    distance: float
    error: float
    is_held: bool
    width: float


def judge(name: tuple[str, str, int]) -> list[Row]:
    """Fit one task and compare every predicted row with the truth; nothing where there is none."""
    task = draw_task(*name)
    if task is None:
        return []
    model = foretell.fit_model(task.train, target=TARGET).best
    found = model.forecast(task.test.drop(columns=TARGET), LEVEL)
    run_s = task.test[TARGET].to_numpy()
    error = np.abs(found.value / task.truth - 1)
    is_held = (found.lower <= run_s) & (run_s <= found.upper)
    nearest = np.array(DISTANCES)[
        np.abs(np.log(task.distance[:, None] / np.array(DISTANCES))).argmin(axis=1)
    ]
    distance = np.where(task.distance > 1 + 1e-9, nearest, 1.0)
    parts = zip(distance, error, is_held, found.upper / found.lower, strict=True)
    return [
        Row(task.name, task.family, task.kind, float(d), float(e), bool(h), float(w))
        for d, e, h, w in parts
    ]


def main() -> None:
    """Judge all tasks asked for, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seeds", default="0:3", help="the first, and one more than the last")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()
    first, end = (int(part) for part in given.seeds.split(":"))
    names = [
        (family, kind, seed)
        for family in given.families.split(",")
        for kind in given.kinds.split(",")
        for seed in range(first, end)
    ]
    rows: list[Row] = []
    with ProcessPoolExecutor(given.jobs) as pool:
        for found in pool.map(judge, names):
            rows += found
            if found:
                _print_line(found[0].task, found)
    print()
    _print_groups("family", rows, lambda row: row.family)
    _print_groups("kind", rows, lambda row: row.kind)
    _print_groups("distance", rows, lambda row: f"{row.kind}, {row.distance:g}×")


def _print_groups(title: str, rows: Sequence[Row], of: Callable[[Row], str]) -> None:
    print(f"{'by ' + title:28s} {'tasks':>6s} {'error':>8s} {'held':>6s} {'width':>8s}")
    for name in dict.fromkeys(of(row) for row in rows):
        _print_line(name, [row for row in rows if of(row) == name])
    _print_line("all", rows)


def _print_line(name: str, rows: Sequence[Row]) -> None:
    """Print the geometric mean of the tasks' errors, and the share of rows held in a mean task."""
    tasks = {row.task: [r for r in rows if r.task == row.task] for row in rows}
    errors = [max(1e-3, float(np.mean([r.error for r in own]))) for own in tasks.values()]
    held = [np.mean([r.is_held for r in own]) for own in tasks.values()]
    width = np.median([row.width for row in rows])
    print(
        f"{name:28s} {len(tasks):6d} {100 * np.exp(np.mean(np.log(errors))):6.2f} % "
        f"{np.mean(held):6.2f} {width:7.2f}×",
        flush=True,
    )


if __name__ == "__main__":
    main()
