"""Which configurations may turn out to be the best, given how far off the models may be."""

from __future__ import annotations

import numpy as np

from foretell.decide.plan.answer import Plan
from foretell.decide.plan.assess import Figures, join
from foretell.decide.plan.choose import PlanChooser, Rows, Shortlist
from foretell.decide.plan.plan import Planner
from foretell.decide.question.objective import LIMITS
from foretell.decide.question.space import Grid

#: An optimistic guess: the probability that a run takes even less.
OPTIMISTIC = 0.05
MOST_PLAUSIBLE, _MOST_FAR = 256, 32
_N_DRAWN = 20_000


def plausible(planner: Planner) -> tuple[Plan, Figures]:
    """Return the plan, and what may be best after all, the most promising first.

    Both come from one walk through the space. The figures have the probabilities of the question
    and the optimistic one.
    """
    probabilities = (*planner.chooser.question.probabilities, OPTIMISTIC)
    promising = Shortlist(planner.chooser, _hopeful)
    if planner.is_searched:
        assert isinstance(planner.space, Grid)
        shortlist = planner.shortlist()
        seen = [] if shortlist.figures is None else [shortlist.figures.frame]
        for frame in (*seen, planner.space.draw(_N_DRAWN, planner.seed)):
            if len(frame):
                promising.add(planner.assessor.assess(frame, probabilities))
    else:
        shortlist = Shortlist(planner.chooser)
        for figures in planner.walk(probabilities):
            shortlist.add(figures)
            promising.add(figures)
    plan = planner.answer(shortlist)  # which refuses a space without any configuration
    assert shortlist.figures is not None and promising.figures is not None
    chooser = planner.chooser
    chosen = chooser.chosen(shortlist.figures, chooser.question.confidence)
    first = shortlist.figures.take(chosen if len(chosen) else chooser.closest(shortlist.figures))
    if planner.is_searched:
        first = planner.assessor.assess(first.frame, probabilities)
    both = join([part for part in (first, promising.figures) if len(part)])
    is_new = ~both.frame.duplicated().to_numpy()
    return plan, both.take(np.flatnonzero(is_new))


def _hopeful(chooser: PlanChooser, figures: Figures) -> Rows:
    """Return the rows that are best if all goes well; only a few of those far outside the data."""
    missed = np.ones(len(figures))
    for word, most in chooser.question.limits.items():
        missed = np.maximum(missed, figures.at(LIMITS[word], OPTIMISTIC) / most)
    order = np.lexsort((figures.at(chooser.minimize, OPTIMISTIC), missed))
    is_allowed = chooser.allowed(figures)[order]
    near, far = order[is_allowed][:MOST_PLAUSIBLE], order[~is_allowed][:_MOST_FAR]
    return np.concatenate([near, far])
