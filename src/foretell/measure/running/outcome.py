"""The outcome of a run: how it ended, why, and what was measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from foretell.statuses import Status
from foretell.traces import Trace

_MOST_TEXT = 10_000  # characters in a cell
_MOST_REASON = 300


class Failure(Exception):  # noqa: N818 - it is a result, not a mistake
    """A run went wrong."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass
class Measured:
    """The outcome of one run.

    Attributes
    ----------
    values
        Columns and what was measured; of a run that timed out, its time is a lower bound.
    output
        The end of what the job printed, if it went wrong.
    complaints
        What was wrong with meters.
    trace
        Samples of the run, if the sweep asks for them.
    n_attempts, started_at, spent_s
        How many attempts there were, when the last one began, and the time of all of them and of
        warming up.
    """

    status: Status
    reason: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    output: str = ""
    complaints: list[str] = field(default_factory=list)
    trace: Trace | None = None
    n_attempts: int = 1
    started_at: str = ""
    spent_s: float = 0.0

    def __post_init__(self) -> None:
        self.reason = one_line(self.reason)[:_MOST_REASON]
        self.values = {
            name: one_line(value) if isinstance(value, str) else value
            for name, value in self.values.items()
        }


def one_line(text: str) -> str:
    """Make a text fit for a cell of a table: one line, of characters that any reader takes.

    >>> one_line("no\\x00 luck\\r\\nat all\\udcff")
    'no luck at all?'
    """
    plain = text.encode("utf-8", "replace").decode()
    kept = " ".join("".join(c for c in plain if c.isprintable() or c.isspace()).split())
    return kept[:_MOST_TEXT]
