"""The first runs, before there is a model: small ones that show the effect of each column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice, product
from typing import Any

#: The number of first runs, at least.
FEWEST = 4
_MOST = 10_000


def first_runs(
    values: Mapping[str, Sequence[Any]], given: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """List runs that change one column at a time from the smallest values, small jobs first.

    The run with the smallest values is usually the cheapest. A time is often a product of the
    effects of columns, so the effect of a column on a small job says much about a large one.

    Parameters
    ----------
    values
        What can be measured, by column.
    given
        The values of the job to plan for: these numbers are tried, and no larger ones; of a
        category, only this level.

    >>> first_runs({"size": [1, 2, 4], "threads": [1, 2]}, {"size": 2})
    [{'size': 1, 'threads': 1}, {'size': 1, 'threads': 2}, {'size': 2, 'threads': 1}, \
{'size': 2, 'threads': 2}]
    """
    axes = {name: _levels(listed, given.get(name)) for name, listed in values.items()}
    base = {name: levels[0] for name, levels in axes.items()}
    runs = [base]
    for name, levels in axes.items():
        runs += [{**base, name: level} for level in levels[1:]]
    if len(runs) < FEWEST:
        runs.append({name: levels[-1] for name, levels in axes.items()})
    middles = {name: _middle(listed) for name, listed in values.items()}
    for name, middle in middles.items():
        if len(runs) < FEWEST:
            runs.append({**base, name: middle})
    different = [run for i, run in enumerate(runs) if run not in runs[:i]]
    return sorted(different, key=lambda run: job_size(run, given))


def job_size(run: Mapping[str, Any], given: Mapping[str, Any]) -> float:
    """Guess how large a job is: in proportion to each number that is given for it.

    >>> job_size({"size": 4, "epochs": 3, "threads": 2}, {"size": 16, "epochs": 10, "kind": "x"})
    12.0
    """
    numbers = [run[name] for name in given if name in run and not _are_levels([run[name]])]
    return math.prod((float(number) for number in numbers if number > 0), start=1.0)


def small_runs(
    values: Mapping[str, Sequence[Any]], given: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """List all runs up to the size of the given job, those with the smallest values first."""
    axes = {name: _up_to(listed, given.get(name)) for name, listed in values.items()}
    places = islice(product(*(range(len(axis)) for axis in axes.values())), _MOST)
    return [
        {name: axis[i] for (name, axis), i in zip(axes.items(), place, strict=True)}
        for place in sorted(places, key=sum)
    ]


def _up_to(listed: Sequence[Any], given: Any) -> list[Any]:
    if _are_levels(listed):
        return _levels(listed, given)
    return sorted({v for v in listed if given is None or v <= given})


def _levels(listed: Sequence[Any], given: Any) -> list[Any]:
    """Return the values of a column to try, the smallest first."""
    if _are_levels(listed):
        return list(dict.fromkeys(listed)) if given is None else [given]
    ends = [min(listed), max(listed) if given is None else given]
    return list(dict.fromkeys(ends))


def _are_levels(listed: Sequence[Any]) -> bool:
    return any(isinstance(v, str | bool) for v in listed)


def _middle(listed: Sequence[Any]) -> Any:
    ordered = list(listed) if _are_levels(listed) else sorted(listed)
    return ordered[len(ordered) // 2]
