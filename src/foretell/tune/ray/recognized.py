"""Schedulers of Ray Tune as they are known here, and how many trials run at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ray
from ray.tune.schedulers import AsyncHyperBandScheduler, HyperBandScheduler

from foretell.decide.tuning.rungs import Rules
from foretell.errors import Option, UsageError

#: What Ray counts the epochs of a trial by.
ITERATIONS = "training_iteration"


def recognized(
    scheduler: Any, max_epochs: int | None, eta: float, min_epochs: int
) -> tuple[str, Rules]:
    """Return the name and the rules of a scheduler; under unknown ones all trials train to the end.

    Parameters
    ----------
    scheduler
        A scheduler of Ray, None, or a name that is known here.
    max_epochs
        How long a trial trains at most, if the scheduler does not say, or what stops trials comes
        before its last rung.
    eta, min_epochs
        The rules of a scheduler that is given by its name.
    """
    if isinstance(scheduler, str):
        return scheduler, Rules(_known(max_epochs), eta, min_epochs)
    base = base_of(scheduler)
    if getattr(base, "_time_attr", None) == ITERATIONS:
        if isinstance(base, AsyncHyperBandScheduler):
            most = int(min(base._max_t, max_epochs or base._max_t))
            least = int(base._brackets[0]._rungs[-1][0])
            return "asha", Rules(most, base._reduction_factor, min(least, most))
        if isinstance(base, HyperBandScheduler):
            last = int(base._max_t_attr)
            most = min(last, max_epochs or last)
            return "hyperband", Rules(most, base._eta, bracket_epochs=last if most < last else None)
    return "random", Rules(_known(max_epochs))


def base_of(scheduler: Any) -> Any:
    """Return the scheduler that stops trials, if another one is around it."""
    return getattr(scheduler, "_base_scheduler", scheduler)


def _known(max_epochs: int | None) -> int:
    if max_epochs is None:
        raise UsageError(
            "how many epochs a trial trains is not known",
            option=Option("max_epochs"),
            remedy=("give ", Option("max_epochs", "..."), " or stop trials by their iterations"),
        )
    return max_epochs


def slots_of_cluster(needs: Mapping[str, float]) -> int:
    """Return how many trials with these needs run at the same time."""
    has = ray.cluster_resources() if ray.is_initialized() else {}
    fits = [int(has[name] / n + 1e-9) for name, n in needs.items() if n > 0 and name in has]
    return max(min(fits, default=1), 1)
