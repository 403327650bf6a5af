"""How times and rates of serving are written for people."""

from __future__ import annotations

import math

from foretell.spaces.quantities import duration


def time_text(seconds: float) -> str:
    """Write a time in the unit that suits it.

    >>> time_text(0.0000123), time_text(0.0415), time_text(0.0), time_text(2.5)
    ('12.3 µs', '41.5 ms', '0 ms', '2.5 s')
    """
    if not math.isfinite(seconds):
        return "no end"
    if seconds == 0:
        return "0 ms"
    if seconds < 1e-3:
        return f"{_digits(1e6 * seconds)} µs"
    return f"{_digits(1e3 * seconds)} ms" if seconds < 1 else duration(seconds)


def rate_text(per_s: float) -> str:
    """Write a rate.

    >>> rate_text(193.4), rate_text(12345.6), rate_text(0.25)
    ('193/s', '12,300/s', '0.25/s')
    """
    if per_s >= 1000:
        size = 10 ** (math.floor(math.log10(per_s)) - 2)
        return f"{math.floor(per_s / size) * size:,.0f}/s"
    return f"{_digits(per_s)}/s"


def threads_text(threads: int) -> str:
    """Write a number of threads.

    >>> threads_text(1), threads_text(2)
    ('1 thread', '2 threads')
    """
    return f"{threads} thread{'' if threads == 1 else 's'}"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
