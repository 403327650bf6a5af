"""What follows from the columns of a configuration, and what must hold for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.decide.question.equal_rows import without
from foretell.errors import UsageError, suggest
from foretell.spaces.columns import column_of
from foretell.spaces.expressions import Expression


@dataclass(frozen=True)
class Rules:
    """Derived columns, and conditions.

    Attributes
    ----------
    derive
        Columns that are computed from others.
    only
        What must hold for a configuration.
    within
        The least and the most of columns, whatever their names.
    excluded
        Configurations that are left out.
    """

    derive: Mapping[str, Expression] = field(default_factory=dict)
    only: tuple[Expression, ...] = ()
    within: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    excluded: pd.DataFrame | None = field(default=None, compare=False)

    def __bool__(self) -> bool:
        is_any = self.derive or self.only or self.within
        return bool(is_any) or self.excluded is not None

    @property
    def names(self) -> set[str]:
        """All columns that they speak of."""
        spoken = {name for e in (*self.only, *self.derive.values()) for name in e.names}
        return spoken | {*self.derive, *self.within}

    def applied(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add the derived columns, and keep the rows for which all holds."""
        frame = self.pruned(self.derived(frame))
        if self.excluded is not None:
            frame = without(frame, self.excluded)
        return frame.reset_index(drop=True)

    def derived(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add the derived columns; those whose sources are there."""
        added = frame
        for name, expression in self.derive.items():
            if name not in added.columns and set(expression.names) <= set(added.columns):
                added = added.copy() if added is frame else added
                added[name] = _tidy(column_of(expression, added))
        return added

    def pruned(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Keep the rows for which all holds that can be told from the columns there are."""
        is_kept = np.ones(len(frame), dtype=bool)
        for name, (least, most) in self.within.items():
            if name in frame.columns:
                values = pd.to_numeric(frame[name], errors="coerce").to_numpy(float)
                is_kept &= (values >= least) & (values <= most)
        for expression in self.only:
            if set(expression.names) <= set(frame.columns):
                is_kept &= column_of(expression, frame).astype(bool)
        return frame[is_kept]

    def check(self, names: Collection[str]) -> None:
        """Raise a UsageError where a rule speaks of a column that is not there."""
        for name, expression in self.derive.items():
            if name in names:
                raise UsageError(f"'{name}' is derived, and given, too; remove one of the two")
            expression.check(names)
        known = [*names, *self.derive]
        for expression in self.only:
            expression.check(known)
        for name in self.within:
            if name not in known:
                raise UsageError(f"--max or --min: no column '{name}'. {suggest(name, known)}")


def _tidy(values: NDArray[np.float64]) -> NDArray[np.float64] | NDArray[np.int64]:
    """Whole numbers as such, so that two workers are not 2.0 of them."""
    is_whole = (values == np.floor(values)).all() and np.abs(values).max(initial=0.0) < 2**53
    return values.astype(np.int64) if is_whole else values


NO_RULES = Rules()
