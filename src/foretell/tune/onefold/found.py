"""What a search found: the best trial, its model and deployment, and the front of trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from foretell.tune.onefold.goal import Goal
from foretell.tune.onefold.inference import Inference
from foretell.tune.onefold.trials import FAILED, KEPT, Trial


@dataclass(frozen=True, repr=False)
class Found:
    """The result of a search; print it, or use its parts.

    Attributes
    ----------
    best
        The trial that keeps all limits at the least cost; None if no trial keeps them.
    model
        The state that the training of the best trial returned.
    notes
        Remarks, such as that a time limit ended the search.
    """

    goal: Goal
    system: tuple[str, ...]
    trials: tuple[Trial, ...]
    best: Trial | None
    model: Any
    search_s: float
    notes: tuple[str, ...] = ()

    @property
    def config(self) -> Mapping[str, Any] | None:
        """The settings of the best trial."""
        return None if self.best is None else self.best.config

    @property
    def deployment(self) -> Inference | None:
        """How to serve the model of the best trial: batch, threads, replicas and latencies."""
        return None if self.best is None else self.best.inference

    @cached_property
    def closest(self) -> Trial | None:
        """The trial that lacks least to keep all limits; None if one keeps them."""
        trained = [t for t in self.trials if t.rungs and t.status != FAILED]
        if self.best is not None or not trained:
            return None
        return min(trained, key=lambda t: (self.goal.lacks(t), t.train_s))

    @cached_property
    def front(self) -> tuple[Trial, ...]:
        """The trials within the limits that no other beats in time, accuracy and p99 at once."""
        kept = [t for t in self.trials if t.status == KEPT]
        costs = [_costs(trial) for trial in kept]
        best = [
            trial
            for trial, own in zip(kept, costs, strict=True)
            if not any(_beats(other, own) for other in costs)
        ]
        return tuple(sorted(best, key=lambda t: t.train_s))

    @property
    def failed(self) -> tuple[Trial, ...]:
        """The trials that an error ended."""
        return tuple(t for t in self.trials if t.status == FAILED)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; the model is not among them."""
        return {
            "objective": self.goal.objective,
            "limits": {"accuracy": self.goal.accuracy, "p99_s": self.goal.p99_s},
            "labels": {
                "train_s": "measured",
                "accuracy": "measured",
                "inference": None if self.deployment is None else self.deployment.label,
            },
            "best": None if self.best is None else self.best.to_json(),
            "closest": None if self.closest is None else self.closest.to_json(),
            "front": [trial.number for trial in self.front],
            "trials": [trial.to_json() for trial in self.trials],
            "search_s": self.search_s,
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        from foretell.tune.onefold.text import found_text

        return found_text(self)


def _costs(trial: Trial) -> tuple[float, ...]:
    """Return what is better the less of it there is."""
    p99_s = 0.0 if trial.inference is None else trial.inference.p99_s
    return trial.train_s, -(trial.accuracy or 0.0), p99_s


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
