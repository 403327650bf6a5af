"""The runs behind an impact: their settings as levels, cells of equal runs, and workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import PARAMETER, Dataset, as_numbers, describe_rows
from foretell.decide.impact.question import ImpactQuestion
from foretell.errors import DatasetError, Option, Remedy, UsageError, listing
from foretell.outcomes import OUTCOMES

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

#: Columns that number repeats, unless they are named as settings.
REPEATS = frozenset({"repeat", "repetition", "rep", "run", "run_id", "trial", "trial_id", "seed"})
#: A column with more different values, as a share of the runs, may be a result.
_NEARLY_ALL = 0.9
#: The level of a cell that is empty.
NOTHING = "–"


@dataclass(frozen=True)
class Workload:
    """Runs of one workload: what tells it apart, and its rows."""

    at: Mapping[str, Any]
    rows: Numbers

    @property
    def name(self) -> str:
        """Its values in one text; all runs, if nothing tells them apart."""
        return ", ".join(str(value) for value in self.at.values()) or "all runs"


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs that were checked.

    Attributes
    ----------
    frame
        The settings, the columns of workloads, and what is judged, as numbers.
    settings
        The settings of which there are several values.
    codes, levels
        The number of the level of each run in each setting, and the levels, in order.
    cell
        The number of each run's cell: runs equal in all settings, of one workload.
    """

    frame: pd.DataFrame
    settings: tuple[str, ...]
    codes: Numbers
    levels: Mapping[str, list[Any]]
    cell: Numbers
    workloads: tuple[Workload, ...]
    notes: tuple[str, ...] = ()

    def take(self, rows: Numbers) -> Runs:
        """Return some of the runs."""
        return replace(
            self,
            frame=self.frame.iloc[rows].reset_index(drop=True),
            codes=self.codes[rows],
            cell=np.unique(self.cell[rows], return_inverse=True)[1],
        )

    def varied(self) -> list[int]:
        """List the positions of settings that have several levels in these runs, none empty."""
        found = []
        for j, name in enumerate(self.settings):
            codes = np.unique(self.codes[:, j])
            if len(codes) > 1 and not any(self.levels[name][c] == NOTHING for c in codes):
                found.append(j)
        return found

    @property
    def n_repeats(self) -> tuple[int, int]:
        """The least and the largest number of runs of a cell."""
        counts = np.bincount(self.cell)
        return int(counts.min()), int(counts.max())


def prepare_runs(dataset: Dataset, asked: ImpactQuestion) -> Runs:
    """Check the columns and values of a table, and find its settings, cells and workloads."""
    judged = [o.name for o in asked.outcomes]
    needed = [*judged, *asked.by, *asked.system, *asked.hyper, *asked.cost.columns, *asked.baseline]
    dataset.require(needed)
    dataset.require([name for name in asked.skip if name not in dataset.unreadable])
    dataset, notes = dataset.for_target(asked.target, kept=needed)
    notes = [note for note in notes if "looks like numbers with a unit" not in note]
    dataset = _measured(dataset, judged, notes)
    frame = _judged_as_numbers(dataset, asked)
    named = (*asked.system, *asked.hyper)
    settings = [
        name
        for name in dataset.columns
        if name in named or not _is_no_setting(name, dataset, asked)
    ]
    settings = _without_results(dataset, named, settings, notes)
    notes += _notes_of_columns(dataset, asked, settings)
    several = [name for name in settings if dataset.frame[name].nunique(dropna=False) > 1]
    if not several:
        raise DatasetError(
            f"{dataset.name} has one value only of {listing(settings)}"
            if settings
            else f"{dataset.name} has no settings beside what is judged: {listing(judged)}",
            remedy=("vary a setting, and measure again",),
        )
    _check_baseline(dataset, asked, settings)
    codes, levels = _coded(dataset, several)
    by, cell = _workloads(dataset, asked), _cells(dataset, codes, asked)
    return Runs(frame, tuple(several), codes, levels, cell, by, tuple(notes))


def _is_no_setting(name: str, dataset: Dataset, asked: ImpactQuestion) -> bool:
    if name in {o.name for o in asked.outcomes} | {*asked.by, *asked.skip}:
        return True
    if name == asked.cost.out_gb or name.lower() in REPEATS or name == "status":
        return True
    return name in OUTCOMES or dataset.roles.get(name, PARAMETER) != PARAMETER


def _without_results(
    dataset: Dataset, named: tuple[str, ...], settings: list[str], notes: list[str]
) -> list[str]:
    """Leave out columns that differ between repeats, as results do and settings do not."""
    frame = dataset.frame
    suspects = [
        name
        for name in settings
        if name not in named
        and pd.api.types.is_float_dtype(frame[name])
        and frame[name].nunique() > _NEARLY_ALL * len(frame)
    ]
    others = [name for name in settings if name not in suspects]
    if PARAMETER in dataset.roles.values() or not suspects or not others:
        return settings
    n_repeats = frame.groupby(others, dropna=False, observed=True).size().median()
    if n_repeats < 2:  # it may be a setting that was drawn at random
        return settings
    notes.append(
        f"Left out as results, not settings: {listing(suspects)}. They differ in nearly every run, "
        "and runs with equal other columns are repeats."
    )
    return others


