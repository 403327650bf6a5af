"""Options of advice: a budget, how many runs, what may be measured, and when to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from foretell.errors import Option, UsageError, suggest
from foretell.spaces.quantities import COST, ENERGY, TIME, read_quantity
from foretell.spaces.rules import Rules
from foretell.spaces.values import Values

#: A run that changes the plan with a smaller probability is not worth its cost.
LEAST_CHANCE = 0.05
Options = TypeVar("Options")


@dataclass(frozen=True)
class Budget:
    """What measuring may cost: a kind of quantity, and how much of it."""

    kind: str
    most: float = np.inf

    @classmethod
    def of(cls, written: str | float | Budget | None, kinds: Sequence[str]) -> Budget:
        """Read a budget; its unit says which quantity it bounds."""
        if isinstance(written, Budget):
            return written
        usual = next((kind for kind in (TIME, COST, ENERGY) if kind in kinds), kinds[0])
        if written is None:
            return cls(usual)
        option = Option("budget", str(written))
        for kind in (COST, TIME, ENERGY):  # a number without a unit is money
            try:
                found = cls(kind, read_quantity(written, kind))
            except UsageError:
                continue
            if kind in kinds:
                return found
            if kind == COST:
                raise UsageError(
                    "a number without a unit is money, which needs prices",
                    option=option,
                    remedy=("add ", Option("prices"), ", or write a time such as 30m or 2h"),
                )
            raise UsageError(
                f"no model predicts the {kind} of a run; add one, or write another budget",
                option=option,
            )
        raise UsageError(
            "must be a time, an energy or money, such as 30m, 500kJ or 20", option=option
        )


class TooLittleError(UsageError):
    """The budget is smaller than the cost of the cheapest run."""


@dataclass(frozen=True)
class AdviceOptions:
    """How advice is given.

    Attributes
    ----------
    budget
        What all proposed runs may cost together: a time such as "30m", an energy, or money.
    measure
        What may be measured: values by column, or a table of all possible runs. By default the
        configurations that may be planned, and smaller jobs with the same settings.
    least_chance
        Runs that change the plan with a smaller probability are not proposed.
    sweep
        The sweep that measured the data: its time limit and its rules hold for proposed runs.
    precision
        The share by which the interval of the planned configuration may differ from its prediction:
        if both ends are that near, nothing is proposed.
    repeats
        Whether runs may be proposed that were made before. Otherwise they are only if repeats in
        the data show noise that makes another one worth its cost.
    """

    budget: str | float | Budget | None = None
    n_runs: int = 1
    measure: Mapping[str, Values] | pd.DataFrame | None = None
    least_chance: float = LEAST_CHANCE
    sweep: Mapping[str, Any] | None = None
    repeats: bool = False
    precision: float | None = None

    def __post_init__(self) -> None:
        if self.n_runs < 1:
            raise UsageError(f"must be at least 1, not {self.n_runs}", option=Option("n_runs"))
        if not 0 < self.least_chance < 1:
            raise UsageError(
                f"must be a probability between 0 and 1, such as 0.05, not {self.least_chance:g}",
                option=Option("least_chance"),
            )
        if self.precision is not None and not 0 < self.precision < 1:
            raise UsageError(
                f"must be a share between 0 and 1, such as 0.2, not {self.precision:g}",
                option=Option("precision"),
            )

    @property
    def time_limit_s(self) -> float:
        """The time limit of runs; infinite without one."""
        return float((self.sweep or {}).get("time_limit_s") or np.inf)

    @cached_property
    def rules(self) -> Rules:
        """The conditions that a run must meet."""
        sweep = self.sweep or {}
        return Rules.of(only=sweep.get("only") or (), exclude=sweep.get("exclude") or ())

    @property
    def n_passes(self) -> int:
        """How often a run executes the job."""
        return 1 + int((self.sweep or {}).get("warm_up") or 0)


def options_of(kind: type[Options], given: Options | Mapping[str, Any] | None) -> Options:
    """Make options of a dict; raise a UsageError if a name is unknown."""
    if given is None:
        return kind()
    if not isinstance(given, Mapping):
        return given
    known = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise UsageError(f"unknown option '{name}'. {suggest(str(name), known)}")
    return kind(**given)
