"""Settings of a deployment, those that can be chosen, and what is known of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foretell.errors import Option, UsageError, suggest
from foretell.spaces.quantities import read_latency
from foretell.spaces.values import Scalar, Values, listed

MOST_BATCH, MOST_THREADS, MOST_VALUES = 4_096, 1_024, 4_096
AXES = ("batch", "threads", "wait")


@dataclass(frozen=True)
class Setting:
    """What to set.

    Attributes
    ----------
    batch
        The largest batch.
    wait_s
        How long the oldest request waits at most for others to join it.
    threads
        Of each replica.
    """

    batch: int
    wait_s: float
    threads: int
    replicas: int = 1

    @property
    def cores(self) -> int:
        """How many cores all replicas have."""
        return self.threads * self.replicas

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "batch": self.batch,
            "wait_s": self.wait_s,
            "threads": self.threads,
            "replicas": self.replicas,
        }


@dataclass(frozen=True)
class Figures:
    """What a setting comes to.

    Attributes
    ----------
    per_s
        Samples per second that are served; in *offline*, that can be.
    busy
        The share of time in which a replica computes.
    mean_batch
        The mean size of batches.
    core_s
        CPU seconds per sample.
    """

    mean_s: float
    p99_s: float
    per_s: float
    busy: float
    mean_batch: float
    core_s: float

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {name: value if math.isfinite(value) else None for name, value in vars(self).items()}


@dataclass(frozen=True)
class Assessed:
    """A setting, what it comes to, and why it cannot be used."""

    setting: Setting
    figures: Figures | None
    trouble: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether it keeps up, and keeps the limit."""
        return not self.trouble


@dataclass(frozen=True)
class Choices:
    """The values that can be chosen; ``waits_s`` is None if foretell proposes them."""

    batches: tuple[int, ...]
    threads: tuple[int, ...]
    waits_s: tuple[float, ...] | None = None


def read_choices(vary: Mapping[str, Values], default_threads: Sequence[int]) -> Choices:
    """Read what can be chosen: ``batch``, ``threads`` and ``wait``, by default 1 to 64."""
    for name in vary:
        if name not in AXES:
            raise UsageError(
                f"there is nothing called '{name}' to choose. {suggest(name, AXES)}",
                option=Option("vary"),
            )
    batches = _whole("batch", vary.get("batch", [2**k for k in range(7)]), MOST_BATCH)
    threads = _whole("threads", vary.get("threads", list(default_threads)), MOST_THREADS)
    waits = None if "wait" not in vary else tuple(map(_wait, _listed("wait", vary["wait"])))
    return Choices(batches, threads, None if waits is None else tuple(sorted(set(waits))))


def _listed(name: str, values: Values) -> list[Scalar]:
    from foretell.spaces.values import Range

    if isinstance(values, Range) and values.is_continuous:
        if not (values.is_whole and values.stop - values.start < MOST_VALUES):
            raise UsageError(
                f"the range of '{name}' must be of whole numbers, or have a step",
                option=Option("vary"),
            )
        return list(range(int(values.start), int(values.stop) + 1))
    found = listed(values)
    if not 0 < len(found) <= MOST_VALUES:
        raise UsageError(
            f"'{name}' has {len(found):,} values; give 1 to {MOST_VALUES:,}", option=Option("vary")
        )
    return found


def _whole(name: str, values: Values, most: int) -> tuple[int, ...]:
    found = set()
    for value in _listed(name, values):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or value != round(float(value)) or not 1 <= value <= most:
            raise UsageError(
                f"{name} must be whole numbers from 1 to {most:,}, not {value}",
                option=Option("vary"),
            )
        found.add(round(float(value)))
    return tuple(sorted(found))


def _wait(value: Scalar) -> float:
    if value in (0, "0"):
        return 0.0
    if not isinstance(value, str):
        raise UsageError(
            f"a wait of {value} has no unit; write wait=0,2ms,5ms", option=Option("vary")
        )
    try:
        return read_latency(value)
    except UsageError as error:
        raise UsageError(error.text, option=Option("vary")) from None
