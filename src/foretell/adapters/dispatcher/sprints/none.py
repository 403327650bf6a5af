"""No sprints: jobs run at one speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from foretell.adapters.dispatcher.sprints._base import Sprint


class NoSprint(Sprint):
    """Changes nothing."""

    def refusal(self) -> str | None:
        """Say that there are none."""
        return "the mechanism is 'none'"

    def base(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def start(self, pids: Sequence[int]) -> None:
        """Do nothing."""

    def stop(self, pids: Sequence[int]) -> None:
        """Do nothing."""

    @classmethod
    def restore(cls, base: Mapping[str, Any]) -> None:
        """Do nothing."""
