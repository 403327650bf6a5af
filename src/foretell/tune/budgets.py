"""Budgets of trials: how many epochs on how much of the data, from rung to rung."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from foretell.errors import Option, UsageError, suggest
from foretell.tune.subsets import subset
from foretell.wording import counted, rough_percent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Kind = Literal["multi", "epochs", "data"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Budget:
    """What a trial may spend in one rung.

    Attributes
    ----------
    rung
        Counted from 0.
    iteration
        The factor that budgets grow by: the number of minimal budgets in this one.
    epochs
        The epochs to train now. They count from 0 in a trial, and go on from rung to rung.
    share
        The share of the training data, from 0 to 1.

    >>> budget = Budgets("multi").rungs(seed=0)[1]
    >>> budget.epochs, budget.share, len(budget.subset([0, 1] * 50))
    (range(2, 5), 0.2, 20)
    >>> print(budget)
    3 epochs on 20 % of the data
    """

    rung: int
    iteration: int
    epochs: range
    share: float
    seed: int = 0

    def subset(self, labels: ArrayLike | int) -> NDArray[np.int64]:
        """Return the indices of the examples to train on.

        Each subset contains those of lower rungs, has the classes in their shares, and is the
        same in all trials of a search.

        Parameters
        ----------
        labels
            The class of each example; or how many examples there are, if they have no classes.
        """
        return subset(labels, self.share, self.seed)

    def __str__(self) -> str:
        return f"{counted(len(self.epochs), 'epoch')} on {rough_percent(self.share)} of the data"


@dataclass(frozen=True)
class Budgets:
    """How budgets grow from rung to rung.

    In iteration i, ``multi`` allows ``min_epochs * i`` epochs on a share of ``min_share * i`` of
    the data, ``epochs`` as many epochs on all data, and ``data`` one epoch on that share. Rung j
    is iteration ``eta ** j``; the last one is the first iteration that has everything.

    Attributes
    ----------
    is_anew
        Whether each rung trains a new network, as in EdgeTune. By default a trial goes on with
        what it has, and trains what it lacks: so many epochs on the data of the rung, at least one,
        that it has seen as many examples as a new network would.

    >>> [(len(b.epochs), b.share) for b in Budgets("multi").rungs()]
    [(2, 0.1), (3, 0.2), (6, 0.4), (6, 0.8), (2, 1.0)]
    >>> [(len(b.epochs), b.share) for b in Budgets("epochs", is_anew=True).rungs()]
    [(2, 1.0), (4, 1.0), (8, 1.0), (10, 1.0)]
    """

    kind: Kind = "multi"
    min_epochs: int = 2
    max_epochs: int = 10
    min_share: float = 0.1
    eta: int = 2
    is_anew: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            near = suggest(str(self.kind), KINDS)
            raise UsageError(f"no such budget. {near}", option=Option("budget", str(self.kind)))
        if not 1 <= self.min_epochs <= self.max_epochs:
            raise UsageError(
                "min_epochs must be at least 1 and at most max_epochs, "
                f"not {self.min_epochs} with max_epochs {self.max_epochs}"
            )
        if not 0 < self.min_share <= 1:
            raise UsageError(f"min_share must be above 0 and at most 1, not {self.min_share}")
        if not (isinstance(self.eta, int) and self.eta >= 2):
            raise UsageError(f"eta must be a whole number from 2 on, not {self.eta}")

    def at(self, iteration: int) -> tuple[int, float]:
        """Return how many epochs on which share of the data an iteration allows a new network."""
        epochs = min(self.min_epochs * iteration, self.max_epochs)
        share = min(round(self.min_share * iteration, 12), 1.0)
        return (1 if self.kind == "data" else epochs), (1.0 if self.kind == "epochs" else share)

    @property
    def last_iteration(self) -> int:
        """The first iteration that has all epochs and all data."""
        whole_data = 1 if self.kind == "epochs" else math.ceil(round(1 / self.min_share, 9))
        all_epochs = 1 if self.kind == "data" else math.ceil(self.max_epochs / self.min_epochs)
        return max(whole_data, all_epochs)

    def iterations(self) -> list[int]:
        """List the iteration of each rung."""
        found, i = [], 1
        while i < self.last_iteration:
            found.append(i)
            i *= self.eta
        return [*found, self.last_iteration]

    def rungs(self, seed: int = 0) -> list[Budget]:
        """List the budget of each rung."""
        found: list[Budget] = []
        done, seen = 0, 0.0  # epochs of a trial, and how often it has seen all of the data
        for rung, iteration in enumerate(self.iterations()):
            epochs, share = self.at(iteration)
            if not self.is_anew:
                epochs = max(1, round((epochs * share - seen) / share))
            start = 0 if self.is_anew else done
            done, seen = start + epochs, seen + epochs * share
            found.append(Budget(rung, iteration, range(start, done), share, seed))
        return found


def read_budgets(budget: str | Budgets) -> Budgets:
    """Return budgets that are given by name or as they are."""
    return budget if isinstance(budget, Budgets) else Budgets(budget)  # type: ignore[arg-type]
