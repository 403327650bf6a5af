"""The values that the other columns keep while one of them is varied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.errors import Option, UsageError, suggest
from foretell.model.saved.model import SavedModel
from foretell.report.findings import Findings


def parse_at(words: Sequence[str]) -> dict[str, str]:
    """Read settings written as COLUMN=VALUE.

    >>> parse_at(["threads=4", "machine=c4=x"])
    {'threads': '4', 'machine': 'c4=x'}
    """
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise UsageError(
                f"must be COLUMN=VALUE, not '{word}'",
                option=Option("at"),
                remedy=("write it as ", Option("at", "4", key="threads")),
            )
        if name.strip() in found:
            raise UsageError(
                f"'{name.strip()}' is given twice; give one value", option=Option("at")
            )
        found[name.strip()] = value.strip()
    return found


def choose_settings(findings: Findings, at: Mapping[str, Any]) -> dict[str, Any]:
    """Return one value per column: those asked for, the others from the middle of the data."""
    model = findings.model
    assert model is not None
    given = {name: _checked(model, name, value) for name, value in at.items()}
    runs = findings.measured
    if runs is None:
        return {name: given.get(name, _middle(model, name)) for name in model.columns}
    matching = _same(runs, given)
    return {**_central(runs[matching] if matching.any() else runs, model), **given}


def at_settings(runs: pd.DataFrame, settings: Mapping[str, Any], varied: str) -> pd.DataFrame:
    """Return the runs with these settings, whatever the varied column is."""
    return runs[_same(runs, {n: v for n, v in settings.items() if n != varied})]


def _same(runs: pd.DataFrame, settings: Mapping[str, Any]) -> NDArray[np.bool_]:
    same = np.ones(len(runs), dtype=bool)
    for name, value in settings.items():
        if isinstance(value, float):
            same &= np.isclose(runs[name].to_numpy(dtype=float), value, rtol=1e-9, atol=0)
        else:
            same &= (runs[name].astype(str) == str(value)).to_numpy()
    return same


def _checked(model: SavedModel, name: str, value: Any) -> Any:
    option = Option("at", str(value), key=name)
    if name not in model.columns:
        raise UsageError(
            f"the model has no column '{name}'. {suggest(name, model.columns)}", option=option
        )
    if name in model.ranges:
        try:
            found = float(value)
        except (TypeError, ValueError):
            found = np.nan
        if not np.isfinite(found):
            raise UsageError(f"'{name}' must be a finite number, not '{value}'", option=option)
        return found
    levels = levels_of(model, name)
    for level in levels:
        if str(level).lower() == str(value).lower():
            return level
    raise UsageError(
        f"'{name}' was never '{value}' in the data. {suggest(str(value), map(str, levels))}",
        option=option,
    )


def levels_of(model: SavedModel, name: str) -> Sequence[Any]:
    """Return the levels of a column that is not a number."""
    return model.categories.get(name, (False, True))


def _middle(model: SavedModel, name: str) -> Any:
    if name not in model.ranges:
        return levels_of(model, name)[0]
    low, high = model.ranges[name]
    middle = float(np.sqrt(low * high)) if low > 0 else (low + high) / 2
    levels = model.levels.get(name)
    return float(min(levels, key=lambda v: abs(v - middle))) if levels else middle


def _central(runs: pd.DataFrame, model: SavedModel) -> dict[str, Any]:
    """Return the measured configuration nearest to the middle of every column."""
    away = np.zeros(len(runs))
    for name in model.columns:
        if name in model.ranges:
            away += np.abs(runs[name].rank(pct=True).to_numpy() - 0.5)
        else:
            away += 0.5 * (runs[name] != runs[name].mode().iloc[0]).to_numpy()
    row = runs.iloc[int(np.argmin(away))]
    return {name: float(row[name]) if name in model.ranges else row[name] for name in model.columns}
