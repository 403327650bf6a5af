"""Tasks: what they need of a node, and what their models need to know of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args

from foretell.decide.placement.cluster import Migratable
from foretell.errors import Option, UsageError
from foretell.machines import ONE_CPU, Resources, read_amount

Value = float | int | str | bool
#: Names of resources; those of other resources contain a slash, as in Kubernetes.
NEEDS = ("cpu", "cpus", "memory", "memory_bytes", "memory_mib", "memory_gib", "gpu", "gpus")
#: Memory in other units, as models see it.
_UNITS = {"memory_mib": 2**20, "memory_gib": 2**30}
_MIGRATABLE: tuple[str, ...] = get_args(Migratable)


@dataclass(frozen=True)
class Task:
    """What a task needs, its features, and its own weight of energy.

    Attributes
    ----------
    H
        The weight of energy of this task; None for that of the policy.
    migratable
        Whether it may move: *never*, by starting again (*restart*), or where it was (*resume*).

    >>> task = read_task("cpu=2,memory=1Gi,iterations=800")
    >>> print(task.needs, task.columns["memory_gib"], task.columns["iterations"])
    2 CPUs and 1 GiB of memory 1.0 800
    """

    needs: Resources = ONE_CPU
    features: Mapping[str, Value] = field(default_factory=dict)
    H: float | None = None
    migratable: str = "never"
    name: str = ""

    @cached_property
    def columns(self) -> dict[str, Value]:
        """What a model may use: the features, and the needs under their usual names."""
        needs = self.needs
        return {
            "cpu": needs.cpus, "cpus": needs.cpus, "gpus": needs.gpus,
            "memory_bytes": needs.memory_bytes, "memory_mib": needs.memory_bytes / 2**20,
            "memory_gib": needs.memory_bytes / 2**30,
            **self.features,
        }  # fmt: skip

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What predictions depend on: equal for tasks with the same predictions."""
        needs = self.needs
        features = tuple(sorted((name, repr(value)) for name, value in self.features.items()))
        return (needs.cpus, needs.memory_bytes, needs.gpus, features)


def read_task(source: str | Mapping[str, Any] | Task) -> Task:
    """Read a task, written as ``cpu=2,memory=1Gi,iterations=800`` or as a mapping.

    ``H``, ``migratable`` and ``name`` are about the task; cpu, memory and gpu, also as cpus,
    memory_mib, memory_gib and gpus, and names with a slash, are what it needs; all others are
    features.
    """
    if isinstance(source, Task):
        return source
    given = _pairs(source) if isinstance(source, str) else dict(source)
    H, migratable, name = (given.pop(key, None) for key in ("H", "migratable", "name"))
    needs = {key: given.pop(key) for key in list(given) if key in NEEDS or "/" in key}
    if "cpu" not in needs and "cpus" not in needs:
        needs["cpu"] = 1
    if migratable is not None and migratable not in _MIGRATABLE:
        raise _wrong(f"migratable is one of {', '.join(_MIGRATABLE)}, not {migratable}")
    try:
        read = _read_needs(needs)
    except UsageError as error:
        raise _wrong(error.text) from None
    for key, value in given.items():
        if not isinstance(value, float | int | str) or (
            isinstance(value, float) and not math.isfinite(value)
        ):
            raise _wrong(f"{key}: must be a number or a text, not {value!r}")
    try:
        weight = None if H is None else read_h(H)
    except UsageError as error:
        if not isinstance(source, str):  # who calls says where the mapping comes from
            raise
        raise UsageError(f"H {error.text}", option=Option("task"), remedy=error.remedy) from None
    return Task(read, given, weight, migratable or "never", str(name or ""))


def _read_needs(given: Mapping[str, Any]) -> Resources:
    """Read needs, which may have the names that models know them by."""
    in_units = given.keys() & _UNITS.keys()
    if len(in_units) > 1 or (in_units and given.keys() & {"memory", "memory_bytes"}):
        raise UsageError("memory is given twice; remove one")
    needs = dict(given)
    for name in in_units:
        amount = plain_value(str(needs.pop(name)))
        if isinstance(amount, str):
            raise UsageError(f"{name}: must be a number, such as 512, not {amount}")
        needs["memory"] = read_amount(amount, name) * _UNITS[name]
    return Resources.read(needs)


def read_h(value: object) -> float:
    """Read a weight of energy: a number from 0 to 1.

    >>> read_h("0.6")
    0.6
    """
    try:
        found = float(str(value))
    except ValueError:
        found = math.nan
    if not 0 <= found <= 1:
        raise UsageError(
            f"must be a number from 0 to 1, not {value}",
            option=Option("H"),
            remedy=("write 1 to save energy alone, 0 for speed alone",),
        )
    return found


def _pairs(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise _wrong(f"'{part}' is not NAME=VALUE, as in cpu=2,memory=1Gi,iterations=800")
        if key in found:
            raise _wrong(f"{key} is given twice; remove one")
        found[key] = value if key in NEEDS or "/" in key else plain_value(value)
        if isinstance(found[key], str) and key not in NEEDS and _is_huge(value):
            raise _wrong(f"{key}={value} is out of range: a number is at most 1.8e308")
    return found


def _is_huge(text: str) -> bool:
    """Whether a text is a number that is too large, and not the word inf or nan."""
    try:
        return math.isinf(float(text)) and any(c.isdigit() for c in text)
    except ValueError:
        return False


def plain_value(text: str) -> Value:
    """Read a number, or leave a text as it is.

    >>> plain_value("800"), plain_value("0.5"), plain_value("text")
    (800, 0.5, 'text')
    """
    for read in (int, float):
        try:
            value = read(text)
            is_number = math.isfinite(value) and "_" not in text
        except (ValueError, OverflowError):  # a whole number may be too large for a float
            continue
        if is_number:
            return value
    return text


def _wrong(text: str) -> UsageError:
    return UsageError(text, option=Option("task"))
