"""Plug-ins by kind and name: our own tables, and the entry points of other packages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from foretell.errors import UsageError, error_lines, suggest

Plugin = TypeVar("Plugin")


class Registry(Generic[Plugin]):
    """The plug-ins of one kind: a table of our own, then the entry points of other packages.

    Parameters
    ----------
    kind
        What one plug-in is called in messages, such as ``technique``.
    table
        Name to ``module:Class``. Modules load on first use.
    group
        The entry-point group in which other packages announce theirs.
    """

    def __init__(self, kind: str, table: Mapping[str, str], *, group: str) -> None:
        self.kind = kind
        self._table = table
        self._group = group

    @cached_property
    def _foreign(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for entry in entry_points(group=self._group):
            if entry.name in self._table:
                continue
            other = found.setdefault(entry.name, entry)
            if other.value != entry.value:
                raise UsageError(
                    f"two packages have a {self.kind} '{entry.name}': {other.value} and "
                    f"{entry.value}; uninstall one of them"
                )
        return found

    def names(self) -> list[str]:
        """List every known name: ours in table order, then those of other packages."""
        return [*self._table, *sorted(self._foreign)]

    def check(self, name: str) -> None:
        """Raise a UsageError with the nearest name if there is no such plug-in."""
        if name not in self.names():
            raise UsageError(f"unknown {self.kind} '{name}'. {suggest(name, self.names())}")

    def get(self, name: str) -> type[Plugin]:
        """Return the plug-in class of that name, or raise a UsageError with the nearest one."""
        self.check(name)
        found: type[Plugin]
        if name in self._table:
            module, _, attribute = self._table[name].partition(":")
            found = getattr(import_module(module), attribute)
        else:
            found = self._loaded(self._foreign[name])
        return found

    def _loaded(self, entry: Any) -> Any:
        """Load the plug-in of another package; whatever keeps it from that is told."""
        try:
            return entry.load()
        except Exception as error:
            raise UsageError(
                f"the {self.kind} '{entry.name}' of another package cannot be loaded from "
                f"{entry.value}: {error_lines(error)[0]}; correct or uninstall that package"
            ) from error
