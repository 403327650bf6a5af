"""Rules for configurations: derived columns, and conditions (`derive`, `only`, `exclude`).

They hold for sweeps, plans and advice alike, for single configurations and for whole tables.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from foretell.errors import Option, UsageError, suggest
from foretell.spaces.expressions import Expression

if TYPE_CHECKING:  # measuring needs the rules for single configurations only, and starts quickly
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Rules:
    """Derived columns, and conditions that a configuration must meet.

    A rule that needs a column which is not there yet is skipped, so that configurations can be
    dropped while they are being put together.

    Attributes
    ----------
    derive
        Columns that are computed from others.
    only, exclude
        Conditions that must hold, and conditions that must not.
    within
        The smallest and largest allowed value of columns, whatever their names.
    excluded
        Configurations that are dropped.

    >>> rules = Rules.of(derive={"cpus": "workers * threads"}, only=["cpus <= 8"])
    >>> rules.allows(rules.with_derived({"workers": 4, "threads": 4}))
    False
    """

    derive: Mapping[str, Expression] = field(default_factory=dict)
    only: tuple[Expression, ...] = ()
    exclude: tuple[Expression, ...] = ()
    within: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    excluded: pd.DataFrame | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls,
        *,
        derive: Mapping[str, str] | None = None,
        only: str | Iterable[str] = (),
        exclude: str | Iterable[str] = (),
        least: Mapping[str, float] | None = None,
        most: Mapping[str, float] | None = None,
    ) -> Rules:
        """Parse rules as they are written in files; one condition may stand without a list."""
        least, most = least or {}, most or {}
        return cls(
            derive={name: Expression(text) for name, text in (derive or {}).items()},
            only=_expressions(only),
            exclude=_expressions(exclude),
            within={
                name: (least.get(name, -math.inf), most.get(name, math.inf))
                for name in {**least, **most}
            },
        )

    @property
    def has_conditions(self) -> bool:
        """Whether columns decide if a configuration is allowed."""
        return bool(self.only or self.exclude or self.within)

    @property
    def names(self) -> set[str]:
        """All columns that the rules mention."""
        expressions = (*self.only, *self.exclude, *self.derive.values())
        return {name for e in expressions for name in e.names} | {*self.derive, *self.within}

    def with_derived(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """Add the derived columns to one configuration."""
        found = {
            name: expression.value(configuration)
            for name, expression in self.derive.items()
            if name not in configuration and expression.names_in(configuration)
        }
        return {**configuration, **found}

    def allows(self, configuration: Mapping[str, Any]) -> bool:
        """Say whether one configuration meets the conditions on the columns that it has."""
        for name, (least, most) in self.within.items():
            if name in configuration and not least <= configuration[name] <= most:
                return False
        return all(
            bool(e.value(configuration)) is wanted
            for e, wanted in self._conditions()
            if e.names_in(configuration)
        )

    def applied(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add the derived columns to a table, and keep the rows that are allowed."""
        from foretell.spaces.rows import without

        frame = self.pruned(self.derived(frame))
        if self.excluded is not None:
            frame = without(frame, self.excluded)
        return frame.reset_index(drop=True)

    def derived(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add the derived columns whose sources are there."""
        from foretell.spaces.columns import column_of

        added = frame
        for name, expression in self.derive.items():
            if name not in added.columns and expression.names_in(added.columns):
                added = added.copy() if added is frame else added
                added[name] = _tidy(column_of(expression, added))
        return added

    def pruned(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Keep the rows that meet the conditions on the columns that are there."""
        import numpy as np
        import pandas as pd

        is_kept = np.ones(len(frame), dtype=bool)
        for name, (least, most) in self.within.items():
            if name in frame.columns:
                values = pd.to_numeric(frame[name], errors="coerce").to_numpy(float)
                is_kept &= (values >= least) & (values <= most)
        for expression, wanted in self._conditions():
            is_kept &= _meets(expression, wanted, frame)
        return frame[is_kept]

    def _conditions(self) -> list[tuple[Expression, bool]]:
        return [(e, True) for e in self.only] + [(e, False) for e in self.exclude]

    def check(self, names: Collection[str]) -> None:
        """Raise a UsageError if a rule mentions a column that does not exist."""
        for name, expression in self.derive.items():
            if name in names:
                raise UsageError(
                    f"'{name}' is both derived and given; remove one of the two",
                    option=Option("derive", expression.text, key=name),
                )
            expression.check(names)
        known = [*names, *self.derive]
        for expression in (*self.only, *self.exclude):
            expression.check(known)
        for name, (_, most) in self.within.items():
            if name not in known:
                word = "most" if math.isfinite(most) else "least"
                raise UsageError(
                    f"there is no column '{name}'. {suggest(name, known)}",
                    option=Option(word, key=name),
                )


def _expressions(texts: str | Iterable[str]) -> tuple[Expression, ...]:
    return tuple(Expression(text) for text in ([texts] if isinstance(texts, str) else texts))


def _meets(expression: Expression, wanted: bool, frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Say which rows meet a condition, or at least those parts of it whose columns are there."""
    import numpy as np

    from foretell.spaces.columns import column_of

    met = np.ones(len(frame), dtype=bool)
    if expression.names_in(frame.columns):
        met &= column_of(expression, frame).astype(bool) == wanted
        return met
    for part in expression.parts(ast.And if wanted else ast.Or):
        # A part may have no value where a part before it, whose columns are missing, is false.
        with suppress(UsageError):
            met &= _meets(part, wanted, frame)
    return met


def _tidy(values: NDArray[np.float64]) -> NDArray[np.float64] | NDArray[np.int64]:
    """Return whole numbers as integers: two workers, not 2.0."""
    import numpy as np

    is_whole = (values == np.floor(values)).all() and np.abs(values).max(initial=0.0) < 2**53
    return values.astype(np.int64) if is_whole else values


NO_RULES = Rules()
