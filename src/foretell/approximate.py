"""Approximate answers from a part of the partitions: which are kept, and totals with their error.

A job whose partitions are dropped reads only those that `kept_partitions` names. Its sums and
counts are scaled to all partitions, with a bound that holds in 95 % of the cases if partitions
were filled without regard to what is counted.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt

from foretell.errors import Option, UsageError
from foretell.wording import short

#: Where the dispatcher says what a job may drop, and the seed that chooses what.
DROP, SEED = "FORETELL_DROP", "FORETELL_SEED"
MOST_DROPPED = 0.95
_CONFIDENCE = 0.95
#: n(1 − θ) is a whole number in most cases, and only nearly one in floating point.
_ROUNDING = 1e-9

Key = TypeVar("Key", bound=Hashable)
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A total over all partitions, estimated from those that were kept.

    Attributes
    ----------
    value
        The estimate.
    bound
        How far the true total may be from it: 95 % of such intervals cover it. None where fewer
        than two partitions were kept, for one says nothing about how much they differ.
    low, high
        The ends of the interval; None without a bound.

    >>> print(Estimate(1250.0, 37.5, low=1212.5, high=1287.5, n_kept=4, n_partitions=5))
    1,250 ± 37.5 (95 %, from 4 of 5 partitions)
    >>> print(Estimate(1250.0, None, low=None, high=None, n_kept=1, n_partitions=5))
    1,250, no bound: only 1 of 5 partitions was kept
    """

    value: float
    bound: float | None
    low: float | None
    high: float | None
    n_kept: int
    n_partitions: int

    def __str__(self) -> str:
        if self.bound is None:
            return f"{self.value:,.6g}, no bound: only 1 of {self.n_partitions} partitions was kept"
        kept = f"from {self.n_kept} of {self.n_partitions} partitions"
        if self.n_kept == self.n_partitions:
            return f"{self.value:,.6g} (exact, {kept})"
        return f"{self.value:,.6g} ± {self.bound:,.3g} (95 %, {kept})"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"value": self.value, "bound": self.bound, "low": self.low, "high": self.high,
                "n_kept": self.n_kept, "n_partitions": self.n_partitions}  # fmt: skip


def n_kept(n: int, drop: float) -> int:
    """Return how many of n partitions stay when a share is dropped: at least one.

    >>> n_kept(50, 0.2), n_kept(5, 0.1), n_kept(3, 0.95)
    (40, 5, 1)
    """
    return min(n, max(1, math.ceil(n * (1 - drop) - _ROUNDING)))


def kept_partitions(
    n: int, drop: float | None = None, seed: int | None = None, *, stage: int = 0
) -> list[int]:
    """Choose which partitions of a job are read: a random subset, fixed by the seed.

    A retry of the job sees the same subset. Of two shares to drop, the larger one keeps a subset
    of what the smaller one keeps.

    Parameters
    ----------
    n
        How many partitions there are.
    drop
        The share to drop, at most 0.95; by default what the dispatcher says (FORETELL_DROP), or 0.
    seed
        By default that of the dispatcher (FORETELL_SEED), or 0.
    stage
        Another number gives another subset, for jobs that drop in several stages.

    >>> kept_partitions(5, drop=0.2, seed=14)
    [0, 1, 3, 4]
    >>> kept_partitions(5)
    [0, 1, 2, 3, 4]
    """
    if n < 0:
        raise UsageError(f"must be the number of partitions, not {n}", option=Option("n", str(n)))
    share = _drop(os.environ.get(DROP) or 0.0) if drop is None else _drop(drop)
    chooser = _seed(os.environ.get(SEED) or 0) if seed is None else seed
    ranked = sorted(range(n), key=lambda i: _rank(chooser, stage, i))
    return sorted(ranked[: n_kept(n, share)])


def _rank(seed: int, stage: int, partition: int) -> bytes:
    """Return a number as good as random that no version of a library changes."""
    return hashlib.sha256(f"{seed}/{stage}/{partition}".encode()).digest()


def _drop(value: float | str) -> float:
    try:
        share = float(value)
    except ValueError:
        share = math.nan
    if not 0 <= share <= MOST_DROPPED:
        raise UsageError(
            f"must be a share from 0 to {MOST_DROPPED:g}, not {value}; "
            "write 0.2 to drop a fifth of the partitions",
            option=Option("drop", str(value)),
        )
    return share


def _seed(value: int | str) -> int:
    try:
        return int(value)
    except ValueError:
        raise UsageError(
            f"{SEED} must be a whole number, not {value}", option=Option("seed", str(value))
        ) from None


