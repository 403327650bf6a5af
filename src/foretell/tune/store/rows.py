"""What the store keeps: one row for each epoch and each profile, of plain numbers and names."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Longer texts may be data of the user, which the store never keeps.
_LONGEST_TEXT = 40

WARM_UP, PROBE, STEADY = "warm-up", "probe", "steady"
#: An epoch that others disturbed, or that varies wildly: it was trained, and no time is learned
#: from it. Its row keeps the callback of a search from adding the epoch again.
LEFT_OUT = "left out"
#: The system setting that is no knob: the CPUs that a search has set aside.
LEASE = "cpus"


@dataclass(frozen=True)
class EpochRow:
    """One epoch: which training, under which settings, and what it took.

    Attributes
    ----------
    phase
        *warm-up* for the first epoch of a process, *probe* for a setting on trial, else *steady*;
        *left out* if nothing is to be learned from it.
    core_s
        CPU time of the training and its loader workers; trainings of one process have that of all.
    load_others
        Cores that other programs kept busy; other trainings of foretell are not counted.
    n_siblings
        Other trainings with the hook that ran on the machine.
    machine
        Where it ran; empty for the machine that adds the row.
    """

    job: str
    trial: str
    epoch: int
    phase: str
    hyper: Mapping[str, float | str]
    system: Mapping[str, float | str]
    epoch_s: float
    core_s: float = 0.0
    load_others: float = 0.0
    n_siblings: int = 0
    machine: str = ""


@dataclass(frozen=True)
class ProfileRow:
    """The profile of one training: counters of its second epoch, and the best setting found."""

    job: str
    trial: str
    batch: str
    counters: Mapping[str, float]
    was_known: bool
    best: Mapping[str, float | str] = field(default_factory=dict)
    best_s: float = math.inf


def plain_values(values: Mapping[str, Any]) -> dict[str, float | str]:
    """Return the values that are numbers, truth values or short names, and none of the others.

    >>> plain_values({"lr": 0.1, "nesterov": True, "name": "sgd", "data": [1, 2], "f": print})
    {'lr': 0.1, 'nesterov': 1, 'name': 'sgd'}
    """
    found = ((str(name), plain_value(value)) for name, value in values.items())
    return {name: value for name, value in found if value is not None}


def plain_value(value: Any) -> float | str | None:
    """Return a number or a short name as it is kept; None for anything else."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if abs(value) < 2**53 else None
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT and value.isprintable() else None
    try:
        number = float(value) if getattr(value, "shape", ()) == () else math.nan
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def packed(values: Mapping[str, Any]) -> str:
    """Write values so that equal ones give equal texts."""
    return json.dumps(dict(values), sort_keys=True)
