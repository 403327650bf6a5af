"""What maintenance came to: for each model, whether it was replaced, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from foretell.wording import counted, plain, rough_percent

Verdict = Literal["promoted", "kept", "too few tasks", "failed"]


@dataclass(frozen=True)
class ModelOutcome:
    """What became of one model.

    Attributes
    ----------
    model
        Its file.
    n_tasks, n_accurate, n_runs
        How many completed tasks there were, how many of those to learn from were well predicted,
        and how many different runs the refit used.
    n_newest, old_error, new_error
        How many of the newest tasks judged, and the mean relative error of the old and the new
        model on them; None if there was no refit.
    reason
        Why there was no refit, or why it failed.
    """

    model: str
    types: tuple[str, ...]
    target: str
    verdict: Verdict
    n_tasks: int
    n_accurate: int = 0
    n_runs: int = 0
    n_newest: int = 0
    old_error: float | None = None
    new_error: float | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**asdict(self), "types": list(self.types)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> ModelOutcome:
        """Read what ``to_json`` returned."""
        return cls(**{**values, "types": tuple(values["types"])})

    def __str__(self) -> str:
        name = plain(f"{', '.join(self.types)}, {self.target}")
        if self.old_error is None or self.new_error is None:
            return f"{name}: {self.verdict}. {self.reason}"
        n_older = self.n_tasks - self.n_newest
        accurate = "none" if self.n_accurate == 0 else str(self.n_accurate)
        were = "was" if self.n_accurate < 2 else "were"
        old, new = rough_percent(self.old_error), rough_percent(self.new_error)
        return (
            f"{name}: {self.verdict}. On the newest {counted(self.n_newest, 'task')} the refitted "
            f"model is {new} off, the old one {old}. It learned from {self.n_runs} runs; "
            f"{accurate} of the {counted(n_older, 'task')} it learned from {were} well predicted."
        )


@dataclass(frozen=True)
class Maintained:
    """What a round of maintenance came to.

    Attributes
    ----------
    number
        How many rounds there have been.
    replaced
        Where the models are that were replaced.
    """

    number: int
    models: tuple[ModelOutcome, ...]
    replaced: Path

    @property
    def promoted(self) -> list[ModelOutcome]:
        """The models that were replaced."""
        return [outcome for outcome in self.models if outcome.verdict == "promoted"]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "round": self.number,
            "models": [outcome.to_json() for outcome in self.models],
            "replaced": str(self.replaced),
        }

    def __str__(self) -> str:
        lines = [str(outcome) for outcome in self.models]
        if self.promoted:
            lines.append(f"The old models are in {self.replaced}.")
        return "\n".join(lines)
