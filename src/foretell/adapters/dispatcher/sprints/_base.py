"""What a sprint mechanism is: it makes the engine faster for a while, and can be undone later."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from foretell.closeable import Closeable
from foretell.errors import ForetellError


class SprintError(ForetellError):
    """A sprint could not be started or ended."""


class Sprint(Closeable):
    """A way to make the engine faster for a while.

    It changes nothing before ``open``. What ``base`` returns is written to disk before that, and is
    enough for ``restore`` to undo everything, also in another process after a crash.

    Attributes
    ----------
    is_holding
        Whether ``hold`` has to be called for new processes.
    """

    is_holding: ClassVar[bool] = False

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings

    def refusal(self) -> str | None:
        """Say why there are no sprints on this machine; None if there can be."""
        return None

    @abstractmethod
    def base(self) -> dict[str, Any]:
        """Return what has to be put back, as plain values."""

    def open(self) -> None:
        """Set the speed that holds outside of sprints."""

    def hold(self, pids: Sequence[int]) -> None:
        """Let processes that just started run at the speed outside of sprints."""

    @abstractmethod
    def start(self, pids: Sequence[int]) -> None:
        """Run these processes fast; raise a SprintError if that fails."""

    @abstractmethod
    def stop(self, pids: Sequence[int]) -> None:
        """Run them at the usual speed again; raise a SprintError if that fails."""

    @classmethod
    @abstractmethod
    def restore(cls, base: Mapping[str, Any]) -> None:
        """Put back what was there; doing it twice does no harm."""

    def close(self) -> None:
        """Put back what was there."""
        self.restore(self.base())
