"""Runs that span the ranges of columns and of their products, such as nodes × memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Run = dict[str, Any]

#: With more numbers, their products are not spanned.
_MOST_MULTIPLIED = 6
_TOLERANCE = 1e-9


def spread_runs(possible: Sequence[Mapping[str, Any]]) -> list[Run]:
    """Choose runs that together have both ends of each number and of each product of two numbers.

    They also have each level of each category. The first is the smallest. There are as many as
    changing one column at a time takes: one more than there are columns, and one more for each
    further level. If these are too few to have all ends, there are up to twice as many.

    >>> spread_runs([{"nodes": n, "cores": c} for n in (1, 2, 4) for c in (2, 8)])
    [{'nodes': 1, 'cores': 2}, {'nodes': 4, 'cores': 8}, {'nodes': 1, 'cores': 8}]
    """
    rows = list({tuple(run.values()): dict(run) for run in possible}.values())
    if not rows:
        return []
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns = {name: values for name, values in columns.items() if len(set(values)) > 1}
    numbers = {name: values for name, values in columns.items() if not are_levels(values)}
    levels = [_indicators(columns[name]) for name in columns if name not in numbers]
    axes = [_scaled(values) for values in numbers.values()] + _totals(numbers)
    ends = [np.column_stack([axis < _TOLERANCE, axis > 1 - _TOLERANCE]) for axis in axes]
    marks = np.column_stack([np.zeros((len(rows), 0), dtype=bool), *ends, *levels])
    places = np.column_stack([np.zeros((len(rows), 1)), *axes, *levels])
    n_runs = _n_needed(columns)
    size = np.sum([np.zeros(len(rows)), *axes], axis=0)
    chosen = [int(size.argmin())]
    is_left = np.ones(len(rows), dtype=bool)
    nearest = np.full(len(rows), np.inf)
    while True:
        is_left[chosen[-1]] = False
        is_open = ~marks[chosen].any(axis=0)
        if not is_left.any() or len(chosen) >= n_runs * (2 if is_open.any() else 1):
            break
        nearest = np.minimum(nearest, np.abs(places - places[chosen[-1]]).sum(axis=1))
        n_new = marks[:, is_open].sum(axis=1)
        chosen.append(int(np.lexsort((-nearest, -n_new, ~is_left))[0]))
    return [rows[row] for row in chosen]


def are_levels(listed: Sequence[Any]) -> bool:
    """Say whether values are levels of a category."""
    return any(isinstance(v, str | bool) for v in listed)


def _n_needed(columns: Mapping[str, Sequence[Any]]) -> int:
    """Count the runs that change one column at a time; a column that follows from others is none.

    For example, the memory of a machine follows from its family and its cores.
    """
    left = dict(columns)
    for name in columns:
        others = [values for other, values in left.items() if other != name]
        rest = set(zip(*others, strict=True))
        if not are_levels(columns[name]) and len(rest) == len(
            set(zip(*left.values(), strict=True))
        ):
            del left[name]
    return 1 + sum(len(set(v)) - 1 if are_levels(v) else 1 for v in left.values())


def _indicators(values: Sequence[Any]) -> NDArray[np.bool_]:
    levels = list(dict.fromkeys(values))
    return np.array([[value == level for level in levels] for value in values])


def _scaled(values: Sequence[float]) -> Array:
    """Return values between 0 and 1, by their logs if all are positive."""
    numbers = np.asarray(values, dtype=np.float64)
    numbers = np.log(numbers) if numbers.min() > 0 else numbers
    scaled: Array = (numbers - numbers.min()) / (np.ptp(numbers) or 1.0)
    return scaled


def _totals(numbers: Mapping[str, Sequence[float]]) -> list[Array]:
    """Return the products of two positive columns, unless they are the same everywhere."""
    positive = [np.asarray(v, dtype=np.float64) for v in numbers.values() if min(v) > 0]
    if len(positive) > _MOST_MULTIPLIED:
        return []
    products = [one * other for one, other in combinations(positive, 2)]
    return [_scaled(p.tolist()) for p in products if np.ptp(p) > _TOLERANCE * p.max()]
