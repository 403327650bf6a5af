"""Searching spaces that are too large to look at as a whole: sample, then refine what matters."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from foretell.decide.plan.assess import Assessor, Figures
from foretell.decide.plan.choose import PlanChooser, Shortlist
from foretell.decide.question.objective import EVEN
from foretell.decide.question.space import Grid
from foretell.predictor import Predictor
from foretell.spaces.rows import without

_N_DRAWN = 20_000
#: Rules may forbid most of what is drawn; how often more is drawn to have enough.
_MOST_DRAWS = 20
_N_STARTS = 12
_N_JUMPS = 400
_MOST_STEPS = 16
_MOST_PAIRS = 10  # of columns that are varied together
#: A search ends after this many steps in a row that changed nothing.
_PATIENCE = 3
#: How far outside the measured range a search looks closely, as a factor; rehearsals of models
#: rarely reach further, so configurations beyond may not be chosen anyway.
_REACH = 16.0


def search(space: Grid, assessor: Assessor, chooser: PlanChooser, seed: int) -> Shortlist:
    """Look at a sample, then around the best found so far: along each column, and by jumps.

    Later steps look closer at long axes. Only the part of the space near the measured ranges is
    searched closely: a sample of the whole of a very long axis hits few configurations there. The
    part inside these ranges is searched by itself, because a plan that is careful outside the data
    often chooses at their ends.
    """
    shortlist = Shortlist(chooser)
    predictors = [predictor for predictor, _ in assessor.predictors.values()]
    near = space
    if not chooser.question.allow_far:
        near = space.narrowed(_within_reach(predictors, _REACH))
    closely = [near]
    if chooser.question.risk != EVEN:
        inside = space.narrowed(_within_reach(predictors, 1.0))
        closely += [inside] if inside != near else []
    if chooser.measured is not None and set(space.axes) <= set(chooser.measured):
        _look_at(space.rules.applied(chooser.measured[list(space.axes)]), assessor, shortlist)
    for part in [*([] if near == space else [space]), *closely]:
        _look_at(_drawn(part, seed), assessor, shortlist)
    rng = np.random.default_rng([seed, 1])
    best: object = None
    n_quiet = 0
    for step in range(_MOST_STEPS):
        if shortlist.figures is None or n_quiet >= _PATIENCE:
            break
        starts = _starts(chooser, shortlist.figures)
        if not starts:  # every configuration that was seen lies far outside the data
            break
        for part in closely:
            _look_at(_neighbors(part, starts, step, rng), assessor, shortlist)
        now = _objectives(chooser, shortlist.figures)
        n_quiet = n_quiet + 1 if now == best else 0
        best = now
    return shortlist


def _look_at(frame: pd.DataFrame, assessor: Assessor, shortlist: Shortlist) -> None:
    """Add configurations to a shortlist; the same one never twice, or it would be its runner-up."""
    frame = frame.drop_duplicates(ignore_index=True)
    if shortlist.figures is not None:
        frame = without(frame, shortlist.figures.frame).reset_index(drop=True)
    if len(frame):
        shortlist.add(assessor.assess(frame, shortlist.chooser.question.probabilities))


def _within_reach(predictors: Iterable[Predictor], reach: float) -> dict[str, tuple[float, float]]:
    """Return the ends of the part of each column that all models measured, or a factor further."""
    found: dict[str, tuple[float, float]] = {}
    for predictor in predictors:
        for name, (low, high) in predictor.ranges.items():
            width = (reach - 1) * (high - low)
            least = low / reach if low > 0 else low - width
            most = high * reach if low > 0 else high + width
            before = found.get(name, (-np.inf, np.inf))
            found[name] = (max(least, before[0]), min(most, before[1]))
    return found


def _neighbors(
    space: Grid, starts: list[dict[str, Any]], step: int, rng: np.random.Generator
) -> pd.DataFrame:
    varied = [name for name in space.axes if len(space.values(name)) > 1]
    pairs = list(combinations(varied, 2))[:_MOST_PAIRS]
    moved = [space.around(start, [name], step) for start in starts for name in varied]
    moved += [space.around(start, pair, step) for start in starts[:4] for pair in pairs]
    moved += [space.jump(start, _N_JUMPS, step, rng) for start in starts]
    return pd.concat(moved, ignore_index=True)


def _drawn(space: Grid, seed: int) -> pd.DataFrame:
    """Draw until the rules allow enough of what was drawn, or the number of draws is used up."""
    parts: list[pd.DataFrame] = []
    for i in range(_MOST_DRAWS):
        parts.append(space.draw(_N_DRAWN, seed + i))
        if sum(map(len, parts)) >= _N_DRAWN // 2:
            break
    return pd.concat(parts, ignore_index=True)


def _starts(chooser: PlanChooser, figures: Figures) -> list[dict[str, Any]]:
    """Return the configurations that answer a part of the question, and some of the front."""
    rows = [chooser.chosen(figures, certainty) for certainty in chooser.question.certainties]
    rows += [chooser.without(figures, word) for word in chooser.question.limits]
    rows.append(chooser.closest(figures))
    front = chooser.front(figures)
    rows.append(front[np.linspace(0, len(front) - 1, min(len(front), 4)).astype(int)])
    found = list(dict.fromkeys(np.concatenate(rows).tolist()))[:_N_STARTS]
    return [
        {str(name): value for name, value in start.items()}
        for start in figures.frame.iloc[found].to_dict("records")
    ]


def _objectives(chooser: PlanChooser, figures: Figures) -> tuple[float, ...]:
    """Return scores and predictions at each probability, rounded so that tiny gains end the search.

    Scores may be infinite if there are no intervals.
    """
    compared = (chooser.scores(figures), figures.value(chooser.minimize))
    found = [chooser.chosen(figures, certainty) for certainty in chooser.question.certainties]
    return tuple(
        float(f"{values[rows[0]]:.6g}") if len(rows) else np.inf
        for values in compared
        for rows in found
    )
