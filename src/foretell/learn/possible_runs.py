"""The runs that can be made for a question: the values of the sweep, and those to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from foretell.decide.advise.first_runs import first_runs, small_runs
from foretell.decide.question.objective import PlanRequest
from foretell.errors import Option, UsageError, suggest
from foretell.measure.sweep import Sweep
from foretell.spaces.rules import Rules
from foretell.spaces.values import Range, Scalar, Values, listed

_N_OF_RANGE = 5  # values that are measured of a range without steps


@dataclass(frozen=True)
class PossibleRuns:
    """What can be measured to answer a question."""

    sweep: Sweep
    request: PlanRequest

    def first(self) -> list[dict[str, Any]]:
        """List the runs to start with."""
        runs = first_runs(self._all_values, self.request.fix, self.small())
        runs = [run for run in runs if self._rules.allows(run)]
        if not runs:
            raise UsageError(
                "there is no run to start with: 'only' and 'exclude' of the sweep forbid all of "
                "them; relax them"
            )
        return runs

    def small(self) -> list[dict[str, Any]]:
        """List all runs up to the size of the job, the smallest first."""
        runs = small_runs(self._all_values, self.request.fix)
        return [run for run in runs if self._rules.allows(run)]

    def smaller(self) -> dict[str, Values]:
        """Return the values up to those of the job, for the columns that are given."""
        axes: dict[str, Values] = {}
        for name, value in self.request.fix.items():
            found = self._values(name) if name in self.sweep.names else []
            if len(found) > 1 and not any(isinstance(v, str | bool) for v in [value, *found]):
                axes[name] = [v for v in found if v < value] + [value]  # type: ignore[operator]
        return axes

    @cached_property
    def _rules(self) -> Rules:
        return Rules.of(only=self.sweep.only, exclude=self.sweep.exclude)

    @cached_property
    def _all_values(self) -> dict[str, list[Scalar]]:
        return {name: self._values(name) for name in self.sweep.names}

    def _values(self, name: str) -> list[Scalar]:
        """Return what can be measured of a column: what may be planned, or what the sweep has."""
        if name in self.request.vary:
            return _listed(self.request.vary[name])
        found = _listed(self.sweep.parameters.get(name, []))
        return found + [c[name] for c in self.sweep.configurations if name in c]

    def check(self) -> None:
        """Refuse a question that the sweep cannot answer, before anything is measured."""
        self.request.question()
        asked = {*self.request.vary, *self.request.fix}
        for name in self.sweep.names:
            values = self.sweep.parameters.get(name)
            is_fixed = values is not None and len(_listed(values)) == 1
            if name not in {*asked, *self.request.derive} and not is_fixed:
                raise UsageError(
                    f"the sweep has several values of '{name}'",
                    remedy=("give one with ", Option("fix", key=name),
                            ", or the values to choose from with ", Option("vary", key=name)),
                )  # fmt: skip
        priced = set() if self.request.prices is None else self.request.prices.columns
        for name in asked - {*self.sweep.names, *self.sweep.derive, *priced}:
            raise UsageError(
                f"'{name}' is not a parameter of the sweep. {suggest(name, self.sweep.names)}"
            )


def never_changed(tried: Sequence[Mapping[Any, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of the job that had one value in all runs, and that value."""
    found = {name: {run[name] for run in tried if name in run} for name in given}
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def _listed(values: Values) -> list[Scalar]:
    if isinstance(values, Range) and values.is_continuous:
        values = values.model_copy(update={"n": _N_OF_RANGE, "whole": values.is_whole})
    return list(listed(values))
