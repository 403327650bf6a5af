"""From what is asked to the space to choose from, checked against the models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from foretell.dataset import Dataset, read_dataset
from foretell.decide.question.objective import PlanRequest
from foretell.decide.question.rules import Rules
from foretell.decide.question.space import Listed, Space, check_columns, make_grid
from foretell.errors import UsageError, listing, suggest
from foretell.predictor import Predictor
from foretell.spaces.expressions import Expression
from foretell.spaces.values import Scalar


def space_of(
    asked: PlanRequest,
    candidates: pd.DataFrame | Dataset | Path | str | None,
    predictors: Sequence[Predictor],
    excluded: pd.DataFrame | None = None,
) -> Space:
    """Return what can be chosen; raise a UsageError where models and values do not fit."""
    rules = _rules(asked, excluded)
    needed = {
        name: f"the model of {p.target} needs '{name}'{_measured(p, name)}"
        for p in predictors
        for name in p.columns
    }
    spoken = set() if asked.prices is None else asked.prices.columns
    known = list(dict.fromkeys([*needed, *sorted(spoken | rules.names)]))
    space: Space
    if candidates is None:
        given = {*asked.vary, *asked.fix, *rules.derive}
        constant = _never_varied(predictors, given) if asked.vary or asked.fix else {}
        space = make_grid(asked.vary, {**asked.fix, **constant}, rules)
    else:
        if asked.vary:
            raise UsageError("candidates are listed, so nothing can be varied; remove one of them")
        frame = read_dataset(candidates).frame
        twice = [name for name in asked.fix if name in frame.columns]
        if twice:
            raise UsageError(f"'{twice[0]}' is a column of the candidates, and fixed; remove one")
        constant = _never_varied(predictors, {*frame.columns, *asked.fix, *rules.derive})
        frame = frame.copy()
        for name, value in {**asked.fix, **constant}.items():
            frame[name] = value
        space = Listed(frame, rules)
    rules.check(space.names[: len(space.names) - len(rules.derive)])
    check_columns(space, needed, known)
    _check_values(space, predictors, allow_far=asked.allow_far)
    return space


def _rules(asked: PlanRequest, excluded: pd.DataFrame | None) -> Rules:
    return Rules(
        derive={name: Expression(text) for name, text in asked.derive.items()},
        only=tuple(Expression(text) for text in asked.only),
        within={
            name: (asked.least.get(name, -math.inf), asked.most.get(name, math.inf))
            for name in {**asked.most, **asked.least}
        },
        excluded=excluded,
    )


def _never_varied(predictors: Sequence[Predictor], given: set[str]) -> dict[str, Scalar]:
    """Return the value of each column that had only one in training, and that nobody gave."""
    found: dict[str, Scalar] = {}
    for predictor in predictors:
        found |= {
            name: int(low) if low.is_integer() else low
            for name, (low, high) in predictor.ranges.items()
            if low == high
        }
        found |= {
            name: levels[0] for name, levels in predictor.categories.items() if len(levels) == 1
        }
    return {name: value for name, value in found.items() if name not in given}


def _measured(predictor: Predictor, name: str) -> str:
    """Say what was measured of a column."""
    if name in predictor.ranges:
        low, high = predictor.ranges[name]
        return f" (measured: {low:g} to {high:g})"
    return f" (measured: {listing(predictor.categories.get(name, []))})"


def _check_values(space: Space, predictors: Sequence[Predictor], *, allow_far: bool) -> None:
    """Refuse levels that no run had, and texts where numbers belong."""
    for predictor in predictors:
        for name, levels in predictor.categories.items():
            unknown = sorted({str(v) for v in space.values(name)} - set(levels))
            if unknown and not allow_far:
                raise UsageError(
                    f"'{name}' was never measured at {listing(unknown)}. "
                    f"{suggest(unknown[0], levels)} --allow-far plans with it all the same."
                )
        for name in predictor.ranges:
            texts = [v for v in space.values(name) if not _is_number(v)]
            if texts:
                raise UsageError(
                    f"'{name}' is a number in the model, and '{texts[0]}' is none; a range is "
                    "written 1..64"
                )


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError):
        return False
