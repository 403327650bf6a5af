"""Names, numbers and shares as a reader sees them; names come from files, and are not trusted."""

from __future__ import annotations

import math
import re
import unicodedata

from foretell.report.units import unit_of

_SHORT = 32
#: What would end a line, turn the direction of writing, or is no character in XML.
_UNSHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def plain(text: object, most: int = 2_000) -> str:
    """Write what came from a file on one line, each character one that can be shown.

    >>> plain("a\\tb\\x00\\u202ec")
    'a b��c'
    """
    # Cut first: a name may be of any length.
    flat = re.sub(r"[\t\n\r ]+", " ", str(text)[: 2 * most])
    seen = "".join("\ufffd" if unicodedata.category(c) in _UNSHOWN else c for c in flat)
    return seen if len(seen) <= most else f"{seen[: most - 1]}…"


def short(text: object, most: int = _SHORT) -> str:
    """Shorten a name for a picture, keeping both ends.

    >>> short("a" * 30 + "b" * 30, most=11)
    'aaaaa…bbbbb'
    """
    whole = plain(text)
    half = (most - 1) // 2
    return whole if len(whole) <= most else f"{whole[:half]}…{whole[-half:]}"


def labeled(name: str) -> str:
    """Name a column with its unit.

    >>> labeled("size_mib"), labeled("threads")
    ('size_mib (MiB)', 'threads')
    """
    unit = unit_of(name)
    return f"{plain(name)} ({unit})" if unit else plain(name)


def axis_label(name: str, most: int = _SHORT) -> str:
    """Name a column beside its axis, short, with its unit."""
    unit = unit_of(name)
    return f"{short(name, most)} ({unit})" if unit else short(name, most)


def number(value: float | None, digits: int = 4) -> str:
    """Write a number with so many digits.

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
