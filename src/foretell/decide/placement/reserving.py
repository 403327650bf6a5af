"""Reserving a node for a task that waits long: the one that is predicted to have room first."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from foretell.decide.placement.choose import Chooser
from foretell.decide.placement.fleet import Amounts
from foretell.decide.placement.moves import Running


def first_room(
    chooser: Chooser, need: Amounts, running: Iterable[Running], usable: NDArray[np.bool_]
) -> int | None:
    """Return the node that is predicted to have room for a task first.

    ``usable`` says which nodes could take it at all; those that are reserved are left out.
    """
    fleet = chooser.fleet
    ends: dict[int, list[tuple[float, Amounts]]] = {}
    for other in running:
        time_s = chooser.estimates.of(other.task).time_s[fleet.type_of[other.node]]
        end_s = other.started_s + other.share * (0.0 if math.isnan(time_s) else time_s)
        ends.setdefault(other.node, []).append((end_s, other.need))
    best: tuple[float, int] | None = None
    for node in np.flatnonzero(usable & ~fleet.reserved):
        free = fleet.capacity[:, node] - fleet.used[:, node]
        for end_s, released in sorted(ends.get(int(node), []), key=lambda pair: pair[0]):
            free = free + released
            if (need <= free).all():
                if best is None or end_s < best[0]:
                    best = (end_s, int(node))
                break
    return None if best is None else best[1]
