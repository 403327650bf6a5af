"""What a knob is: a system setting that is read, set and put back between epochs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from foretell.errors import Option, UsageError

Value = float | str


@dataclass(frozen=True)
class Surroundings:
    """Where a training runs, as far as knobs must know.

    Attributes
    ----------
    n_in_process
        Trainings that run at the same time in this process, or will.
    why_shared
        How that is known, for messages.
    """

    n_in_process: int = 1
    why_shared: str = ""


class Knob(ABC):
    """One system setting of this process.

    Attributes
    ----------
    changes_results
        Whether the same hyperparameters give another learning curve under another value; such a
        knob is refused unless the user allows it.
    """

    changes_results: ClassVar[bool] = False

    @abstractmethod
    def read(self) -> Value:
        """Return the value that holds now."""

    @abstractmethod
    def apply(self, value: Value) -> None:
        """Set a value, for the next epoch."""

    @abstractmethod
    def check(self, value: Value) -> None:
        """Raise UsageError unless the knob can have a value."""

    def refusal(self, around: Surroundings) -> str | None:
        """Say why the knob cannot be used here; None if it can."""
        return None

    def n_cores(self, value: Value) -> float:
        """Return how many cores a training uses under a value, besides those of other knobs."""
        return 0.0

    def prior(self, value: Value, against: Value) -> tuple[float, float]:
        """Return where the ratio of epoch times is with 90 %, before any was measured."""
        return (0.67, 1.5)


def check_count(name: str, value: Value, least: int) -> None:
    """Raise UsageError unless a value is a whole number that is large enough."""
    if isinstance(value, str) or value != int(value) or value < least:
        raise UsageError(
            f"{name} is a whole number from {least} on, not {value!r}",
            option=Option("settings", f"[{least}, ...]", key=name),
        )
