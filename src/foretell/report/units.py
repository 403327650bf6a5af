"""Units, taken from the names of columns: ``time_s`` is in seconds."""

from __future__ import annotations

#: How a name ends, and the unit that it stands for.
UNITS = {
    "ns": "ns", "us": "µs", "ms": "ms", "s": "s", "min": "min", "h": "h",
    "bytes": "bytes", "kb": "kB", "mb": "MB", "gb": "GB", "tb": "TB",
    "kib": "KiB", "mib": "MiB", "gib": "GiB", "tib": "TiB",
    "j": "J", "kj": "kJ", "mj": "MJ", "wh": "Wh", "kwh": "kWh",
    "w": "W", "kw": "kW", "hz": "Hz", "mhz": "MHz", "ghz": "GHz",
    "usd": "USD", "eur": "EUR", "pct": "%", "percent": "%", "c": "°C",
    "flops": "operations", "px": "px", "g": "g", "kg": "kg",
}  # fmt: skip


def unit_of(name: str) -> str:
    """Return the unit that a name ends with; empty when it ends with none.

    >>> unit_of("wall_time_s"), unit_of("size_mib"), unit_of("threads"), unit_of("flops")
    ('s', 'MiB', '', '')
    """
    stem, _, end = name.rpartition("_")
    return UNITS.get(end.lower(), "") if stem else ""


def with_unit(value: str, name: str) -> str:
    """Write a value of a column with its unit, if there is one."""
    unit = unit_of(name)
    return f"{value} {unit}" if unit else value
