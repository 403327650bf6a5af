"""Probing: when it pays to try another system setting for one epoch, and when to keep it.

What an epoch costs under a setting is taken as log-normal, given by the ends of its 90 % interval.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

#: Half the width of a 90 % interval, in standard deviations.
_Z90 = 1.6448536269514722
#: Settings that promise less than this share are not tried.
LEAST_GAIN = 0.02
#: A setting is left only for one that is better by more than this share.
HYSTERESIS = 0.03
#: A restart must save this many times what it costs.
RESTART_FACTOR = 1.2
#: With fewer epochs than this, nothing is tried.
LEAST_EPOCHS = 3
#: At most one epoch in so many is a probe.
_EPOCHS_PER_PROBE = 4

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Expected(Generic[Key]):
    """What an epoch costs under a setting, as far as is known.

    Attributes
    ----------
    low, high
        The ends of a 90 % interval of the cost.
    is_inside
        Whether such epochs were measured before: there is nothing to find out.
    """

    setting: Key
    low: float
    high: float
    is_inside: bool = False

    @property
    def median(self) -> float:
        """The cost that is exceeded as often as not."""
        return math.sqrt(self.low * self.high)

    @property
    def _log_sd(self) -> float:
        return math.log(self.high / self.low) / (2 * _Z90)

    def gain(self, cost: float) -> float:
        """Return the expected saving against a known cost, where only savings count.

        >>> round(Expected("s", 1.0, 1.0).gain(1.5), 9)
        0.5
        """
        mu, sd = math.log(self.median), self._log_sd
        if sd < 1e-12:
            return max(0.0, cost - self.median)
        z = (math.log(cost) - mu) / sd
        mean = math.exp(mu + sd * sd / 2)
        return max(0.0, cost * _normal(z) - mean * _normal(z - sd))

    def loss(self, cost: float) -> float:
        """Return the expected excess over a known cost, where only excesses count."""
        mean = math.exp(math.log(self.median) + self._log_sd**2 / 2)
        return max(0.0, mean - cost + self.gain(cost))


def _normal(z: float) -> float:
    """Return the standard normal distribution function."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


def n_probes(n_epochs: int) -> int:
    """Return how many epochs of a training may be probes.

    >>> [n_probes(n) for n in (2, 3, 4, 9, 100)]
    [0, 0, 1, 2, 25]
    """
    return 0 if n_epochs < LEAST_EPOCHS else n_epochs // _EPOCHS_PER_PROBE


def is_worth_probing(expected: Expected[Key], cost: float, n_left: int) -> bool:
    """Tell whether trying a setting for one epoch pays within the epochs that are left.

    Parameters
    ----------
    cost
        What an epoch costs now.
    n_left
        Epochs to the next rung, the probe included: most trials stop there.

    >>> maybe = Expected("2 threads", low=0.5, high=1.8)
    >>> is_worth_probing(maybe, cost=1.0, n_left=2), is_worth_probing(maybe, cost=1.0, n_left=9)
    (False, True)
    """
    gain = expected.gain(cost)
    return gain >= LEAST_GAIN * cost and (n_left - 1) * gain > expected.loss(cost)


def next_probe(
    candidates: Sequence[Expected[Key]], cost: float, *, n_left: int, n_probes_left: int
) -> Key | None:
    """Return the setting to try for the next epoch; None if none pays.

    Settings inside the data are never tried: what they cost is known.
    """
    if n_probes_left <= 0:
        return None
    worth = [e for e in candidates if not e.is_inside and is_worth_probing(e, cost, n_left)]
    if not worth:
        return None
    return max(worth, key=lambda e: (n_left - 1) * e.gain(cost) - e.loss(cost)).setting


def is_better(cost: float, than: float) -> bool:
    """Tell whether a setting is better by enough to leave the present one.

    >>> is_better(0.98, than=1.0), is_better(0.96, than=1.0)
    (False, True)
    """
    return cost < (1 - HYSTERESIS) * than


def is_worth_restarting(now_s: float, then_s: float, *, n_left: int, restart_s: float) -> bool:
    """Tell whether shorter epochs make up for the restart that another lease takes.

    >>> is_worth_restarting(30.0, 20.0, n_left=2, restart_s=5.0)
    True
    >>> is_worth_restarting(3.0, 2.0, n_left=5, restart_s=5.0)
    False
    """
    return (now_s - then_s) * n_left > RESTART_FACTOR * restart_s


def epochs_to_rung(epoch: int, n_epochs: int, rungs: Sequence[int]) -> int:
    """Return how many epochs are left to the next rung, or to the end.

    Parameters
    ----------
    epoch
        The epoch that begins, counted from 0.
    rungs
        After how many epochs trials may be stopped.

    >>> epochs_to_rung(0, 9, (1, 3, 9)), epochs_to_rung(3, 9, (1, 3, 9)), epochs_to_rung(3, 9, ())
    (1, 6, 6)
    """
    return min((rung for rung in (*rungs, n_epochs) if rung > epoch), default=epoch) - epoch
