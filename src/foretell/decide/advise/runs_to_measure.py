"""Which runs could be made: what may be planned, smaller ones like it, and what is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from foretell.decide.advise.past_runs import PastRuns
from foretell.decide.question.equal_rows import plain_rows
from foretell.decide.question.space import Grid, Space, make_grid
from foretell.errors import UsageError, suggest
from foretell.predictor import Predictor
from foretell.spaces.expressions import Expression
from foretell.spaces.values import Values

MOST_RUNS = 500
#: Of so many configurations that may be planned, runs with other values are looked at.
_N_VARIED = 40
_N_OTHERS = 100


@dataclass(frozen=True)
class Source:
    """Where runs are looked for.

    Attributes
    ----------
    measure
        Values to measure at, by column, besides those that may be planned; or all runs there are.
    rules
        What must hold for a run, and what must not.
    """

    space: Space
    predictors: Sequence[Predictor]
    past: PastRuns
    measure: Mapping[str, Values] | pd.DataFrame | None = None
    rules: Sequence[tuple[Expression, bool]] = ()
    seed: int = 0

    def runs(self, choices: pd.DataFrame) -> pd.DataFrame:
        """List runs; the configurations that may be chosen come first, the best of them first."""
        if isinstance(self.measure, pd.DataFrame):
            missing = [name for name in choices.columns if name not in self.measure.columns]
            if missing:
                raise UsageError(f"the runs to choose from have no column '{missing[0]}'")
            return self._allowed(self.measure[list(choices.columns)])
        parts = [choices, self._varied(choices), self._others(choices)]
        frame = pd.concat([part for part in parts if len(part)], ignore_index=True)
        return self._allowed(frame.drop_duplicates(ignore_index=True))[:MOST_RUNS]

    def _allowed(self, frame: pd.DataFrame) -> pd.DataFrame:
        kept = np.ones(len(frame), dtype=bool)
        for expression, wanted in self.rules:
            if set(expression.names) <= set(frame.columns):
                found = [bool(expression.value(c)) is wanted for c in plain_rows(frame)]
                kept &= np.array(found, dtype=bool)
        return frame[kept].reset_index(drop=True)

    def _varied(self, choices: pd.DataFrame) -> pd.DataFrame:
        """Vary what is given: by what was asked for, or else towards smaller ones."""
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
            others = [frame.assign(**{name: pd.Series([v] * len(frame))}) for v in values]
            frame = pd.concat(others, ignore_index=True)
        return self.space.rules.derived(frame)[list(frame.columns)]

    def _asked(self, asked: Mapping[str, Values], choices: pd.DataFrame) -> dict[str, list[Any]]:
        for name in asked:
            if name not in choices.columns:
                raise UsageError(
                    f"--measure {name}=...: no model knows a column '{name}'. "
                    f"{suggest(name, choices.columns)}"
                )
        grid = make_grid(asked, {})
        return {name: list(grid.values(name)) for name in grid.names}

    def _smaller(self, choices: pd.DataFrame) -> dict[str, list[Any]]:
        """Return, for each number that is given and not chosen, what was measured below it."""
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
        """Return some of the space that look less likely to be planned."""
        if isinstance(self.space, Grid):
            frame = self.space.draw(_N_OTHERS, self.seed)
        else:
            frame = next(self.space.blocks())
            frame = frame.sample(min(_N_OTHERS, len(frame)), random_state=self.seed)
        return frame[list(choices.columns)] if len(frame) else choices[:0]
