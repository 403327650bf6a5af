"""Copies of data that tasks change in other processes: they go there, and the changes come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from multiprocessing.reduction import ForkingPickler
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from foretell.errors import UsageError
from foretell.tasks.data import KEYS, is_tensor
from foretell.tasks.declare import TaskFunction

#: Values that a body can change and that can be changed here in the same way.
_CHANGED = (np.ndarray, list, dict, set, bytearray)
#: Values that nobody can change, or that processes know by name.
_FIXED = (*KEYS, complex, range, type, FunctionType, BuiltinFunctionType, np.generic)


def check_sendable(function: TaskFunction, values: tuple[Any, ...]) -> None:
    """Raise a UsageError unless what a function writes can come back from another process."""
    for k in function.write_places:
        if not isinstance(values[k], (*_CHANGED, *KEYS, tuple)):
            raise UsageError(
                f"task '{function.label}' writes a {type(values[k]).__name__}, whose changes do "
                "not come back from another process; use an array, a list, a dict, a set or a "
                "bytearray"
            )


def have_common_memory(function: TaskFunction, values: tuple[Any, ...]) -> bool:
    """Whether something that a call writes is given to it twice, in part at least.

    Copies of such arguments in another process would no longer be the same data.
    """
    written = set(function.write_places)
    arrays: list[tuple[int, np.ndarray[Any, Any]]] = []
    seen: dict[int, int] = {}
    for k, value in enumerate(values):
        for part in _parts(value, seen.keys()):
            if isinstance(part, np.ndarray):
                arrays.append((k, part))
            elif isinstance(part, _CHANGED):
                if id(part) in seen and (k in written or seen[id(part)] in written):
                    return True
                seen.setdefault(id(part), k)
    return any(
        (i in written or k in written) and np.may_share_memory(a, b)
        for n, (i, a) in enumerate(arrays)
        for k, b in arrays[n + 1 :]
    )


def _parts(value: Any, known: Any = ()) -> Iterator[Any]:
    """Return all within a value that may change, itself first; what is known is not entered."""
    if isinstance(value, _FIXED):
        return
    if not isinstance(value, tuple):
        is_known = id(value) in known
        yield value
        if is_known:
            return
    if isinstance(value, list | tuple):
        for part in value:
            yield from _parts(part, known)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _parts(part, known)


class Written:
    """What a call writes: all parts of it that may change, in an order that its copies share."""

    def __init__(self, function: TaskFunction, values: Sequence[Any]) -> None:
        self._label = function.label
        self._parts = [part for k in function.write_places for part in _parts(values[k])]
        self._numbers: dict[int, int] = {}
        for number, part in enumerate(self._parts):
            self._numbers.setdefault(id(part), number)
        # Of other objects it can only be told whether they have changed.
        self._before = [None if isinstance(p, _CHANGED) else self._as_sent(p) for p in self._parts]

    def changes(self) -> list[Any]:
        """Return what each part has become, for the call's own data to become the same."""
        for part, before in zip(self._parts, self._before, strict=True):
            if before is not None and self._as_sent(part) != before:
                raise UsageError(
                    f"task '{self._label}' changes an object of type {type(part).__name__} inside "
                    "its data, which does not come back from another process; put a new one in "
                    "its place, or use arrays, lists, dicts, sets and bytearrays"
                )
        return [self._content(part) for part in self._parts]

    def bring_back(self, changes: Sequence[Any]) -> None:
        """Change data to what their copies became."""
        for part, new in zip(self._parts, changes, strict=True):
            if isinstance(part, np.ndarray):
                part[...] = new
            elif isinstance(part, set):
                part.clear()
                part.update(new)
            elif isinstance(part, bytearray):
                part[:] = new
            elif isinstance(part, list):
                part[:] = self._built(new)
            elif isinstance(part, dict):
                found = self._built(new)
                part.clear()
                for key, value in found.items():
                    part[key] = value

    def _as_sent(self, part: Any) -> bytes:
        try:
            if is_tensor(part):  # whose memory moves when it is sent
                raise TypeError
            return bytes(ForkingPickler.dumps(part))
        except Exception:  # what an object's own code raises
            raise UsageError(
                f"task '{self._label}' writes data that hold a {type(part).__name__}, of which it "
                "cannot be told whether another process changes it"
            ) from None

    def _content(self, part: Any) -> Any:
        if isinstance(part, np.ndarray) and part.dtype.hasobject:
            for one in part.flat:
                if not isinstance(one, _FIXED):
                    raise UsageError(
                        f"task '{self._label}' writes an array that holds a {type(one).__name__}, "
                        "which does not come back from another process; use a list"
                    )
        if isinstance(part, list | dict):
            return self._told_inside(part)
        return part if isinstance(part, _CHANGED) else None

    def _told(self, value: Any) -> tuple[Any, ...]:
        """Describe a value: a part by its number, a container that holds parts, or a new one."""
        number = self._numbers.get(id(value))
        if number is not None:
            return ("part", number)
        if isinstance(value, list | tuple | dict):
            return self._told_inside(value)
        return ("new", value)

    def _told_inside(self, value: Any) -> tuple[Any, ...]:
        if all(id(part) not in self._numbers for part in _parts(value) if part is not value):
            return ("new", value)
        if isinstance(value, dict):
            return ("dict", list(value), [self._told(part) for part in value.values()])
        kind = "list" if isinstance(value, list) else "tuple"
        return (kind, [self._told(part) for part in value])

    def _built(self, told: Sequence[Any]) -> Any:
        kind, content = told[:2]
        if kind == "part":
            return self._parts[content]
        if kind == "new":
            return content
        if kind == "dict":
            return dict(zip(content, map(self._built, told[2]), strict=True))
        found = map(self._built, content)
        return list(found) if kind == "list" else tuple(found)


def run_copied(function: TaskFunction, values: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Run a body with data that were sent; return its result and what it has changed."""
    # Ray hands over arrays that cannot be written.
    own = tuple(map(_own, values))
    written = Written(function, own)
    result = function.call_with(own)
    return result, written.changes()


def _own(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value if value.flags.writeable else value.copy(order="K")
    if isinstance(value, list):
        value[:] = map(_own, value)
    elif isinstance(value, dict):
        for key, part in value.items():
            value[key] = _own(part)
    elif type(value) is tuple:
        return tuple(map(_own, value))
    return value
