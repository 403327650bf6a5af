"""Searching spaces that are too large to look at everything: sample, then refine what matters."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from foretell.decide.plan.assess import Assessor, Figures
from foretell.decide.plan.choose import Chooser, Shortlist
from foretell.decide.question.space import Grid

_N_DRAWN = 20_000
#: Rules may forbid most of what is drawn; so often more is drawn to have enough.
_MOST_DRAWS = 20
_N_STARTS = 12
_N_JUMPS = 400
_MOST_STEPS = 16
_MOST_PAIRS = 10  # of columns that are varied together
#: A search ends when so many steps in a row changed nothing.
_PATIENCE = 3


def search(space: Grid, assessor: Assessor, chooser: Chooser, seed: int) -> Shortlist:
    """Look at a sample, then around the best found so far: along each column, and by jumps.

    Later steps look closer at continuous columns.
    """
    shortlist = Shortlist(chooser)
    certainties = chooser.question.certainties
    drawn = _drawn(space, seed)
    if len(drawn):
        shortlist.add(assessor.assess(drawn, certainties))
    varied = [name for name in space.axes if len(space.values(name)) > 1]
    pairs = list(combinations(varied, 2))[:_MOST_PAIRS]
    rng = np.random.default_rng([seed, 1])
    best: object = None
    n_quiet = 0
    for step in range(_MOST_STEPS):
        if shortlist.figures is None or n_quiet >= _PATIENCE:
            break
        starts = _starts(chooser, shortlist.figures)
        moved = [space.around(start, name, step) for start in starts for name in varied]
        moved += [space.around_two(start, pair, step) for start in starts[:4] for pair in pairs]
        moved += [space.jump(start, _N_JUMPS, step, rng) for start in starts]
        frame = pd.concat(moved, ignore_index=True).drop_duplicates(ignore_index=True)
        if len(frame):
            shortlist.add(assessor.assess(frame, certainties))
        now = _objectives(chooser, shortlist.figures)
        n_quiet = n_quiet + 1 if now == best else 0
        best = now
    return shortlist


def _drawn(space: Grid, seed: int) -> pd.DataFrame:
    """Draw until enough is allowed by the rules, or often enough."""
    parts: list[pd.DataFrame] = []
    for i in range(_MOST_DRAWS):
        parts.append(space.draw(_N_DRAWN, seed + i))
        if sum(map(len, parts)) >= _N_DRAWN // 2:
            break
    return pd.concat(parts, ignore_index=True)


def _starts(chooser: Chooser, figures: Figures) -> list[dict[str, Any]]:
    """Return the configurations that answer a part of the question, and some of the front."""
    rows = [chooser.chosen(figures, c) for c in range(len(chooser.question.certainties))]
    rows += [chooser.without(figures, word) for word in chooser.question.limits]
    rows.append(chooser.closest(figures))
    front = chooser.front(figures)
    rows.append(front[np.linspace(0, len(front) - 1, min(len(front), 4)).astype(int)])
    found = list(dict.fromkeys(np.concatenate(rows).tolist()))[:_N_STARTS]
    return [
        {str(name): value for name, value in start.items()}
        for start in figures.frame.iloc[found].to_dict("records")
    ]


def _objectives(chooser: Chooser, figures: Figures) -> tuple[float, ...]:
    """Return the objective at each certainty, rounded to what matters."""
    objective = figures.value(chooser.minimize)
    found = [chooser.chosen(figures, c) for c in range(len(chooser.question.certainties))]
    return tuple(float(f"{objective[rows[0]]:.6g}") if len(rows) else np.inf for rows in found)
