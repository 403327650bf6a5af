"""Public names of a package that are imported on first use, so that importing it is quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def late_names(
    package: str, names: Mapping[str, Sequence[str]], packages: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Parameters
    ----------
    names
        By module, the names that the package has from there.
    packages
        Packages inside it that are imported on first use as well, and have names of their own.
    """
    homes = {name: module for module, found in names.items() for name in found}
    public = sorted(homes)

    def get(name: str) -> Any:
        if name in packages:
            return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(homes[name]), name)

    return get, lambda: [*public, *packages], public
