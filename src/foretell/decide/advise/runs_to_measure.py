"""The runs that could be made: plausible plans, smaller jobs like them, and others allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from foretell.decide.advise.past_runs import PastRuns
from foretell.decide.question.space import Grid, Space, make_grid
from foretell.errors import Option, UsageError, suggest
from foretell.predictor import Predictor
from foretell.spaces.rules import NO_RULES, Rules
from foretell.spaces.values import Values

MOST_RUNS = 500
#: For how many of the most promising configurations, smaller jobs are considered.
_N_VARIED = 40
_N_OTHERS = 100


@dataclass(frozen=True)
class Source:
    """Where runs come from.

    ``measure``: values that can be measured, by column, besides those that may be planned; or a
    table of all possible runs.
    """

    space: Space
    predictors: Sequence[Predictor]
    past: PastRuns
    measure: Mapping[str, Values] | pd.DataFrame | None = None
    rules: Rules = NO_RULES
    seed: int = 0

    def runs(self, choices: pd.DataFrame) -> pd.DataFrame:
        """List runs; the configurations that may be chosen come first, the best of them first."""
        if isinstance(self.measure, pd.DataFrame):
            missing = [name for name in choices.columns if name not in self.measure.columns]
            if missing:
                raise UsageError(
                    f"the table of possible runs has no column '{missing[0]}'",
                    option=Option("measure"),
                )
            return self.rules.applied(self.measure[list(choices.columns)])
        parts = [choices, self._varied(choices), self._others(choices)]
        frame = pd.concat([part for part in parts if len(part)], ignore_index=True)
        return self.rules.applied(frame.drop_duplicates(ignore_index=True))[:MOST_RUNS]

    def _varied(self, choices: pd.DataFrame) -> pd.DataFrame:
        """Vary what is given: over the values that the user allows, or else toward smaller jobs."""
        asked = self.measure if isinstance(self.measure, Mapping) else None
        axes = self._smaller(choices) if asked is None else self._asked(asked, choices)
        best = choices[:_N_VARIED]
        if asked is None:  # one column at a time
            parts = [self._crossed(best, {name: values}) for name, values in axes.items()]
        else:
            parts = [self._crossed(best, axes)]
        return pd.concat(parts, ignore_index=True) if parts else choices[:0]

    def _crossed(self, frame: pd.DataFrame, axes: Mapping[str, list[Any]]) -> pd.DataFrame:
        for name, values in axes.items():
            others = []
            for value in values:
                other = frame.copy()
                other[name] = [value] * len(frame)
                others.append(other)
            frame = pd.concat(others, ignore_index=True)
        stale = [name for name in self.space.rules.derive if name in frame.columns]
        return self.space.rules.derived(frame.drop(columns=stale))[list(frame.columns)]

    def _asked(self, asked: Mapping[str, Values], choices: pd.DataFrame) -> dict[str, list[Any]]:
        for name in asked:
            if name not in choices.columns:
                raise UsageError(
                    f"no model has a column '{name}'. {suggest(name, choices.columns)}",
                    option=Option("measure", key=name),
                )
        grid = make_grid(asked, {})
        return {name: list(grid.values(name)) for name in grid.names}

    def _smaller(self, choices: pd.DataFrame) -> dict[str, list[Any]]:
        """Return, for each number that is given, the measured values below it."""
        axes = {}
        for name in choices.columns:
            measured = [p.ranges[name] for p in self.predictors if name in p.ranges]
            if not measured or len(self.space.values(name)) > 1:
                continue
            value, low = float(choices[name].iloc[0]), min(m[0] for m in measured)
            if name in self.past.measured and len(self.past.measured):
                found = sorted(set(self.past.measured[name].tolist()))
            else:
                found = [low, *([(low * value) ** 0.5] if low > 0 else [])]
                is_whole = float(value).is_integer() and float(low).is_integer()
                found = sorted({round(v) if is_whole else v for v in found})
            axes[name] = [v for v in found if low <= v < value]
        return {name: values for name, values in axes.items() if values}

    def _others(self, choices: pd.DataFrame) -> pd.DataFrame:
        """Return some configurations that are less likely to be planned."""
        if isinstance(self.space, Grid):
            frame = self.space.draw(_N_OTHERS, self.seed)
        else:
            frame = next(self.space.blocks(), choices[:0])
            frame = frame.sample(min(_N_OTHERS, len(frame)), random_state=self.seed)
        return frame[list(choices.columns)] if len(frame) else choices[:0]
