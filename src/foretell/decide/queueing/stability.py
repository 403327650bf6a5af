"""Whether a queue has an end: load below 1, and repeated jobs that get through."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from foretell.decide.queueing.disciplines import DISCIPLINES, Discipline
from foretell.decide.queueing.marked.disciplines import MARKED
from foretell.decide.queueing.service._base import Reals
from foretell.decide.queueing.streams import Stream, total_rate
from foretell.errors import UsageError
from foretell.wording import number

_N_HALVINGS = 40


class OverloadError(UsageError):
    """Jobs arrive faster than the engine can finish them, so that no response time exists."""


def stable_discipline(
    name: str, streams: Sequence[Stream], matrices: Sequence[Reals] = ()
) -> Discipline:
    """Return the discipline with these classes; refuse a queue that grows without limit.

    Parameters
    ----------
    matrices
        Those of the arrivals, if they are not Poisson; for the disciplines in `MARKED`.
    """
    found = MARKED[name](streams, matrices) if matrices else DISCIPLINES.get(name)(streams)
    for k, stream in enumerate(streams):
        if not found.gross_s(k) > 0:
            raise UsageError(
                f"with the discipline {name}, the time that the engine works for a job of "
                f"{stream.name} must be more than 0, and was computed as {found.gross_s(k):g} s",
                remedy=("use another discipline, or simulate the queue",),
            )
        if math.isinf(found.gross_s(k)) and math.isfinite(stream.service.decay_rate):
            raise _diverging(found, k, name)
    if found.load >= 1:
        raise _overloaded(found, name, largest_factor(name, streams))
    return found


def check_work(name: str, streams: Sequence[Stream]) -> None:
    """Refuse a queue that would grow without limit even if no work were thrown away.

    Nothing is known of redraw: short draws get through, so that jobs may take less than their mean.
    Making way does not count either, as a burst interrupts once.
    """
    if name == "redraw":
        return
    found = DISCIPLINES.get("resume")([replace(s, evict_s=0.0) for s in streams])
    if found.load >= 1:
        raise _overloaded(found, name, 1 / found.load)


def _overloaded(found: Discipline, name: str, factor: float) -> OverloadError:
    streams = found.streams
    loads = [
        f"{s.name} {number(s.rate_per_s * found.gross_s(k), 3)}" for k, s in enumerate(streams)
    ]
    rates = ", ".join(f"{s.name} {rate_text(factor * s.rate_per_s)}" for s in streams)
    total = number(found.load, 3) if math.isfinite(found.load) else "beyond all bounds"
    return OverloadError(
        f"with the discipline {name}, the load of {' and '.join(loads)} is {total} in sum, and a "
        "queue with a load of 1 or more grows without limit; the largest stable rates are "
        f"{100 * factor:.3g} % of these: {rates}",
        remedy=("lower rates, drop tasks, or sprint",),
    )


def _diverging(found: Discipline, k: int, name: str) -> OverloadError:
    own, above = found.streams[k], found.above(k)
    most = own.service.decay_rate
    names = " and ".join(stream.name for stream in above)
    return OverloadError(
        f"with the discipline {name}, repeating diverges: jobs of {names} interrupt those of "
        f"{own.name} {rate_text(total_rate(above))}, and the longest of these get through only "
        f"below {rate_text(most)}; lower the rate of {names}, or use another discipline"
    )


def largest_factor(name: str, streams: Sequence[Stream]) -> float:
    """Return by how much all rates can be multiplied before the load is 1."""
    kind = DISCIPLINES.get(name)
    low, high = 0.0, 1 / max(1e-300, sum(stream.load for stream in streams))
    for _ in range(_N_HALVINGS):
        middle = (low + high) / 2
        scaled = [replace(s, rate_per_s=middle * s.rate_per_s) for s in streams]
        low, high = (middle, high) if kind(scaled).load < 1 else (low, middle)
    return low


def rate_text(per_s: float) -> str:
    """Write a rate in the unit that gives a handy number.

    >>> rate_text(2.0), rate_text(0.005), rate_text(0.0001)
    ('2 per s', '0.3 per min', '0.36 per h')
    """
    for factor, unit in ((1, "s"), (60, "min")):
        if per_s * factor >= 0.1:
            return f"{number(per_s * factor, 3)} per {unit}"
    return f"{number(per_s * 3600, 3)} per h"