@overload
def estimate_sum(
    values: Sequence[Mapping[Key, float]],
    n: int,
    *,
    kept: int | None = None,
    by_key: bool | None = None,
) -> dict[Key, Estimate]: ...
@overload
def estimate_sum(
    values: Iterable[float],
    n: int,
    *,
    kept: int | None = None,
    by_key: Literal[False] | None = None,
) -> Estimate: ...
def estimate_sum(
    values: Iterable[Any], n: int, *, kept: int | None = None, by_key: bool | None = None
) -> Estimate | dict[Any, Estimate]:
    """Estimate a sum over all partitions from the sums of those that were kept.

    Parameters
    ----------
    values
        The sum of each kept partition; or a mapping for each, for sums by key. A key that a
        partition does not have counts as zero there.
    n
        How many partitions there are in all.
    kept
        How many were kept, where only those with something to sum are listed.
    by_key
        Whether there is a mapping for each; by default as the first one is. Say it where the list
        may be empty.

    >>> print(estimate_sum([210.0, 190.0, 205.0, 195.0], n=5))
    1,000 ± 32.5 (95 %, from 4 of 5 partitions)
    >>> words = estimate_sum([{"a": 3.0, "b": 1.0}, {"a": 5.0}], n=4)
    >>> print(words["a"])
    16 ± 35.9 (95 %, from 2 of 4 partitions)
    """
    return _estimate(values, n, kept, by_key)


@overload
def estimate_count(
    values: Sequence[Mapping[Key, float]],
    n: int,
    *,
    kept: int | None = None,
    by_key: bool | None = None,
) -> dict[Key, Estimate]: ...
@overload
def estimate_count(
    values: Iterable[float],
    n: int,
    *,
    kept: int | None = None,
    by_key: Literal[False] | None = None,
) -> Estimate: ...
def estimate_count(
    values: Iterable[Any], n: int, *, kept: int | None = None, by_key: bool | None = None
) -> Estimate | dict[Any, Estimate]:
    """Estimate a count over all partitions from the counts of those that were kept.

    As `estimate_sum`; the interval does not go below what was counted, for a partition that was
    dropped cannot hold fewer than none.

    >>> estimate = estimate_count([9, 1], n=4)
    >>> estimate.value, estimate.low
    (20.0, 10.0)
    """
    return _estimate(values, n, kept, by_key, is_count=True)


def _estimate(
    values: Iterable[Any],
    n: int,
    kept: int | None,
    by_key: bool | None,
    *,
    is_count: bool = False,
) -> Estimate | dict[Any, Estimate]:
    listed = list(values)
    is_keyed = bool(listed) and isinstance(listed[0], Mapping)
    if by_key is not None and listed and by_key != is_keyed:
        raise UsageError(
            "must be True for a mapping for each kept partition, and False for a number",
            option=Option("by_key", str(by_key)),
        )
    if is_keyed or by_key:
        keys = list(dict.fromkeys(key for one in listed for key in one))
        table = np.array([[one.get(key, 0) for one in listed] for key in keys], dtype=float)
        table = table.reshape(len(keys), len(listed))
        return dict(zip(keys, _estimates(table, n, kept, is_count), strict=True))
    try:
        totals = np.array([listed], dtype=float)
    except (TypeError, ValueError):
        raise UsageError(
            "must be a number or a dict for each kept partition, not "
            f"{short(repr(listed[0]))}; a function for mapPartitions yields one of them",
            option=Option("values"),
        ) from None
    return _estimates(totals, n, kept, is_count)[0]


def _estimates(table: Floats, n: int, kept: int | None, is_count: bool) -> list[Estimate]:
    """Estimate the total of each row, which has the value of every kept partition.

    With m of n partitions kept at random, (n/m)·Σy has the variance n²(1 − m/n)s²/m.
    """
    m = table.shape[1] if kept is None else kept
    _check(table, m, n, is_count)
    seen = table.sum(axis=1)
    totals = seen * n / m
    bounds = _half_widths(table, m, n)
    if bounds is None:
        return [Estimate(float(t), None, None, None, m, n) for t in totals]
    lows = np.maximum(totals - bounds, seen) if is_count else totals - bounds
    return [
        Estimate(float(total), float(bound), float(low), float(total + bound), m, n)
        for total, bound, low in zip(totals, bounds, lows, strict=True)
    ]


def _half_widths(table: Floats, m: int, n: int) -> Floats | None:
    if m == n:
        return np.zeros(len(table))
    if m < 2:
        return None
    from scipy.special import stdtrit  # a tenth of the import time of scipy.stats

    means = table.sum(axis=1, keepdims=True) / m
    n_zeros = m - table.shape[1]
    squares = ((table - means) ** 2).sum(axis=1) + n_zeros * means[:, 0] ** 2
    variances = n**2 * (1 - m / n) * squares / (m - 1) / m
    return np.asarray(stdtrit(m - 1, (1 + _CONFIDENCE) / 2) * np.sqrt(variances))


def _check(table: Floats, m: int, n: int, is_count: bool) -> None:
    if not 1 <= m <= n:
        raise UsageError(
            f"{m} of {n} partitions were kept; give one value for each kept partition, and all "
            "partitions as n"
        )
    if table.shape[1] > m:
        raise UsageError(f"{table.shape[1]} values for {m} kept partitions; give one for each")
    if not np.isfinite(table).all():
        raise UsageError("the values of partitions must be finite numbers")
    if is_count and (table < 0).any():
        raise UsageError("a count cannot be negative; use estimate_sum for sums")
