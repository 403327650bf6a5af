"""Few runs that span the ranges of columns and of their products, such as nodes × memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Run = dict[str, Any]

#: How far apart levels of a category are, in ranges of a number.
_BETWEEN_LEVELS = 0.5
_TOLERANCE = 1e-9


def spread_runs(possible: Sequence[Mapping[str, Any]]) -> list[Run]:
    """Choose the smallest run, the largest, and one in the middle of all.

    The largest has the largest product of all numbers, so that totals are spanned as well.
    More are added until each number has two values and each category has all its levels: those
    that are furthest from the others.

    >>> spread_runs([{"nodes": n, "cores": c} for n in (1, 2, 4) for c in (2, 4, 8)])
    [{'nodes': 1, 'cores': 2}, {'nodes': 4, 'cores': 8}, {'nodes': 2, 'cores': 4}]
    """
    if not possible:
        return []
    rows = list({tuple(run[name] for name in possible[0]): dict(run) for run in possible}.values())
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns = {name: values for name, values in columns.items() if len(set(values)) > 1}
    numbers = [values for values in columns.values() if not are_levels(values)]
    levels = [_indicators(values) for values in columns.values() if are_levels(values)]
    none = np.zeros((len(rows), 0))
    scaled = map(_scaled, numbers)
    places = np.column_stack([none, *scaled, *(_BETWEEN_LEVELS * at for at in levels)])
    product = np.column_stack([none, *map(_logs, numbers)]).sum(axis=1)
    chosen = [int(product.argmin())]
    nearest = _distance(places, chosen[0])
    for most in (product, -((places - places.mean(axis=0)) ** 2).sum(axis=1)):
        ties = np.flatnonzero(most >= most.max() - _TOLERANCE)
        chosen.append(int(ties[nearest[ties].argmax()]))
        nearest = np.minimum(nearest, _distance(places, chosen[-1]))
    while len(missing := _missing(columns, chosen)):
        chosen.append(int(missing[nearest[missing].argmax()]))
        nearest = np.minimum(nearest, _distance(places, chosen[-1]))
    return [rows[row] for row in dict.fromkeys(chosen)]


def are_levels(listed: Sequence[Any]) -> bool:
    """Say whether values are levels of a category."""
    return any(isinstance(v, str | bool) for v in listed)


def _missing(columns: Mapping[str, Sequence[Any]], chosen: Sequence[int]) -> NDArray[np.int64]:
    """Return the rows with a new value of the first column that lacks one; none if all have enough.

    A category lacks each level that no chosen row has; a number lacks a second value.
    """
    for values in columns.values():
        tried = {values[row] for row in chosen}
        if are_levels(values) or len(tried) == 1:
            found = [row for row, value in enumerate(values) if value not in tried]
            if found:
                return np.array(found, dtype=np.int64)
    return np.zeros(0, dtype=np.int64)


def _distance(places: Array, row: int) -> Array:
    """Return how far each row is from one of them."""
    distance: Array = ((places - places[row]) ** 2).sum(axis=1)
    return distance


def _indicators(values: Sequence[Any]) -> Array:
    levels = list(dict.fromkeys(values))
    return np.array([[float(value == level) for level in levels] for value in values])


def _scaled(values: Sequence[float]) -> Array:
    """Return values between 0 and 1, by their logs if all are positive."""
    numbers = np.asarray(values, dtype=np.float64)
    numbers = np.log(numbers) if numbers.min() > 0 else numbers
    scaled: Array = (numbers - numbers.min()) / (np.ptp(numbers) or 1.0)
    return scaled


def _logs(values: Sequence[float]) -> Array:
    """Return the logs of positive values; of others, values between 0 and 1."""
    numbers = np.asarray(values, dtype=np.float64)
    return np.log(numbers) if numbers.min() > 0 else _scaled(values)
