"""How the graphs of a program are opened: only to be foreseen, or with other settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foretell.tasks.graph import Graph

#: Where graphs are put that are opened in order to be foreseen; None where they are to run.
planned: ContextVar[list[Graph] | None] = ContextVar("planned", default=None)
#: What is put over the settings of graphs that a program opens.
settings: ContextVar[dict[str, Any]] = ContextVar("settings", default={})  # noqa: B039 - not changed


@contextmanager
def planning() -> Iterator[list[Graph]]:
    """Build the graphs that are opened meanwhile without running their tasks."""
    found: list[Graph] = []
    token = planned.set(found)
    try:
        yield found
    finally:
        planned.reset(token)


@contextmanager
def overriding(**over: Any) -> Iterator[list[Graph]]:
    """Put settings over those of graphs that are opened meanwhile; return the graphs."""
    found: list[Graph] = []
    token = settings.set({**over, "opened": found})
    try:
        yield found
    finally:
        settings.reset(token)
