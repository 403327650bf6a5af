"""Objects that must be closed: a base class that lets them be used in a `with` statement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closeable(ABC):
    """Closed at the end of a ``with`` statement, whatever happens inside."""

    @abstractmethod
    def close(self) -> None:
        """Release what it holds; it must not be used afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
