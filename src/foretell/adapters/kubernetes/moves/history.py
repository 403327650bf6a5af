"""The moves that a pod made: kept in an annotation, so that they outlive this process."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class History:
    """When a task left which nodes, how often it moved, and which share was left at the last move.

    Attributes
    ----------
    left
        Times by the monotonic clock.
    """

    n_moves: int = 0
    share: float = 1.0
    left: Mapping[str, float] = field(default_factory=dict)

    def after(self, node: str, share: float, now_s: float) -> History:
        """Return the history once the task has left a node."""
        return History(self.n_moves + 1, share, {**self.left, node: now_s})

    def stayed(self, node: str, now_s: float) -> History:
        """Return the history after a move that failed: it is tried again only after a while."""
        return replace(self, left={**self.left, node: now_s})

    def to_text(self, now_s: float, wall_s: float) -> str:
        """Write it with times of the wall clock, which another process can read."""
        left = {node: round(at_s - now_s + wall_s, 3) for node, at_s in self.left.items()}
        return json.dumps({"n": self.n_moves, "share": round(self.share, 6), "left": left})

    @classmethod
    def read(cls, text: str | None, now_s: float, wall_s: float) -> History:
        """Read what ``to_text`` wrote; what cannot be read counts as one move, made just now.

        A time in the future, by a clock that was set back, counts as now: then a pod rather stays
        too long than moves too often.
        """
        if text is None:
            return cls()
        try:
            found = json.loads(text)
            ages_s = {str(node): max(0.0, wall_s - float(at)) for node, at in found["left"].items()}
            left = {node: now_s - age_s for node, age_s in ages_s.items()}
            n_moves, share = int(found["n"]), float(found["share"])
            if n_moves < 0 or not 0 <= share <= 1 or not all(map(math.isfinite, left.values())):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls(1, 1.0, {"": now_s})
        return cls(n_moves, share, left)
