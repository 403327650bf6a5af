"""Trials of a search: what training reports, what each rung cost, and how the trial ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from foretell.tune.onefold.inference import Inference
from foretell.wording import number, percent, plain

#: How a trial ended: with all limits kept, with all of its budget spent, before, or by an error.
KEPT, SPENT, STOPPED, FAILED = "kept", "spent", "stopped", "failed"


@dataclass(frozen=True)
class Progress:
    """What a training function returns.

    Attributes
    ----------
    accuracy
        On data that is not trained on, from 0 to 1.
    state
        What the next rung goes on with, and what becomes the result: the network, and whatever
        else training needs, such as its optimizer.
    energy_j
        What this rung used, if it was measured.

    >>> Progress(0.93).accuracy
    0.93
    """

    accuracy: float
    state: Any = None
    energy_j: float | None = None


def checked(returned: Any) -> Progress:
    """Return what a training function returned; refuse what is no accuracy."""
    progress = returned if isinstance(returned, Progress) else Progress(returned)
    accuracy = _number(progress.accuracy, "a Progress or an accuracy")
    if not math.isfinite(accuracy) or not 0 <= accuracy <= 1:
        raise ValueError(f"training returned an accuracy of {accuracy}, which is not from 0 to 1")
    energy_j = progress.energy_j
    if energy_j is not None:
        energy_j = _number(energy_j, "an energy as a number")
        if not 0 <= energy_j < math.inf:
            raise ValueError(f"training returned an energy of {energy_j} J, which is no energy")
    return Progress(accuracy, progress.state, energy_j)


def _number(value: Any, wanted: str) -> float:
    """Return a number of any library as one of Python, which can be stored."""
    try:
        return float("" if isinstance(value, str) else value)
    except (TypeError, ValueError):
        raise ValueError(f"training must return {wanted}, not {type(value).__name__}") from None


@dataclass(frozen=True)
class Rung:
    """One rung of a trial: its budget, what it cost, and the accuracy after it."""

    rung: int
    iteration: int
    epochs: int
    share: float
    accuracy: float
    train_s: float
    energy_j: float | None = None


@dataclass(frozen=True)
class Trial:
    """One trial of a search.

    Attributes
    ----------
    number
        Counted from 0.
    status
        ``kept`` if all limits hold, ``spent`` if its budget ended before, ``stopped`` or
        ``failed``.
    why
        Why it ended; of a failed one, the error.
    """

    number: int
    config: Mapping[str, Any]
    status: str
    why: str
    rungs: tuple[Rung, ...] = ()
    inference: Inference | None = None

    @property
    def accuracy(self) -> float | None:
        """The accuracy after its last rung; None if it trained none."""
        return self.rungs[-1].accuracy if self.rungs else None

    @property
    def train_s(self) -> float:
        """Seconds of training, of all its rungs."""
        return sum(rung.train_s for rung in self.rungs)

    @property
    def energy_j(self) -> float | None:
        """The energy of its rungs, if it was measured."""
        found = [rung.energy_j for rung in self.rungs if rung.energy_j is not None]
        return sum(found) if found and len(found) == len(self.rungs) else None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "number": self.number,
            "config": dict(self.config),
            "status": self.status,
            "why": self.why,
            "accuracy": self.accuracy,
            "train_s": self.train_s,
            "energy_j": self.energy_j,
            "rungs": [asdict(rung) for rung in self.rungs],
            "inference": None if self.inference is None else asdict(self.inference),
        }

    def __str__(self) -> str:
        reached = "not trained" if self.accuracy is None else f"{percent(self.accuracy)} accurate"
        spent = f", {number(self.train_s, 3)} s" if self.rungs else ""
        return f"trial {self.number}: {settings_text(self.config)}: {reached}{spent}: {self.why}"


def settings_text(config: Mapping[str, Any]) -> str:
    """Write settings in one line.

    >>> settings_text({"lr": 0.0123456, "hidden": 64})
    'lr=0.01235, hidden=64'
    """
    return ", ".join(f"{plain(name)}={_value(value)}" for name, value in config.items())


def _value(value: Any) -> str:
    return number(value) if isinstance(value, float) else plain(value)
