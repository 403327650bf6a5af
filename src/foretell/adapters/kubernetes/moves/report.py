"""What is told of a move: which pod, from where to where, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class MoveReport:
    """A move, and how it ended.

    Attributes
    ----------
    result
        *moved*, *kept* where it was, gone *elsewhere*; *planned* if this is a dry run.
    """

    pod: str
    source: str
    target: str
    result: str
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return dict(vars(self))

    def __str__(self) -> str:
        words = {"moved": "moved", "planned": "would move", "kept": "does not move",
                 "elsewhere": "was to move"}  # fmt: skip
        why = f": {self.reason}" if self.reason else ""
        return f"{self.pod} {words[self.result]} from {self.source} to {self.target}{why}"
