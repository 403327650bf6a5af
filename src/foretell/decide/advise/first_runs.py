"""The first runs, before there is a model: small jobs on settings that differ a lot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice, product
from typing import Any

from foretell.decide.advise.spread import Run, are_levels, spread_runs

#: The number of first runs, at least.
FEWEST = 3
_MOST = 10_000


def first_runs(
    values: Mapping[str, Sequence[Any]],
    given: Mapping[str, Any],
    possible: Sequence[Mapping[str, Any]] | None = None,
) -> list[Run]:
    """List a few runs in which each column changes, small jobs first.

    Settings that can be chosen span their ranges, and those of their products: an optimum may need
    a total, such as the memory of all nodes. They are few, because advice chooses better ones as
    soon as there is a model. The job is as small as can be, and each of its columns is changed
    once. A time is often a product of the effects of columns, so the effect of a setting on a small
    job says much about a large one.

    Parameters
    ----------
    values
        What can be measured, by column.
    given
        The values of the job to plan for: these numbers are tried, and no larger ones; of a
        category, only this level.
    possible
        All runs that can be made; by default all combinations of the values.

    >>> first_runs({"size": [1, 2, 4], "threads": [1, 2]}, {"size": 2})
    [{'size': 1, 'threads': 1}, {'size': 1, 'threads': 2}, {'size': 2, 'threads': 1}]
    """
    axes = {name: _levels(listed, given.get(name)) for name, listed in values.items()}
    base = {name: levels[0] for name, levels in axes.items()}
    job = {name: base[name] for name in values if name in given}
    if possible is None:
        possible = small_runs(values, given)
    runs = spread_runs([run for run in possible if job.items() <= run.items()]) or [base]
    base = runs[0]
    for name, levels in axes.items():  # of the job, or of more settings than can be listed
        tried = {run[name] for run in runs}
        if len(tried) == 1 or are_levels(levels):
            runs += [{**base, name: level} for level in levels if level not in tried]
    others = [{**base, name: _middle(listed)} for name, listed in values.items()]
    for run in others:
        if len(runs) < FEWEST and run not in runs:
            runs.append(run)
    return sorted(runs, key=lambda run: job_size(run, given))


def job_size(run: Mapping[str, Any], given: Mapping[str, Any]) -> float:
    """Guess how large a job is: in proportion to each number that is given for it.

    >>> job_size({"size": 4, "epochs": 3, "threads": 2}, {"size": 16, "epochs": 10, "kind": "x"})
    12.0
    """
    numbers = [run[name] for name in given if name in run and not are_levels([run[name]])]
    return math.prod((float(number) for number in numbers if number > 0), start=1.0)


def small_runs(values: Mapping[str, Sequence[Any]], given: Mapping[str, Any]) -> list[Run]:
    """List all runs up to the size of the given job, those with the smallest values first.

    If there are very many, some values between the ends of columns are left out.
    """
    axes = {name: _up_to(listed, given.get(name)) for name, listed in values.items()}
    while math.prod(map(len, axes.values())) > _MOST and max(map(len, axes.values())) > 2:
        longest = max(axes, key=lambda name: len(axes[name]))
        *inner, last = axes[longest]
        axes[longest] = [*inner[::2], last]
    places = islice(product(*(range(len(axis)) for axis in axes.values())), _MOST)
    return [
        {name: axis[i] for (name, axis), i in zip(axes.items(), place, strict=True)}
        for place in sorted(places, key=sum)
    ]


def _up_to(listed: Sequence[Any], given: Any) -> list[Any]:
    if are_levels(listed):
        return _levels(listed, given)
    return sorted({v for v in listed if given is None or v <= given})


def _levels(listed: Sequence[Any], given: Any) -> list[Any]:
    """Return the values of a column to try, the smallest first."""
    if are_levels(listed):
        return list(dict.fromkeys(listed)) if given is None else [given]
    ends = [min(listed), max(listed) if given is None else given]
    return list(dict.fromkeys(ends))


def _middle(listed: Sequence[Any]) -> Any:
    ordered = list(listed) if are_levels(listed) else sorted(listed)
    return ordered[len(ordered) // 2]
