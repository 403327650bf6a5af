"""A base class for objects that are closed at the end of a `with` statement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closeable(ABC):
    """Closed at the end of a ``with`` statement, whatever happens inside."""

    @abstractmethod
    def close(self) -> None:
        """Close it; nothing is done with it afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
