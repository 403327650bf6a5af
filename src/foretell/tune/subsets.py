"""Subsets of training data: nested, with the classes in their shares, the same for all trials."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from foretell.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


def subset(labels: ArrayLike | int, share: float, seed: int) -> NDArray[np.int64]:
    """Return the indices of a share of the examples, in increasing order.

    Smaller shares are parts of larger ones, for all are the beginning of one order.

    Parameters
    ----------
    labels
        The class of each example; or how many examples there are, if they have no classes.

    >>> few, many = subset([0, 0, 1, 1] * 10, 0.1, seed=0), subset([0, 0, 1, 1] * 10, 0.5, seed=0)
    >>> len(few), len(many), set(few) <= set(many)
    (4, 20, True)
    """
    import numpy as np

    order = stratified_order(labels, seed)
    n = math.ceil(round(share * len(order), 6))  # 0.1 * 30 is a little more than 3
    return np.sort(order[: max(n, 1)])


def stratified_order(labels: ArrayLike | int, seed: int) -> NDArray[np.int64]:
    """Return an order of all examples, each beginning of which has the classes in their shares.

    The next example is of the class that is due by the method of Webster: the k-th of n examples
    of a class stands at (k - 1/2) / n of the way. Within a class the order is random.
    """
    import numpy as np

    random = np.random.default_rng([seed, 0x5AB5E7])
    if isinstance(labels, int | np.integer):
        return random.permutation(_counted(int(labels)))
    classes = _classes(labels)
    shuffled = random.permutation(len(classes))
    by_class = shuffled[np.argsort(classes[shuffled], kind="stable")]
    sizes = np.bincount(classes)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    place = np.arange(len(classes)) - np.repeat(starts, sizes)
    due = (place + 0.5) / np.repeat(sizes, sizes)
    ties = random.permutation(len(classes))
    return by_class[np.lexsort([ties, due])]


def _classes(labels: Any) -> NDArray[np.int64]:
    """Number the classes from 0."""
    import numpy as np

    values = np.asarray(labels)
    if values.ndim != 1:
        raise UsageError(
            f"labels must have one dimension, with one class for each example, not {values.ndim}"
        )
    _counted(len(values))
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _counted(n: int) -> int:
    if n < 1:
        raise UsageError("labels are empty; a subset needs at least one example")
    return n
