"""Leakage: columns that look derived from the target, such as a cost, a throughput or a CPU time.

Such a column predicts the target almost alone, but is not known before a run. A setting is
different: it has few values, or was chosen independently of the other settings, and what is
measured scatters around any function of it. A derived column has a value of its own in most rows.
It gives the target exactly, together with settings; or it differs between runs of the same settings
as the target does. A column that gives the target up to a few percent, or in the same order, and
depends on the settings as all that is measured does, may be a result or the size of an input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from foretell.model.table import Table
from foretell.spaces.levels import level_names

Array = NDArray[np.float64]

_FEWEST_ROWS = 12
_FEWEST_VALUES = 10
#: A column with a value of its own in more than this share of the rows may be derived.
_LEAST_DISTINCT = 0.5
_MOST_SUSPECTS = 6
_MOST_LEVELS = 30  # of a category that may have a price each
#: The relative error up to which a product of powers is exact, for values are often rounded; and up
#: to which it is near, as an energy is that was measured beside the time.
_EXACT, _NEAR = 2e-3, 0.04
#: The least rank correlation of a column that is a function of the target alone.
_SAME_ORDER = 0.999
_SLOPE_ERROR = 0.02  # of a power that is 1 or -1
_ROUND_DIGITS = 4  # settings are written with so few
#: Runs beyond the first of each configuration that tell how repeats differ.
_FEWEST_REPEATS = 8
#: The least correlation between repeats, and the least F statistic of a column that depends on the
#: settings, as all that is measured does.
_LEAST_CORRELATION, _LEAST_F = 0.97, 20.0


@dataclass(frozen=True)
class Suspicious:
    """Columns that may be results.

    Attributes
    ----------
    derived
        Those that look derived from the target.
    near
        Others that give the target up to a few percent, as an energy or a bill does; the size of an
        input may do so, too.
    """

    derived: tuple[str, ...] = ()
    near: tuple[str, ...] = ()


def suspicious_columns(table: Table) -> Suspicious:
    """Find the columns that may be results of the runs."""
    if len(table.y) < _FEWEST_ROWS or not (table.y > 0).all():
        return Suspicious()
    evidence = _Evidence.of(table)
    derived = tuple(dict.fromkeys(evidence.derived()))
    return Suspicious(derived, tuple(evidence.near(derived)))


@dataclass(frozen=True, eq=False)
class _Evidence:
    """What a table tells of its columns.

    Attributes
    ----------
    suspects
        The log of each numeric column that has a value of its own in most rows.
    settings
        The other columns as regressors, with a constant.
    group
        The number of each row's settings.
    """

    log_y: Array
    suspects: dict[str, Array]
    settings: Array
    group: NDArray[np.int64]
    is_round: frozenset[str]

    @classmethod
    def of(cls, table: Table) -> _Evidence:
        suspects: dict[str, Array] = {}
        parts, known = [np.ones((len(table.y), 1))], []
        rounded = set()
        for column in table.feature_map.columns:
            if column.name not in table.feature_map.numbers:
                levels = level_names(table.frame[column.name])
                names = np.unique(levels)[1:]
                if len(names) < _MOST_LEVELS:
                    parts.append((levels[:, None] == names[None, :]).astype(float))
                known.append(column.name)
                continue
            values = table.frame[column.name].to_numpy(dtype=float)
            is_positive = bool((values > 0).all())
            n_values = len(np.unique(values))
            if is_positive and n_values >= max(_FEWEST_VALUES, _LEAST_DISTINCT * len(values)):
                suspects[column.name] = np.log(values)
                if _is_round(values):
                    rounded.add(column.name)
                continue
            parts.append((np.log(values) if is_positive else values)[:, None])
            known.append(column.name)
        group = np.zeros(len(table.y), dtype=np.int64)
        if known:
            numbers = table.frame.groupby(known, sort=False, dropna=False).ngroup()
            group = np.asarray(numbers, dtype=np.int64)
        settings = np.column_stack(parts)
        return cls(np.log(table.y), suspects, settings, group, frozenset(rounded))

    def derived(self) -> Iterator[str]:
        """Yield the columns that look derived; some more than once."""
        names = list(self.suspects)
        written = [name for name in names if name not in self.is_round]  # not chosen by people
        found = [name for name in written[:_MOST_SUSPECTS] if self._gives_target([name])]
        found += [name for name in names if self._differs_like_target(name)]
        yield from found
        exact = [name for name in written[:_MOST_SUSPECTS] if name not in found]
        others = [name for name in names if name not in written[:_MOST_SUSPECTS]]
        for pair in combinations([*exact, *others[:_MOST_SUSPECTS]], 2):
            if self._gives_target(pair):
                # Time is size / throughput. Without the throughput, the size still explains it.
                yield min(pair, key=lambda name: self._rest([n for n in pair if n != name]))

    def near(self, derived: Sequence[str]) -> list[str]:
        """Return other columns that depend on the settings, and come near the target."""
        measured = [n for n in self.suspects if n not in derived and self._follows_settings(n)]
        return [name for name in measured if self._comes_near_target(name)]

    def _comes_near_target(self, name: str) -> bool:
        """Whether a column gives the target up to a few percent, or is in the same order."""
        from scipy.stats import spearmanr

        values = self.suspects[name]
        if abs(float(spearmanr(values, self.log_y).statistic)) > _SAME_ORDER:
            return True
        rest = min(_rest(self.settings, self.log_y + sign * values) for sign in (-1, 1))
        return rest < _NEAR and self._rest([]) > 2 * rest

    def _gives_target(self, names: Sequence[str]) -> bool:
        """Whether the target is a product of powers of settings and these columns, of power ±1."""
        regressors = self._regressors(names)
        if len(self.log_y) - regressors.shape[1] < _FEWEST_REPEATS:
            return False
        slopes = np.linalg.lstsq(regressors, self.log_y, rcond=None)[0][: len(names)]
        is_product = bool((np.abs(np.abs(slopes) - 1) < _SLOPE_ERROR).all())
        if not is_product or self._rest(names) > _EXACT:
            return False
        needed = min(self._rest([n for n in names if n != name]) for name in names)
        return needed > 5 * _EXACT and any(self._may_follow_settings(n) for n in names)

    def _regressors(self, names: Sequence[str]) -> Array:
        return np.column_stack([*(self.suspects[n] for n in names), self.settings])

    def _rest(self, names: Sequence[str]) -> float:
        """Return how much of the log target a product of powers leaves over."""
        return _rest(self._regressors(names), self.log_y)

    @cached_property
    def _n_repeats(self) -> int:
        return len(self.group) - (int(self.group.max()) + 1)

    def _deviations(self, values: Array) -> Array:
        """Return how far values are from the mean of their settings."""
        counts = np.bincount(self.group)
        means = np.bincount(self.group, values) / counts
        deviations: Array = values - means[self.group]
        return deviations

    def _follows_settings(self, name: str) -> bool:
        """Whether a column depends on the settings, which one drawn at random does not."""
        f = self._dependence(name)
        return f is not None and f > _LEAST_F

    def _may_follow_settings(self, name: str) -> bool:
        f = self._dependence(name)
        return f is None or f > _LEAST_F

    def _dependence(self, name: str) -> float | None:
        """Return by how much more a column differs between settings than it otherwise would.

        This is an F statistic: of groups of the same settings if there are repeats, or else of a
        product of powers. None if there are too few rows, or no settings.
        """
        values = self.suspects[name]
        total = float(((values - values.mean()) ** 2).sum())
        n_groups = len(self.group) - self._n_repeats
        if n_groups < 2:
            return None
        if self._n_repeats >= _FEWEST_REPEATS:
            rest, n_free = float((self._deviations(values) ** 2).sum()), self._n_repeats
        else:
            rest = len(values) * _rest(self.settings, values) ** 2
            n_free = len(values) - int(np.linalg.matrix_rank(self.settings))
        n_used = len(values) - 1 - n_free
        if n_free < _FEWEST_REPEATS or n_used < 1:
            return None
        return (total - rest) / n_used / max(rest / n_free, 1e-300)

    def _differs_like_target(self, name: str) -> bool:
        """Whether repeats that took longer also have a larger, or a smaller, value here."""
        if self._n_repeats < _FEWEST_REPEATS or int(self.group.max()) < 1:
            return False
        mine, targets = self._deviations(self.suspects[name]), self._deviations(self.log_y)
        size = float(np.sqrt((mine**2).sum() * (targets**2).sum()))
        if size < 1e-12:
            return False
        correlation = abs(float(mine @ targets)) / size
        return correlation > _LEAST_CORRELATION and self._may_follow_settings(name)


def _rest(regressors: Array, values: Array) -> float:
    found = np.linalg.lstsq(regressors, values, rcond=None)[0]
    return float(np.sqrt(np.mean((values - regressors @ found) ** 2)))


def _is_round(values: Array) -> bool:
    """Whether all values are written with few digits, as people choose them."""
    digits = _ROUND_DIGITS - 1 - np.floor(np.log10(values))
    scaled = values * 10.0**digits
    return bool(np.allclose(scaled, scaled.round(), rtol=0, atol=1e-6))
