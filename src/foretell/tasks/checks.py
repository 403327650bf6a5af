"""`check=True`: finds data that a task changes without having declared it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from foretell.errors import ForetellError
from foretell.tasks.declare import TaskFunction


class UndeclaredWrite(ForetellError):  # noqa: N818 - it tells what happened
    """A task changed data that it does not declare as written."""


def checked_call(
    function: TaskFunction, values: tuple[Any, ...], call: Callable[[tuple[Any, ...]], Any]
) -> Any:
    """Run a task; raise an UndeclaredWrite if an array changes that it should leave alone.

    What it reads comes as a view that cannot be written; what could be reached in another way is
    compared with a checksum taken before.
    """
    names = list(function.signature.parameters)
    written = set(function.write_places)
    spared = [k for k in range(len(values)) if k not in written]
    before = {(k, i): _checksum(array) for k in spared for i, array in _arrays(values[k])}
    given = tuple(value if k in written else _locked(value) for k, value in enumerate(values))
    try:
        result = call(given)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise UndeclaredWrite(
            f"task '{function.label}' writes to an array that it only reads; add its parameter to "
            "writes"
        ) from error
    for k in spared:
        for i, array in _arrays(values[k]):
            if _checksum(array) != before[k, i]:
                raise UndeclaredWrite(
                    f"task '{function.label}': '{names[k]}' changed while it ran, and is not "
                    f"declared as written; add it to writes"
                )
    return result


def _arrays(value: Any) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
    parts = value if isinstance(value, list | tuple) else [value]
    for i, part in enumerate(parts):
        if isinstance(part, np.ndarray) and part.dtype != object:
            yield i, part


def _locked(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if isinstance(value, list | tuple) and any(isinstance(v, np.ndarray) for v in value):
        return type(value)(map(_locked, value))
    return value


def _checksum(array: np.ndarray[Any, Any]) -> int:
    return zlib.crc32(array.tobytes())
