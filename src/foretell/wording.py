"""How names, numbers, shares and units are written for people, in text and in reports."""

from __future__ import annotations

import math
import re
import unicodedata

#: Categories of characters that end a line, change the direction of writing, or are not allowed
#: in XML.
_UNSHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

#: The unit that the last part of a column's name stands for.
UNITS = {
    "ns": "ns", "us": "µs", "ms": "ms", "s": "s", "min": "min", "h": "h",
    "bytes": "bytes", "kb": "kB", "mb": "MB", "gb": "GB", "tb": "TB",
    "kib": "KiB", "mib": "MiB", "gib": "GiB", "tib": "TiB",
    "j": "J", "kj": "kJ", "mj": "MJ", "wh": "Wh", "kwh": "kWh",
    "w": "W", "kw": "kW", "hz": "Hz", "mhz": "MHz", "ghz": "GHz",
    "usd": "USD", "eur": "EUR", "pct": "%", "percent": "%", "c": "°C",
    "flops": "operations", "px": "px", "g": "g", "kg": "kg",
}  # fmt: skip


def plain(text: object, most: int = 2_000) -> str:
    """Write text from a file on one line, without characters that cannot be shown.

    >>> plain("a\\tb\\x00\\u202ec")
    'a b��c'
    """
    # Cut first: a name may be of any length.
    flat = re.sub(r"[\t\n\r ]+", " ", str(text)[: 2 * most])
    if not flat.isprintable():
        flat = "".join("\ufffd" if unicodedata.category(c) in _UNSHOWN else c for c in flat)
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def printable(text: str) -> str:
    r"""Write control characters, line breaks and invisible characters as escapes.

    A column or a level may have any name. Printed raw, some of them move the cursor, change
    colors, or reverse the order of a line.

    >>> print(printable("m5\x1b[31m\n"))
    m5\x1b[31m\n
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """Make a text of several lines safe to print; its line breaks stay."""
    return "\n".join(map(printable, text.split("\n")))


def short(text: object, most: int = 32) -> str:
    """Shorten a name, keeping both ends.

    >>> short("a" * 30 + "b" * 30, most=11)
    'aaaaa…bbbbb'
    """
    whole = plain(text)
    half = (most - 1) // 2
    return whole if len(whole) <= most else f"{whole[:half]}…{whole[-half:]}"


def percent(share: float | None) -> str:
    """Write a share as a percentage with three digits, and a dash where it is not known.

    >>> percent(0.0268), percent(0.31), percent(12.0), percent(None)
    ('2.68 %', '31.0 %', '1,200 %', '–')
    """
    if share is None or not math.isfinite(share):
        return "–"
    value = 100 * share
    decimals = 2
    while decimals > 0 and round(abs(value), decimals) >= 10 ** (3 - decimals):
        decimals -= 1
    return f"{value:,.{decimals}f} %"


def rough_percent(share: float | None) -> str:
    """Write a share that is roughly known, such as a probability, in two digits at most.

    >>> rough_percent(0.974), rough_percent(0.05), rough_percent(0.005), rough_percent(12.0)
    ('97 %', '5 %', '0.5 %', '1,200 %')
    """
    if share is None or not math.isfinite(share):
        return "–"
    value = 100 * share
    return f"{value:,.0f} %" if abs(value) >= 10 else f"{value:.2g} %"


def number(value: float | None, digits: int = 4) -> str:
    """Write a number with this many digits, and a dash where it is not known.

    >>> number(0.081234), number(1600000.0), number(12345.6), number(None)
    ('0.08123', '1.6e6', '12346', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if value == round(value) and abs(value) < 10**6:
        return str(round(value))
    if 10**digits <= abs(value) < 10**6:
        return f"{value:.0f}"
    return re.sub(r"e([+-])0*", lambda m: f"e{m[1].strip('+')}", f"{value:.{digits}g}")


def counted(n: int, thing: str) -> str:
    """Write how many of a thing there are.

    >>> counted(1, "run"), counted(5000, "run")
    ('1 run', '5,000 runs')
    """
    return f"{n:,} {thing}" + ("" if n == 1 else "s")


def unit_of(name: str) -> str:
    """Return the unit that a column's name ends with; empty if it ends with none.

    >>> unit_of("wall_time_s"), unit_of("size_mib"), unit_of("threads"), unit_of("flops")
    ('s', 'MiB', '', '')
    """
    stem, _, end = name.rpartition("_")
    return UNITS.get(end.lower(), "") if stem else ""


def with_unit(value: str, name: str) -> str:
    """Write a value of a column with its unit, if there is one.

    >>> with_unit("12", "time_s"), with_unit("12", "nodes")
    ('12 s', '12')
    """
    unit = unit_of(name)
    return f"{value} {unit}" if unit else value


def labeled(name: str, most: int | None = None) -> str:
    """Name a column with its unit, shortened if need be.

    >>> labeled("size_mib"), labeled("threads"), labeled("a" * 9 + "_s", most=5)
    ('size_mib (MiB)', 'threads', 'aa…_s (s)')
    """
    unit = unit_of(name)
    text = plain(name) if most is None else short(name, most)
    return f"{text} ({unit})" if unit else text
