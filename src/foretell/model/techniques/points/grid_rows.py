"""Rows that combine few values, as those of a plan do: halves of them that are worked out once.

What a product over all axes sums up to, for every combination of two halves of the axes, is one
product of matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Axes = tuple[int, ...]
Array = NDArray[np.float64]
#: One row for each choice: whether each part is in it.
Choices = NDArray[np.bool_]

#: Of more parts there are too many halves to look at.
_MOST_PARTS = 12
#: Halves must save so much of the work, or they are not worth finding.
_LEAST_SAVED = 4
#: A product of matrices does as much in the time of one step elsewhere.
_PRODUCTS_PER_STEP = 10


class Half(NamedTuple):
    """Some axes, a row that shows each combination of their values, and which one each row has."""

    axes: Axes
    example: NDArray[np.int64]
    of_row: NDArray[np.int64]


def bound_axes(columns: Sequence[set[int]]) -> list[Axes]:
    """Group axes that share a column, such as a column itself and a product with it.

    >>> bound_axes([{0}, {1}, {2}, {0, 2}])
    [(0, 2, 3), (1,)]
    """
    parts: list[tuple[set[int], list[int]]] = []
    for axis, own in enumerate(columns):
        met = [part for part in parts if part[0] & own]
        joined = (
            set(own).union(*(c for c, _ in met)),
            sorted([axis, *(a for _, m in met for a in m)]),
        )
        parts = [*(part for part in parts if part not in met), joined]
    return sorted(tuple(axes) for _, axes in parts)


def split_rows(
    table: Sequence[NDArray[Any]], parts: Sequence[Axes], most: float
) -> tuple[Half, Half] | None:
    """Split the axes so that each half has few combinations; None where rows are on no grid.

    Parameters
    ----------
    parts
        Axes that must stay together.
    most
        The steps that all rows take otherwise.
    """
    if not 2 <= len(parts) <= _MOST_PARTS:
        return None  # before the work of looking at values
    n_rows = len(table[0])
    codes = [_numbered([table[axis] for axis in part]) for part in parts]
    counts = [int(code.max()) + 1 for code in codes]
    found = cheapest_halves(
        [len(part) for part in parts],
        lambda choices: np.minimum(n_rows, np.where(choices, counts, 1.0).prod(axis=1)),
        most / _LEAST_SAVED,
    )
    if found is None:
        return None
    halves = []
    for half in found[0]:
        code = combined([codes[k] for k in half])
        _, example, of_row = np.unique(code, return_index=True, return_inverse=True)
        halves.append(Half(tuple(axis for k in half for axis in parts[k]), example, of_row))
    return halves[0], halves[1]


def cheapest_halves(
    sizes: Sequence[int], count: Callable[[Choices], Array], most: float
) -> tuple[tuple[Axes, Axes], float] | None:
    """Find the two halves of some parts that take the fewest steps, and how many these are.

    None if all take too many.

    ``count``: returns the number of combinations of the values of the parts in each choice.
    """
    if not 2 <= len(sizes) <= _MOST_PARTS:
        return None
    first = _halves(len(sizes))
    n_first, n_second = count(first), count(~first)
    steps = n_first * (first @ np.array(sizes)) + n_second * (~first @ np.array(sizes))
    costs = steps + n_first * n_second / _PRODUCTS_PER_STEP
    best = int(np.argmin(costs))
    if not costs[best] < most:
        return None
    one, other = (tuple(np.flatnonzero(half).tolist()) for half in (first[best], ~first[best]))
    return (one, other), float(costs[best])


@lru_cache
def _halves(n_parts: int) -> Choices:
    """List the choices of up to half of some parts, small ones first."""
    chosen = [
        half for size in range(1, n_parts // 2 + 1) for half in combinations(range(n_parts), size)
    ]
    table = np.zeros((len(chosen), n_parts), dtype=bool)
    for row, half in zip(table, chosen, strict=True):
        row[list(half)] = True
    return table


def n_occurring(table: NDArray[np.int64], choices: Choices) -> Array:
    """Count the combinations of values that occur in the columns of each choice.

    ``table``: whole numbers from 0. One choice after the other would take longer.
    """
    sizes = np.where(choices, table.max(axis=0) + 1, 1)
    sizes[:, 1:] = np.cumprod(sizes[:, :-1], axis=1)
    sizes[:, 0] = 1
    codes = np.where(choices, sizes, 0) @ table.T
    codes.sort(axis=1)
    counts: Array = 1.0 + np.count_nonzero(codes[:, 1:] != codes[:, :-1], axis=1)
    return counts


def _numbered(columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Number the combinations that occur, from 0."""
    codes = [np.unique(column, return_inverse=True)[1] for column in columns]
    return codes[0] if len(codes) == 1 else np.unique(combined(codes), return_inverse=True)[1]


def combined(codes: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Number all combinations of codes, which are renumbered where numbers would overflow."""
    total = codes[0]
    for code in codes[1:]:
        size = int(code.max()) + 1
        if (int(total.max()) + 1) * size > 2**62:
            total = np.unique(total, return_inverse=True)[1]
        total = total * size + code
    return total
