"""Which configurations may turn out to be the best, when models are off as far as they may be."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from foretell.decide.plan.assess import Figures, join
from foretell.decide.plan.choose import Chooser, Rows, Shortlist
from foretell.decide.plan.plan import Planner
from foretell.decide.question.objective import LIMITS
from foretell.decide.question.space import Grid
from foretell.errors import UsageError

#: The probability with which runs take less than the optimist hopes.
OPTIMISTIC = 0.05
MOST_PLAUSIBLE, _MOST_FAR = 256, 32
_N_DRAWN = 20_000


def plausible(planner: Planner) -> Figures:
    """Return what may be best, the most promising first.

    It is assessed at the certainties of the question, and last at the optimist's.
    """
    chooser = planner.chooser
    certainties = (*chooser.question.certainties, OPTIMISTIC)
    shortlist = Shortlist(chooser)
    kept: Figures | None = None
    for frame in _blocks(planner):
        if not len(frame):
            continue
        figures = planner.assessor.assess(frame, certainties)
        shortlist.add(figures)
        joined = figures if kept is None else join([kept, figures])
        kept = joined.take(_hopeful(joined, chooser))
    if kept is None or shortlist.figures is None:
        raise UsageError("no configuration is left to choose from; widen 'only' and --max")
    chosen = chooser.chosen(shortlist.figures, chooser.asked)
    first = shortlist.figures.take(chosen if len(chosen) else chooser.closest(shortlist.figures))
    both = join([first, kept])
    is_new = ~both.frame.duplicated().to_numpy()
    return both.take(np.flatnonzero(is_new))


def _blocks(planner: Planner) -> Iterator[pd.DataFrame]:
    if not planner.is_searched:
        yield from planner.space.blocks()
        return
    assert isinstance(planner.space, Grid)
    found = planner.shortlist().figures
    if found is not None:
        yield found.frame
    yield planner.space.draw(_N_DRAWN, planner.seed)


def _hopeful(figures: Figures, chooser: Chooser) -> Rows:
    """Return the rows that are best if all goes well; of those far outside the data, a few."""
    hope = len(chooser.question.certainties)
    missed = np.ones(len(figures))
    for word, most in chooser.question.limits.items():
        missed = np.maximum(missed, figures.at(LIMITS[word], hope) / most)
    order = np.lexsort((figures.at(chooser.minimize, hope), missed))
    is_far = figures.is_far[order] & (not chooser.question.allow_far)
    near, far = order[~is_far][:MOST_PLAUSIBLE], order[is_far][:_MOST_FAR]
    return np.concatenate([near, far])
