"""Scores for kube-scheduler: whole numbers from 0 to 10, in which the best node stays apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foretell.decide.placement.choose import EQUAL

Array = NDArray[np.float64]
#: The largest score that an extender may give.
MOST = 10


def extender_scores(
    scores: Array,
    shown: Array,
    is_known: NDArray[np.bool_],
    preference: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Turn scores into whole numbers from 0 to 10.

    Parameters
    ----------
    scores, shown
        Those of the policy, by which nodes are equal or not, and as people see them; more is
        better.
    is_known
        Whose score rests on predictions. The others get the median of these, at most 9, and 0 if
        there are none.
    preference
        What decides among equal scores, the least first.

    Nodes that are equal in everything stay equal, so kube-scheduler decides among them by its own
    rules. 10 is for the best alone; all that are worse get 9 or less, by how much worse they are.

    >>> shown = np.array([100.0, 99.9, 50.0, 0.0])
    >>> extender_scores(shown, shown, shown > 0, np.zeros(4, dtype=np.int64)).tolist()
    [10, 8, 4, 8]
    """
    found = np.zeros(len(scores), dtype=np.int64)
    if not is_known.any():
        return found
    known, preferred = scores[is_known], preference[is_known]
    best = known >= known.max() - EQUAL
    whole = np.floor((MOST - 1) * _relative(shown[is_known])).astype(np.int64)
    whole[best] = np.where(preferred[best] == preferred[best].min(), MOST, MOST - 1)
    found[is_known] = whole
    found[~is_known] = min(int(np.median(whole)), MOST - 1)
    return found


def _relative(scores: Array) -> Array:
    """Return shares of the best score; where scores can be negative, of the range between them."""
    least, most = scores.min(), scores.max()
    if least < 0:
        scores, most = scores - least, most - least
    found: Array = scores / most if most > 0 else np.ones(len(scores))
    return found
