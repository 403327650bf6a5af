"""The first lease: how many CPUs each trial of a search should begin with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from foretell.tune.ray.allocate import known_epochs, known_ratio
from foretell.tune.store import Store, open_store


def first_lease(
    store: str | Path | Store | None = None, job: str = "ray", *, cpus: Sequence[int] = (1, 2)
) -> int:
    """Return the number of CPUs per trial with which a search that fills its pool ends soonest.

    That is the lease with the fewest core-seconds per epoch. Where nothing is known, it is the
    smallest: no training becomes more than twice as fast on twice the cores.

    >>> first_lease(":memory:", cpus=(1, 2, 4))
    1
    """
    rows, process = known_epochs(open_store(store), job, tuple(cpus))
    first = min(cpus)
    costs = {first: float(first)}
    hypers = {repr(sorted(row.hyper.items())): row.hyper for row in rows}
    for c in sorted(set(cpus) - {first}):
        known = [known_ratio(process, hyper, c, first) for hyper in hypers.values()]
        logs = [math.log(ratio) for ratio in known if ratio is not None]
        if logs:
            costs[c] = c * math.exp(sum(logs) / len(logs))
    return min(costs, key=lambda c: (costs[c], c))
