"""Functions and classes of the user's own, installed or in the folder of the sweep."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from foretell.errors import UsageError


def load_function(name: str, folder: Path, option: str) -> Callable[..., Any]:
    """Import the function that an option names; raise a UsageError if there is none."""
    if ":" not in name:
        raise UsageError(f"{option}: must be module:function")
    try:
        function: Callable[..., Any] = load_object(name, folder)
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from None
    if not callable(function):
        raise UsageError(f"{option}: {name} is not a function")
    return function


def load_object(name: str, folder: Path) -> Any:
    """Import ``module:name``, from the folder too."""
    module_name, _, attribute = name.partition(":")
    if sys.path[0] != str(folder):
        sys.path.insert(0, str(folder))
    _forget_namesake(module_name, folder)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a module of the user's own may raise anything
        raise UsageError(
            f"{module_name} cannot be imported from {folder}: {type(error).__name__}: {error}"
        ) from None
    if not hasattr(module, attribute):
        raise UsageError(f"{module_name} has no '{attribute}'")
    return getattr(module, attribute)


def _forget_namesake(module_name: str, folder: Path) -> None:
    """Forget a module of that name that was imported from elsewhere, if the folder has its own."""
    top = module_name.partition(".")[0]
    own = [folder / f"{top}.py", folder / top / "__init__.py"]
    known = getattr(sys.modules.get(top), "__file__", None)
    if known is None or Path(known) in own or not any(path.exists() for path in own):
        return
    for name in [n for n in sys.modules if n == top or n.startswith(f"{top}.")]:
        del sys.modules[name]
    importlib.invalidate_caches()
