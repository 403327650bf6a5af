"""Contract 3, machines: what a task needs, what a node has, and whether one fits into the other."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from foretell.errors import UsageError

#: Amounts are multiples of a millionth, so that adding and subtracting never leaves a remainder.
_DECIMALS = 6
_MOST_K2 = 1.0  # e^100 already exceeds any power
_QUANTITY = re.compile(
    r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2}|n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?"
)
_SUFFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3,
             "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
             "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
             "Ei": 2.0**60}  # fmt: skip
#: Other names of resources that foretell has its own names for.
_SYNONYMS = {"cpu": "cpus", "memory": "memory_bytes", "gpu": "gpus", "nvidia.com/gpu": "gpus"}


def read_amount(value: float | str, name: str = "amount") -> float:
    """Read an amount as Kubernetes writes it: a number, or one with a suffix.

    >>> read_amount("500m"), read_amount("1Gi"), read_amount(3)
    (0.5, 1073741824.0, 3.0)
    """
    if not isinstance(value, str):
        return _amount(name, value)
    found = _QUANTITY.fullmatch(value.strip())
    if found is None:
        raise UsageError(f"{name}: must be an amount such as 2, 500m or 1Gi, not '{value}'")
    suffix = found[2] or ""
    factor = _SUFFIXES[suffix] if suffix in _SUFFIXES else float(f"1{suffix}")
    return _amount(name, float(found[1]) * factor)


def _amount(name: str, value: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < math.inf:
        raise UsageError(f"{name}: must be a non-negative number, not {value}")
    return round(float(value), _DECIMALS)


@dataclass(frozen=True)
class Resources:
    """Amounts of resources: what a task asks for, or what a node has.

    Attributes
    ----------
    custom
        Other resources by name, such as ``{"pods": 110}``; one that is not listed is 0.

    >>> node, task = Resources(cpus=4, memory_bytes=2**33), Resources(cpus=1.5)
    >>> task.fits_in(node), node.n_fitting(task)
    (True, 2)
    >>> print(node - task)
    2.5 CPUs and 8 GiB of memory
    """

    cpus: float = 0.0
    memory_bytes: int = 0
    gpus: float = 0.0
    custom: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name in ("cpus", "gpus"):
            object.__setattr__(self, name, _amount(name, getattr(self, name)))
        object.__setattr__(self, "memory_bytes", round(_amount("memory_bytes", self.memory_bytes)))
        amounts = {name: _amount(name, self.custom[name]) for name in sorted(self.custom)}
        object.__setattr__(self, "custom", {name: n for name, n in amounts.items() if n})

    @classmethod
    def read(cls, given: Mapping[str, float | str]) -> Resources:
        """Read amounts as Kubernetes writes them; names that foretell does not know are custom.

        >>> print(Resources.read({"cpu": "500m", "memory": "1Gi", "gpu": 1, "fpga": "2"}))
        0.5 CPUs, 1 GPU, 1 GiB of memory and 2 fpga
        """
        known: dict[str, Any] = {}
        custom: dict[str, float] = {}
        written_as: dict[str, str] = {}
        for written, value in given.items():
            name = _SYNONYMS.get(written, written)
            amounts = known if name in {"cpus", "memory_bytes", "gpus"} else custom
            if name in amounts:
                raise UsageError(f"{written} and {written_as[name]} are the same; give one of them")
            written_as[name] = written
            amounts[name] = read_amount(value, written)
        return cls(**known, custom=custom)

    def amounts(self) -> dict[str, float]:
        """Return all amounts by name, those that are 0 left out."""
        named = {"cpus": self.cpus, "gpus": self.gpus, "memory_bytes": float(self.memory_bytes)}
        return {name: n for name, n in {**named, **self.custom}.items() if n}

    def fits_in(self, other: Resources) -> bool:
        """Whether another has at least as much of everything."""
        there = other.amounts()
        return all(n <= there.get(name, 0.0) for name, n in self.amounts().items())

    def n_fitting(self, needed: Resources) -> int:
        """Count the tasks that fit at once, each of which needs this much."""
        here = self.amounts()
        counts = (_n_times(here.get(name, 0.0), n) for name, n in needed.amounts().items())
        return min(counts, default=sys.maxsize)

    def lacking(self, free: Resources) -> Resources:
        """Return how much more would have to be free for this to fit."""
        there = free.amounts()
        return _resources({n: max(0.0, x - there.get(n, 0.0)) for n, x in self.amounts().items()})

    def __add__(self, other: Resources) -> Resources:
        here, there = self.amounts(), other.amounts()
        return _resources({n: here.get(n, 0.0) + there.get(n, 0.0) for n in {**here, **there}})

    def __sub__(self, other: Resources) -> Resources:
        if not other.fits_in(self):
            raise ValueError(f"{other} cannot be taken from {self}")
        there = other.amounts()
        return _resources({n: x - there.get(n, 0.0) for n, x in self.amounts().items()})

    def __mul__(self, n: int) -> Resources:
        return _resources({name: n * amount for name, amount in self.amounts().items()})

    def __str__(self) -> str:
        parts = [f"{self.cpus:g} {'CPU' if self.cpus == 1 else 'CPUs'}"]
        if self.gpus:
            parts.append(f"{self.gpus:g} {'GPU' if self.gpus == 1 else 'GPUs'}")
        if self.memory_bytes:
            parts.append(f"{self.memory_bytes / 2**30:.3g} GiB of memory")
        parts += [f"{amount:g} {name}" for name, amount in self.custom.items()]
        return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


ONE_CPU = Resources(cpus=1.0)


@dataclass(frozen=True)
class Needs:
    """What a task asks of machines: the same for each of its parts, which may be far apart.

    >>> print(Needs(Resources(cpus=2), n_parts=3))
    3 workers with 2 CPUs each
    """

    each: Resources = ONE_CPU
    n_parts: int = 1

    def __post_init__(self) -> None:
        if self.n_parts < 1:
            raise UsageError(f"n_parts must be at least 1, not {self.n_parts}")

    def __str__(self) -> str:
        if self.n_parts == 1:
            return str(self.each)
        return f"{self.n_parts} workers with {self.each} each"


@dataclass(frozen=True)
class PowerCurve:
    """Watts that a node draws when ``u`` percent of its CPUs are in use: k0 + k1·exp(k2·u).

    >>> PowerCurve(k0=1.9, k1=0.1, k2=0.034).watts(0.0)
    2.0
    """

    k0: float
    k1: float
    k2: float

    def __post_init__(self) -> None:
        for name in ("k0", "k1", "k2"):
            _amount(f"power.{name}", getattr(self, name))
        if self.k2 > _MOST_K2:
            raise UsageError(
                f"power.k2: must be at most {_MOST_K2}, not {self.k2:g}; it is per percent of use"
            )

    def watts(self, busy_share: float) -> float:
        """Return the watts drawn when a share of the CPUs is in use."""
        return self.k0 + self.k1 * math.exp(self.k2 * 100 * busy_share)


@dataclass(frozen=True)
class NodeType:
    """A kind of machine.

    Attributes
    ----------
    idle_w, busy_w
        Watts drawn when nothing runs, and when everything is in use; None if not known.
    power
        The watts in between, if they are known better; then idle_w and busy_w follow from it.
    can_power_off
        Whether a node without tasks is switched off.
    price_per_h
        What an hour costs; None if not known.
    """

    name: str
    capacity: Resources
    idle_w: float | None = None
    busy_w: float | None = None
    price_per_h: float | None = None
    power: PowerCurve | None = None
    can_power_off: bool = False

    def __post_init__(self) -> None:
        if self.power is not None:
            if self.idle_w is not None or self.busy_w is not None:
                raise UsageError(
                    f"{self.name} has a power curve, which says what it draws when idle and busy; "
                    "remove idle_w and busy_w, or the curve"
                )
            object.__setattr__(self, "idle_w", self.power.watts(0.0))
            object.__setattr__(self, "busy_w", self.power.watts(1.0))
        for name in ("idle_w", "busy_w", "price_per_h"):
            value = getattr(self, name)
            if value is not None:
                _amount(f"{name} of {self.name}", value)
        if self.idle_w is not None and self.busy_w is not None and self.busy_w < self.idle_w:
            raise UsageError(
                f"busy_w of {self.name} ({self.busy_w:g}) is less than idle_w ({self.idle_w:g}); "
                "exchange them"
            )

    def watts(self, busy_share: float) -> float | None:
        """Return the watts drawn when a share of the CPUs is in use; None if not known.

        Without a curve, power grows evenly from idle to busy.
        """
        if self.power is not None:
            return self.power.watts(busy_share)
        if self.idle_w is None or self.busy_w is None:
            return None
        return self.idle_w + busy_share * (self.busy_w - self.idle_w)

    def added_watts(self, cpus: float) -> float | None:
        """Return the watts that a task with so many CPUs adds to an idle node; None if not known.

        >>> NodeType("a", Resources(cpus=4), idle_w=10, busy_w=30).added_watts(2)
        10.0
        """
        idle_w = self.watts(0.0)
        busy_w = self.watts(min(1.0, cpus / self.capacity.cpus))
        return None if idle_w is None or busy_w is None else busy_w - idle_w


@dataclass(frozen=True)
class Node:
    """A machine, and what the tasks on it use.

    >>> node = Node("a", NodeType("small", Resources(cpus=2)))
    >>> node.take(Resources(cpus=1.5)).fits(Resources(cpus=1))
    False
    """

    name: str
    type: NodeType
    used: Resources = Resources()

    @property
    def free(self) -> Resources:
        """What is left for other tasks."""
        return self.type.capacity - self.used

    def fits(self, needed: Resources) -> bool:
        """Whether a task fits now."""
        return needed.fits_in(self.free)

    def take(self, needed: Resources) -> Node:
        """Return the node with one more task; raise a ValueError if it does not fit."""
        if not self.fits(needed):
            raise ValueError(f"{self.name} has {self.free} free, and {needed} is needed")
        return replace(self, used=self.used + needed)

    def give_back(self, needed: Resources) -> Node:
        """Return the node without a task that was on it."""
        return replace(self, used=self.used - needed)


def _n_times(has: float, needed: float) -> int:
    n = round(has / needed)
    while round(n * needed, _DECIMALS) > has:
        n -= 1
    return n


def _resources(amounts: Mapping[str, float]) -> Resources:
    custom = dict(amounts)
    cpus, gpus = custom.pop("cpus", 0.0), custom.pop("gpus", 0.0)
    return Resources(cpus, round(custom.pop("memory_bytes", 0.0)), gpus, custom)
