"""The space to choose from, built from a request and checked against the models."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from foretell.dataset import Dataset, read_dataset
from foretell.decide.question.objective import PlanRequest
from foretell.decide.question.space import Listed, Space, check_columns, make_grid
from foretell.errors import Option, UsageError, listing, suggest
from foretell.predictor import Predictor
from foretell.spaces.rules import Rules
from foretell.spaces.values import Scalar


def space_of(
    asked: PlanRequest,
    candidates: pd.DataFrame | Dataset | Path | str | None,
    predictors: Sequence[Predictor],
    excluded: pd.DataFrame | None = None,
) -> Space:
    """Return what can be chosen; raise a UsageError if it does not fit the models."""
    rules = Rules.of(derive=asked.derive, only=asked.only, least=asked.least, most=asked.most)
    rules = replace(rules, excluded=excluded)
    needed = {name: f"'{name}'{_measured(p, name)}" for p in predictors for name in p.columns}
    targets = listing(p.target for p in predictors)
    who = f"the model of {targets} needs" if len(predictors) == 1 else f"models of {targets} need"
    priced = set() if asked.prices is None else asked.prices.columns
    known = list(dict.fromkeys([*needed, *sorted(priced | rules.names)]))
    space: Space
    if candidates is None and not asked.vary and not asked.fix:
        raise UsageError(
            f"there is nothing to choose from: {who} {listing(needed.values())}",
            remedy=("say what can be chosen with ", Option("vary"), ", and what is given with ",
                    Option("fix")),
        )  # fmt: skip
    if candidates is None:
        given = {*asked.vary, *asked.fix, *rules.derive}
        constant = _never_varied(predictors, given)
        space = make_grid(asked.vary, {**asked.fix, **constant}, rules)
        rules.check(space.axes)
    else:
        space = Listed(_candidates(asked, candidates, predictors), rules)
        rules.check([str(name) for name in space.frame.columns])
    check_columns(space, needed, known, who)
    _check_values(asked, space, predictors)
    return space


def _candidates(
    asked: PlanRequest,
    candidates: pd.DataFrame | Dataset | Path | str,
    predictors: Sequence[Predictor],
) -> pd.DataFrame:
    """Add the values that are the same for all candidates."""
    frame = read_dataset(candidates).frame
    if asked.vary:
        raise UsageError(
            "candidates are listed, so nothing can be varied",
            option=Option("vary", key=next(iter(asked.vary))),
            remedy=("remove it, or ", Option("candidates")),
        )
    twice = [name for name in asked.fix if name in frame.columns]
    if twice:
        raise UsageError(
            "the candidates have this column; remove one of the two",
            option=Option("fix", str(asked.fix[twice[0]]), key=twice[0]),
        )
    constant = _never_varied(predictors, {*frame.columns, *asked.fix, *asked.derive})
    frame = frame.copy()
    for name, value in {**asked.fix, **constant}.items():
        frame[name] = value
    return frame


def _never_varied(predictors: Sequence[Predictor], given: Collection[str]) -> dict[str, Scalar]:
    """Return the value of each column that had only one in training, unless it is given."""
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
    """Say which values of a column were measured."""
    if name in predictor.ranges:
        low, high = predictor.ranges[name]
        return f" (measured: {low:g} to {high:g})"
    if name in predictor.categories:
        return f" (measured: {listing(predictor.categories[name])})"
    return " (true or false)"


def _check_values(asked: PlanRequest, space: Space, predictors: Sequence[Predictor]) -> None:
    """Refuse levels that no run had; and texts, true and false in columns of numbers."""
    for predictor in predictors:
        for name, levels in predictor.categories.items():
            unknown = sorted({str(v) for v in space.values(name)} - set(levels))
            if unknown and not asked.allow_far:
                raise UsageError(
                    f"'{name}' was never measured at {listing(unknown)}. "
                    f"{suggest(unknown[0], levels)}",
                    remedy=("To plan with it all the same, use ", Option("allow_far"), "."),
                )
        for name in predictor.ranges:
            given = asked.vary.get(name)  # a space has the first of 1 and True
            values = given if isinstance(given, list) else space.values(name)
            others = [value for value in values if not _is_number(value)]
            if others:
                raise UsageError(
                    f"'{name}' is a number in the model, not '{others[0]}'; write a range as 1..64",
                    option=_option_of(asked, name),
                )
        _refuse_not_positive(asked, space, predictor)


def _refuse_not_positive(asked: PlanRequest, space: Space, predictor: Predictor) -> None:
    """Refuse zero and negative values of columns that varied, and were always positive.

    Values that a condition on the column excludes do not matter. Where a condition also needs
    other columns, this is left to the model, which sees the configurations that remain.
    """
    rules = space.rules
    shared = {n for e in (*rules.only, *rules.exclude) if len(e.names) > 1 for n in e.names}
    for name, (low, high) in predictor.ranges.items():
        if not 0 < low < high or name in shared:
            continue
        for value in space.values(name):
            if float(value) <= 0 and rules.allows({name: value}):
                raise UsageError(
                    f"'{name}' must be more than 0, not {value}: it was positive in every training "
                    f"row ({low:g} to {high:g}); give positive values",
                    option=_option_of(asked, name),
                )


def _option_of(asked: PlanRequest, name: str) -> Option | None:
    """Return the option that gives the values of a column; None if a table does."""
    words = [word for word in ("vary", "fix") if name in getattr(asked, word)]
    return Option(words[0], key=name) if words else None


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool | np.bool_) and math.isfinite(float(value))
    except (TypeError, ValueError):
        return False
