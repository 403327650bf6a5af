"""Reserving a node for a task that waits long: the one that is predicted to have room first."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foretell.decide.placement.choose import Chooser
from foretell.decide.placement.fleet import Amounts, free_of
from foretell.decide.placement.moves import Running


class Room(NamedTuple):
    """A node, and when it is predicted to have room."""

    node: int
    end_s: float


def first_room(
    chooser: Chooser,
    need: Amounts,
    running: Iterable[Running],
    usable: NDArray[np.bool_],
    now_s: float,
) -> Room | None:
    """Return the node that is predicted to have room for a task first; None if none is.

    ``usable`` says which nodes could take it at all; those that are reserved are left out. A task
    without a prediction may run for ever, and one that should have ended by now ends soon.
    """
    fleet = chooser.fleet
    ends: dict[int, list[tuple[float, Amounts]]] = {}
    for other in running:
        time_s = chooser.staying_s(other.task, other.node)
        end_s = max(other.started_s + other.share * time_s, now_s)
        if math.isnan(time_s):
            end_s = math.inf
        ends.setdefault(other.node, []).append((end_s, other.need))
    best: Room | None = None
    for node in np.flatnonzero(usable & ~fleet.reserved):
        free = fleet.capacity[:, node] - fleet.used[:, node]
        for end_s, released in sorted(ends.get(int(node), []), key=lambda pair: pair[0]):
            free = free + released
            if (need <= free_of(free)).all():
                if end_s < (math.inf if best is None else best.end_s):
                    best = Room(int(node), end_s)
                break
    return best
