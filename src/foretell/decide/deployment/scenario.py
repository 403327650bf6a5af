"""Scenarios of serving, as MLPerf names them, and how requests arrive in each."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from foretell.errors import Option, UsageError, suggest
from foretell.spaces.quantities import read_latency

SINGLE_STREAM, MULTI_STREAM, SERVER, OFFLINE = (
    "single-stream", "multi-stream", "server", "offline"
)  # fmt: skip
SCENARIOS = (SINGLE_STREAM, MULTI_STREAM, SERVER, OFFLINE)
_PER = re.compile(r"([0-9.]+(?:e[+-]?[0-9]+)?)\s*/\s*(ms|s|min|h)", re.I)
_BURST = re.compile(r"([0-9]+)\s*/\s*(.+)")
_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_EXAMPLES = "write poisson:120/s, or burst:8/50ms for 8 samples together every 50 ms"
_MOST_SAMPLES = 100_000


@dataclass(frozen=True)
class Scenario:
    """How requests arrive.

    Attributes
    ----------
    rate_per_s
        Of *server*: requests per second on average, at random times (Poisson).
    n_samples, every_s
        Of *multi-stream*: so many samples come together, in even intervals.

    >>> read_scenario("poisson:120/s")
    Scenario(name='server', rate_per_s=120.0, n_samples=1, every_s=inf)
    >>> read_scenario("burst:8/50ms").name, read_scenario("offline").name
    ('multi-stream', 'offline')
    """

    name: str
    rate_per_s: float = 0.0
    n_samples: int = 1
    every_s: float = math.inf

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        found: dict[str, Any] = {"name": self.name}
        if self.name == SERVER:
            found["rate_per_s"] = self.rate_per_s
        if self.name == MULTI_STREAM:
            found |= {"n_samples": self.n_samples, "every_s": self.every_s}
        return found


def read_scenario(arrivals: str | Scenario | None, name: str | None = None) -> Scenario:
    """Read how requests arrive; a scenario without arrivals is known by its name alone."""
    if isinstance(arrivals, Scenario):
        return arrivals
    if arrivals in SCENARIOS and name is None:
        arrivals, name = None, arrivals
    if name is not None and name not in SCENARIOS:
        raise UsageError(
            f"there is no scenario '{name}'. {suggest(name, SCENARIOS)}",
            option=Option("scenario"),
        )
    if arrivals is None:
        return _without_arrivals(name)
    found = _read_arrivals(arrivals)
    if name is not None and name != found.name:
        raise UsageError(
            f"'{arrivals}' is the scenario {found.name}, and {name} is asked for",
            option=Option("arrivals"),
            remedy=("leave one of them out, or set ", Option("scenario", found.name)),
        )
    return found


def _without_arrivals(name: str | None) -> Scenario:
    if name is None:
        raise UsageError(
            "it is not known how requests arrive",
            remedy=("write ", Option("arrivals", "poisson:120/s"), ", or name a scenario without "
                    "arrivals: ", Option("scenario", SINGLE_STREAM), " or ",
                    Option("scenario", OFFLINE)),
        )  # fmt: skip
    if name in (SERVER, MULTI_STREAM):
        example = "poisson:120/s" if name == SERVER else "burst:8/50ms"
        raise UsageError(
            f"the scenario {name} needs arrivals", remedy=("write ", Option("arrivals", example))
        )
    return Scenario(name)


def _read_arrivals(text: str) -> Scenario:
    kind, colon, rest = (part.strip() for part in str(text).partition(":"))
    if kind == "poisson" and colon:
        found = _PER.fullmatch(rest)
        rate = _number(found[1]) / _SECONDS[found[2].lower()] if found else math.nan
        if not (math.isfinite(rate) and rate > 0):
            raise _unreadable(text, "a rate above 0, such as 120/s or 3000/min, is needed")
        return Scenario(SERVER, rate_per_s=rate)
    if kind == "burst" and colon:
        parts = _BURST.fullmatch(rest)
        if parts is None or not 1 <= int(parts[1]) <= _MOST_SAMPLES:
            raise _unreadable(text, f"1 to {_MOST_SAMPLES:,} samples and a time are needed")
        try:
            every_s = read_latency(parts[2])
        except UsageError as error:
            raise _unreadable(text, error.text) from None
        return Scenario(MULTI_STREAM, n_samples=int(parts[1]), every_s=every_s)
    raise _unreadable(text, "it is neither poisson:… nor burst:…")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _unreadable(text: object, why: str) -> UsageError:
    return UsageError(f"'{text}' cannot be read: {why}; {_EXAMPLES}", option=Option("arrivals"))