def _notes_of_columns(dataset: Dataset, asked: ImpactQuestion, settings: list[str]) -> list[str]:
    """Say which columns count as repeats, which never vary, and which look like results."""
    notes = []
    repeats = [n for n in dataset.columns if n.lower() in REPEATS and n not in settings]
    repeats = [n for n in repeats if n not in (*asked.skip, *asked.by)]
    if repeats:
        notes.append(f"{listing(repeats)}: taken for a number of repeats, not for a setting.")
    named = [*asked.system, *asked.hyper]
    frame = dataset.frame
    if same := [n for n in settings if frame[n].nunique(dropna=False) == 1 and n in named]:
        notes.append(f"Nothing can be said of {listing(same)}: all runs have one value of it.")
    for name in settings:
        is_float = pd.api.types.is_float_dtype(frame[name])
        if name in named or dataset.roles.get(name) == PARAMETER:
            continue
        if is_float and frame[name].nunique() > _NEARLY_ALL * len(frame) > 9:
            notes.append(
                f"Column '{name}' has another value in nearly every run. If it is a result and "
                "not a setting, skip it."
            )
    return notes


def _check_baseline(dataset: Dataset, asked: ImpactQuestion, settings: list[str]) -> None:
    """Refuse a baseline of what is no setting, and a value that no run has."""
    for name, given in asked.baseline.items():
        option = Option("baseline", str(given), key=name)
        if name not in settings:
            raise UsageError(f"'{name}' is no setting, only {listing(settings)}", option=option)
        levels = _coded(dataset, [name])[1][name]
        if given_level(levels, given) is None:
            raise UsageError(f"'{name}' was never {given}; it was {listing(levels)}", option=option)


def given_level(levels: Sequence[Any], given: Any) -> Any:
    """Return the level that a value stands for; None if it is none of them.

    >>> given_level(["on", "off"], "ON"), given_level([1, 2], "2.0"), given_level([1, 2], 3)
    ('on', 2, None)
    """
    for level in levels:
        if str(level).lower() == str(given).lower() or _same_number(level, given):
            return level
    return None


def _same_number(level: Any, given: Any) -> bool:
    try:
        return float(level) == float(given)
    except (TypeError, ValueError):
        return False


def _measured(dataset: Dataset, judged: list[str], notes: list[str]) -> Dataset:
    """Leave out rows in which something judged is missing, as in failed runs."""
    keep = np.ones(len(dataset.frame), dtype=bool)
    for name in judged:
        keep &= dataset.measurements(name, np.ones(len(keep), dtype=bool))[0]
    if not keep.any():
        raise DatasetError(f"{dataset.name} has no run in which {listing(judged)} was measured")
    if not keep.all():
        notes.append(
            f"{(~keep).sum()} of {len(keep)} runs were left out: {listing(judged)} is missing."
        )
    return dataset.take(keep)


def _judged_as_numbers(dataset: Dataset, asked: ImpactQuestion) -> pd.DataFrame:
    frame = dataset.frame.copy()
    for outcome in asked.outcomes:
        values = as_numbers(frame[outcome.name])
        if outcome.is_ratio and (values <= 0).any():
            told = describe_rows(values <= 0, dataset.row_numbers, "value")
            raise DatasetError(
                f"{dataset.name}, column '{outcome.name}' must be positive to be compared by "
                f"ratios; it has {told} ≤ 0. Correct them, or leave them empty if the run failed.",
                remedy=() if asked.quality else _as_quality(outcome.name, values, dataset),
            )
        if not outcome.is_ratio and values.max() <= 0:
            raise DatasetError(
                f"{dataset.name}, column '{outcome.name}' has no positive value, and a quality is "
                "compared with its best one",
                remedy=("change its sign or its unit",),
            )
        frame[outcome.name] = values
    return frame


def _as_quality(target: str, values: Array, dataset: Dataset) -> Remedy:
    """Say how to judge a target that is not positive: beside a time, as qualities are."""
    if values.max() <= 0:
        return ("Change its sign.",) if values.max() < 0 else ()
    roles = dataset.roles.items()
    times = [name for name, role in roles if role != PARAMETER and name.endswith("_s")]
    time = times[0] if times else "..."
    return (
        "Or judge it beside a time, with ",
        Option("target", time),
        " and ",
        Option("quality", target),
    )


def _coded(dataset: Dataset, names: list[str]) -> tuple[Numbers, dict[str, list[Any]]]:
    codes, levels = [], {}
    for name in names:
        column = dataset.frame[name]
        if not pd.api.types.is_numeric_dtype(column):
            column = column.astype(object).where(column.isna(), column.astype(str))
        numbers, found = pd.factorize(column, sort=True)
        levels[name] = [_plain(value) for value in found]
        if (numbers < 0).any():
            numbers = np.where(numbers < 0, len(found), numbers)
            levels[name].append(NOTHING)
        codes.append(numbers.astype(np.int64))
    return np.column_stack(codes), levels


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _cells(dataset: Dataset, codes: Numbers, asked: ImpactQuestion) -> Numbers:
    keys = np.column_stack([codes, _coded(dataset, list(asked.by))[0]]) if asked.by else codes
    return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)


def _workloads(dataset: Dataset, asked: ImpactQuestion) -> tuple[Workload, ...]:
    if not asked.by:
        return (Workload({}, np.arange(len(dataset.frame))),)
    dataset.refuse_missing(asked.by)
    codes, levels = _coded(dataset, list(asked.by))
    found = []
    for code in np.unique(codes, axis=0):
        at = {name: levels[name][c] for name, c in zip(asked.by, code, strict=True)}
        found.append(Workload(at, np.flatnonzero((codes == code).all(axis=1))))
    return tuple(found)
