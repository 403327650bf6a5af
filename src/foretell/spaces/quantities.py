"""Quantities and their units: read from names of columns and from texts, written for people."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from foretell.errors import UsageError

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0,
            "min": 60.0, "minutes": 60.0, "h": 3600.0, "hours": 3600.0, "d": 86400.0}  # fmt: skip
_JOULES = {"kj": 1e3, "j": 1.0, "joules": 1.0, "wh": 3600.0, "kwh": 3.6e6}
_BYTES = {"b": 1.0, "bytes": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
          "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40}  # fmt: skip
_GRAMS = {"g": 1.0, "kg": 1e3, "t": 1e6}
_WATTS = {"w": 1.0, "kw": 1e3}
#: Units in which a capital first letter means another size; the others may be written either way.
_BY_CASE = {
    "mJ": 1e-3, "MJ": 1e6, "GJ": 1e9, "mWh": 3.6, "MWh": 3.6e9, "mW": 1e-3, "MW": 1e6,
}  # fmt: skip

_MOST_SHOWN = 1e5  # of a unit, with all digits

TIME, COST, ENERGY, CARBON, MEMORY, POWER = (
    "time", "cost", "energy", "carbon", "memory", "power"
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """One kind of quantity.

    Attributes
    ----------
    units
        What can be written behind a number, and how many of the base unit one is.
    example
        What people may write.
    by_case
        Units that mean another size in capitals.
    """

    name: str
    units: Mapping[str, float]
    example: str
    by_case: Mapping[str, float] = field(default_factory=dict)


KINDS = {
    TIME: Kind(TIME, {**_SECONDS, "m": 60.0}, "90s, 30m, 1h30m or 2d"),
    COST: Kind(COST, {}, "20 or 0.5"),
    ENERGY: Kind(ENERGY, _JOULES, "500kJ or 1.5kWh", _BY_CASE),
    CARBON: Kind(CARBON, _GRAMS, "200g or 1.5kg"),
    MEMORY: Kind(MEMORY, _BYTES, "512MiB or 16GB"),
    POWER: Kind(POWER, _WATTS, "250W or 4kW", _BY_CASE),
}
#: Ends of column names that are units, and the quantity that each measures.
_OF_NAMES = {
    unit: (kind, factor)
    for kind, units in ((TIME, _SECONDS), (ENERGY, _JOULES), (MEMORY, _BYTES))
    for unit, factor in units.items()
    if unit not in {"d", "b"}  # too short to be sure
}
#: Words that mean a time even without a unit; then it is in seconds.
_TIMES = ("time", "duration", "runtime", "makespan", "latency", "elapsed", "seconds")
#: Units that often mean something else in a name: a minimum, or node hours.
_UNSURE = ("min", "h")
#: Words that mean a rate, of which more is better.
_RATES = ("per", "rate", "throughput", "speed", "bandwidth", "frequency", "flops", "iops")
_PART = re.compile(r"\s*([0-9]+(?:[._][0-9]+)*(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?)\s*([a-zµ]*)", re.I)


def quantity_of_name(name: str) -> tuple[str, float] | None:
    """Return the kind of quantity that a column has by its name, and the size of its unit.

    >>> quantity_of_name("wall_time_s"), quantity_of_name("energy_kj")
    (('time', 1.0), ('energy', 1000.0))
    >>> quantity_of_name("nodes") is None
    True
    """
    words = [word for word in re.split(r"[^a-zµ0-9]+", name.lower()) if word]
    if "/" in name or any(word in _RATES for word in words):
        return None
    is_time = any(word in _TIMES for word in words)
    if len(words) > 1 and words[-1] in _OF_NAMES:
        if words[-2] in _OF_NAMES or (words[-1] in _UNSURE and not is_time):
            return None  # megabytes per second; the minimum of something
        return _OF_NAMES[words[-1]]
    if words and words[-1] in _TIMES:
        return TIME, 1.0
    return None


def read_quantity(text: str | float, kind: str) -> float:
    """Return a quantity in its base unit.

    >>> read_quantity("1h30m", TIME), read_quantity("1.5 kWh", ENERGY), read_quantity(20, COST)
    (5400.0, 5400000.0, 20.0)
    """
    of = KINDS[kind]
    value = _sum_of_parts(text, of) if isinstance(text, str) else float(text)
    if not (math.isfinite(value) and value > 0):
        raise UsageError(
            f"'{text}' cannot be used as {kind}: it must be more than 0; write {of.example}"
        )
    return value


def read_latency(text: str | float) -> float:
    """Return a short time in seconds; a text needs a unit, as 20 may mean seconds or milliseconds.

    >>> read_latency("20ms"), read_latency(0.02)
    (0.02, 0.02)
    """
    try:
        float(text)
    except ValueError:
        return read_quantity(text, TIME)
    if isinstance(text, str):
        number = text.strip()
        raise UsageError(f"'{number}' has no unit; write {number}ms or {number}s")
    return read_quantity(text, TIME)


def _sum_of_parts(text: str, kind: Kind) -> float:
    rest = text.strip().lstrip("$€£").rstrip("$€£") if kind.name == COST else text.strip()
    total, place = 0.0, 0
    while place < len(rest):
        found = _PART.match(rest, place)
        if found is None:
            raise _unreadable(text, kind)
        number, unit = found[1], found[2].lower()
        is_alone = place == 0 and found.end() == len(rest)
        size = kind.units.get(unit, kind.by_case.get(found[2], 1.0))
        is_unit = unit in kind.units or found[2] in kind.by_case
        if not is_unit and not (unit == "" and is_alone):
            wrong = f"'{found[2]}' is not a unit of it" if unit else f"{number} has no unit"
            raise _unreadable(text, kind, f": {wrong}")
        try:
            total += float(number) * size
        except ValueError:
            raise _unreadable(text, kind) from None
        place = found.end()
    if place == 0:
        raise _unreadable(text, kind)
    return total


def _unreadable(text: str, kind: Kind, why: str = "") -> UsageError:
    return UsageError(f"'{text}' cannot be read as {kind.name}{why}; write {kind.example}")


def write_quantity(value: float, kind: str, currency: str = "") -> str:
    """Write a quantity for people.

    >>> write_quantity(5400.0, TIME), write_quantity(7.2e6, ENERGY), write_quantity(0.3, COST, "$")
    ('1 h 30 min', '2 kWh', '0.300 $')
    >>> write_quantity(1.57e6, ENERGY), write_quantity(1020 * 2**20, MEMORY)
    ('1.57 MJ', '1020 MiB')
    """
    if kind == TIME:
        return duration(value)
    if kind == COST:
        places = 0 if value >= 100 else 2 - math.floor(math.log10(value)) if value > 0 else 2
        return f"{value:,.{places}f} {currency}".rstrip()
    steps: Mapping[str, float] = {
        ENERGY: {"kWh": 3.6e6, "MJ": 1e6, "kJ": 1e3, "J": 1.0},
        CARBON: {"t": 1e6, "kg": 1e3, "g": 1.0},
        MEMORY: {"GiB": 2.0**30, "MiB": 2.0**20, "KiB": 2.0**10, "bytes": 1.0},
        POWER: {"kW": 1e3, "W": 1.0},
    }[kind]
    # What would be rounded to 1,000 of a unit is 1 of the next.
    unit = next((name for name, size in steps.items() if value >= 0.9995 * size), list(steps)[-1])
    amount = value / steps[unit]
    return f"{amount:.0f} {unit}" if 999.5 <= amount < _MOST_SHOWN else f"{amount:.3g} {unit}"


def duration(seconds: float) -> str:
    """Write a duration in the two units that matter.

    >>> duration(0.5), duration(75), duration(7300), duration(200000)
    ('0.5 s', '1 min 15 s', '2 h 1 min', '2 d 7 h')
    >>> duration(1e300)
    '1.16e+295 d'
    """
    if seconds >= 86400 * _MOST_SHOWN:
        return f"{seconds / 86400:.3g} d"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
