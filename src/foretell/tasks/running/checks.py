"""`check=True`: finds data that a task changes without having declared it."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from foretell.errors import ForetellError
from foretell.tasks.data import KEYS
from foretell.tasks.declare import TaskFunction
from foretell.tasks.running.copies import shares_parts


class UndeclaredWrite(ForetellError):  # noqa: N818 - it tells what happened
    """A task changed data that it does not declare as written."""


def checked_call(
    function: TaskFunction, values: tuple[Any, ...], call: Callable[[tuple[Any, ...]], Any]
) -> Any:
    """Run a task; raise an UndeclaredWrite if data change that it should leave alone.

    What it reads comes as a view that cannot be written; what could be reached in another way is
    compared with a checksum taken before.
    """
    names = list(function.signature.parameters)
    written = set(function.write_places)
    spared = [k for k in range(len(values)) if k not in written]
    given = tuple(value if k in written else _locked(value) for k, value in enumerate(values))
    others = [values[k] for k in written]
    # What shares memory with a written argument changes with it.
    spared = [k for k in spared if not shares_parts(values[k], others)]
    watched = [(k, values[k]) for k in spared]
    # A list of arrays is given as another list, which may change as well.
    watched += [
        (k, given[k])
        for k in spared
        if given[k] is not values[k] and isinstance(values[k], list | tuple)
    ]
    before = [_content(value) for _, value in watched]
    try:
        result = call(given)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise UndeclaredWrite(
            f"task '{function.label}' writes to an array that it only reads; add its parameter to "
            "writes"
        ) from error
    for (k, value), content in zip(watched, before, strict=True):
        if _content(value) != content:
            raise UndeclaredWrite(
                f"task '{function.label}': '{names[k]}' changed while it ran, and is not "
                f"declared as written; add it to writes"
            )
    return result


class _Same:
    """Some other object, which equals itself alone."""

    def __init__(self, value: Any) -> None:
        self._value = value  # kept, so that no other comes to its place in memory

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._value is other._value

    __hash__ = None  # type: ignore[assignment]


def _content(value: Any, outer: tuple[int, ...] = ()) -> Any:
    """Return what a value holds, in a form that stays as it is when the value changes."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject and value.dtype.names:
            return tuple(_content(value[name], outer) for name in value.dtype.names)
        if value.dtype.hasobject:
            return value.shape, _content(value.ravel().tolist(), outer)
        return value.shape, zlib.crc32(value.tobytes())
    if isinstance(value, bytearray | set):
        return bytes(value) if isinstance(value, bytearray) else frozenset(value)
    if isinstance(value, KEYS):
        return type(value), value
    if not isinstance(value, list | tuple | dict) or id(value) in outer:
        return _Same(value)
    outer = (*outer, id(value))
    if isinstance(value, dict):
        return tuple((_content(key), _content(part, outer)) for key, part in value.items())
    return tuple(_content(part, outer) for part in value)


def _locked(value: Any, outer: tuple[Any, ...] = ()) -> Any:
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if not isinstance(value, list | tuple) or not any(isinstance(v, np.ndarray) for v in value):
        return value
    if any(value is one for one in outer):  # a list may contain itself
        return value
    parts = [_locked(part, (*outer, value)) for part in value]
    if type(value) in (list, tuple):
        return type(value)(parts)
    if isinstance(value, tuple) and hasattr(value, "_make"):  # a named tuple
        return value._make(parts)
    return value  # a copy of another class may need more than its parts: content is compared
