"""Policies: which setting the next epoch has, and why; and the grid they choose from."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from foretell.errors import Option, UsageError
from foretell.executors.cores import n_cores
from foretell.tune.hook.clock import Measured
from foretell.tune.knobs import Knob
from foretell.tune.knobs._base import Value

Setting = dict[str, Value]
#: More combinations than this are no grid to be tried during one training.
_MOST_SETTINGS = 64

OBJECTIVES = ("throughput", "latency", "energy", "cost")
#: What an idle machine draws, as a share of what it draws with all cores busy (modelled).
_IDLE_SHARE = 0.1


@dataclass(frozen=True)
class Moment:
    """The moment before an epoch.

    Attributes
    ----------
    epoch, n_epochs
        The epoch that begins, from 0, and how many there are; None if that is not known.
    n_left
        Epochs to the next rung, this one included.
    is_first
        Whether this process has trained no epoch yet.
    is_shared
        Whether other trainings run on the machine.
    """

    epoch: int
    n_epochs: int | None
    n_left: int
    is_first: bool
    is_shared: bool


@dataclass(frozen=True)
class Choice:
    """The setting of an epoch, its phase, and the reason if the setting is new."""

    setting: Setting
    phase: str
    reason: str = ""


class Policy(Protocol):
    """Chooses the setting of each epoch from a grid, and sees what it took."""

    grid: Grid

    def choose(self, moment: Moment) -> Choice:
        """Return the setting of the next epoch."""

    def observe(self, choice: Choice, moment: Moment, measured: Measured) -> None:
        """Take note of what an epoch took."""


class Grid:
    """All combinations of the values that knobs may have, and what an epoch costs under each.

    Parameters
    ----------
    lease
        The CPUs that the search has set aside for this training; others have the rest.
    infeasible
        Settings that were tried before, and under which an epoch did not come to its end.
    """

    def __init__(
        self, knobs: Mapping[str, Knob], values: Mapping[str, Sequence[Value]],
        lease: float | None = None, infeasible: Sequence[Setting] = (),
    ) -> None:  # fmt: skip
        self._knobs, self._values = knobs, values
        self._n_cores = n_cores() if lease is None else min(n_cores(), max(1.0, lease))
        usable = {name: self._usable(name) for name in knobs}
        #: Why knobs are not tuned.
        self.reasons = [
            f"{name} is not tuned: each of its values takes more than the CPUs set aside"
            for name in knobs
            if not usable[name]
        ]
        self.start: Setting = {name: self._start_of(name, usable[name]) for name in knobs}
        combined = itertools.product(*(usable[name] or [self.start[name]] for name in knobs))
        settings = [dict(zip(knobs, each, strict=True)) for each in combined]
        if len(settings) > _MOST_SETTINGS:
            raise UsageError(
                f"{len(settings)} combinations of settings are too many to try while training; "
                f"at most {_MOST_SETTINGS} are",
                option=Option("settings"),
            )
        #: The settings to choose from; the first is the one that held before.
        self.settings = [self.start, *(s for s in settings if s != self.start)]
        self.reasons += [
            f"{setting_text(s)} is not tried: epochs under it did not come to their end before"
            for setting in infeasible
            for s in self.refuse(setting)
        ]

    def refuse(self, values: Setting) -> list[Setting]:
        """Leave out all settings with these values, and return them; what held before stays."""
        refused = [s for s in self.settings[1:] if values.items() <= s.items()]
        self.settings = [s for s in self.settings if s not in refused]
        return refused

    def _start_of(self, name: str, usable: Sequence[Value]) -> Value:
        """Return the value that holds, or the largest that this training has the cores for."""
        knob = self._knobs[name]
        value = knob.read()
        if knob.n_cores(value) <= self._n_cores or not usable:
            return value
        return max(usable, key=knob.n_cores)

    def _usable(self, name: str) -> list[Value]:
        """Return the values that do not take more cores than this training has."""
        knob, values = self._knobs[name], list(dict.fromkeys(self._values[name]))
        return [v for v in values if knob.n_cores(v) <= self._n_cores]

    def priors(self) -> dict[tuple[str, Value], tuple[float, float]]:
        """Return what knobs say of epoch times before any was measured, against their start."""
        return {
            (name, value): self._knobs[name].prior(value, against=self.start[name])
            for name in self._knobs
            for value in {s[name]: None for s in self.settings}
            if value != self.start[name]
        }

    def n_cores(self, setting: Setting) -> float:
        """Return how many cores a training uses under a setting."""
        used = sum(self._knobs[name].n_cores(value) for name, value in setting.items())
        return max(1.0, used)


@dataclass(frozen=True)
class Objective:
    """What is to be small: a multiple of the epoch time that depends on the setting."""

    name: str
    lease: float | None = None

    def weight(self, n_used: float, *, is_shared: bool) -> float:
        """Return by what an epoch time is multiplied where so many cores are used.

        >>> Objective("throughput").weight(2.0, is_shared=True)
        2.0
        >>> Objective("throughput").weight(2.0, is_shared=False)
        1.0
        """
        taken = max(n_used, self.lease or 1.0)
        if self.name == "energy":
            return _IDLE_SHARE + (1 - _IDLE_SHARE) * min(1.0, n_used / n_cores())
        if self.name == "cost":
            return taken
        return taken if self.name == "throughput" and is_shared else 1.0


def setting_text(setting: Mapping[str, Value]) -> str:
    """Write a setting for people.

    >>> setting_text({"threads": 2, "workers": 0})
    'threads=2, workers=0'
    """
    return ", ".join(f"{name}={value}" for name, value in setting.items())
