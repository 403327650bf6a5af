"""Copies of data that tasks change in other processes: they go there, and the changes come back."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from multiprocessing.reduction import ForkingPickler
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from foretell.errors import UsageError
from foretell.tasks.data import KEYS, is_tensor
from foretell.tasks.declare import TaskFunction

#: Values that a body can change and that can be changed here in the same way.
_CHANGED = (np.ndarray, list, dict, set, bytearray)
#: Values that hold others.
_HOLDERS = (np.ndarray, list, dict)
#: Values that become here what they became there; tuples stay, and what they hold changes.
_RESTORED = (*_CHANGED, tuple)
#: Values that cannot change, or that are sent by name.
_FIXED = (*KEYS, complex, range, type, FunctionType, BuiltinFunctionType, np.generic)
#: How long to look whether arrays share an element: blocks take no look, odd steps a few.
_MOST_WORK = 1_000


def check_sendable(function: TaskFunction, values: tuple[Any, ...]) -> None:
    """Raise a UsageError unless what a function writes can come back from another process."""
    for k in function.write_places:
        if not isinstance(values[k], (*_CHANGED, *KEYS, tuple, np.generic)):
            raise UsageError(
                f"task '{function.label}' writes a {type(values[k]).__name__}, whose changes do "
                "not come back from another process; use an array, a list, a dict or a bytearray"
            )


def have_common_memory(function: TaskFunction, values: tuple[Any, ...]) -> bool:
    """Whether something that a call writes is given to it twice, in part at least.

    Copies of such arguments in another process would no longer be the same data.
    """
    written = set(function.write_places)
    if not written:
        return False
    arrays: list[tuple[int, np.ndarray[Any, Any]]] = []
    seen: dict[int, int] = {}
    for k, value in enumerate(values):
        for part in _parts([value], seen.keys()):
            if isinstance(part, np.ndarray):
                arrays.append((k, part))
            elif isinstance(part, _CHANGED) and id(part) in seen and {k, seen[id(part)]} & written:
                return True
            seen.setdefault(id(part), k)
    return any(
        (i in written or k in written) and share_memory(a, b)
        for n, (i, a) in enumerate(arrays)
        for k, b in arrays[n + 1 :]
    )


def share_memory(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Whether arrays have an element in common; blocks of a matrix have none, side by side."""
    if not np.may_share_memory(one, other):  # which looks only at where they begin and end
        return False
    try:
        return np.shares_memory(one, other, max_work=_MOST_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def shares_parts(value: Any, others: Iterable[Any]) -> bool:
    """Whether something in a value that may change is in others as well, in part at least."""
    theirs = _all_parts(others)
    arrays = [part for part in theirs.values() if isinstance(part, np.ndarray)]
    for key, part in _all_parts([value]).items():
        if key in theirs:
            return True
        if isinstance(part, np.ndarray) and any(share_memory(part, other) for other in arrays):
            return True
    return False


def _all_parts(values: Iterable[Any]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for part in _parts(values, found.keys()):
        found[id(part)] = part
    return found


def _parts(values: Iterable[Any], known: Container[int] = ()) -> Iterator[Any]:
    """Return all within values that may change, and the tuples that hold such parts after them.

    What is known is not entered.
    """
    for value in values:
        if isinstance(value, _FIXED):
            continue
        if isinstance(value, tuple):
            is_changeable = False
            for part in _parts(value, known):
                is_changeable = True
                yield part
            if is_changeable:
                yield value
            continue
        is_known = id(value) in known
        yield value
        if not is_known and isinstance(value, _HOLDERS) and (inside := _inside(value)):
            yield from _parts(inside, known)


def _inside(value: Any) -> Sequence[Any]:
    if isinstance(value, np.ndarray):
        return value.ravel().tolist() if value.dtype == object else ()
    return list(value.values() if isinstance(value, dict) else value)


class Written:
    """What a call writes: all parts of it that may change, in an order that its copies share."""

    def __init__(self, function: TaskFunction, values: Sequence[Any]) -> None:
        self._label = function.label
        self._parts = list(_parts(values[k] for k in function.write_places))
        for part in self._parts:
            if not isinstance(part, _RESTORED) and is_tensor(part):
                raise self._not_compared(part)  # its memory moves when it is sent

    def bring_back(self, changes: Sequence[Any]) -> None:
        """Change data to what their copies became."""
        for part, new in zip(self._parts, changes, strict=True):
            if isinstance(part, np.ndarray):
                part[...] = new if part.dtype != object else self._built_array(new, part.shape)
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

    def _built(self, told: Sequence[Any]) -> Any:
        kind, content = told[:2]
        if kind == "part":
            return self._parts[content]
        if kind == "new":
            return content
        if kind == "dict":
            return dict(zip(content, map(self._built, told[2]), strict=True))
        found = map(self._built, content)
        if kind == "named tuple":
            return told[2]._make(found)
        return list(found) if kind == "list" else tuple(found)

    def _built_array(self, told: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        found = self._built(told)
        flat = np.empty(len(found), dtype=object)
        for k, value in enumerate(found):  # numpy would enter those that are lists
            flat[k] = value
        return flat.reshape(shape)

    def _not_compared(self, part: Any) -> UsageError:
        return UsageError(
            f"task '{self._label}' writes data that hold a {type(part).__name__}, of which it "
            "cannot be told whether another process changes it"
        )


class _Copied(Written):
    """Copies of what a call writes, in the process that changes them."""

    def __init__(self, function: TaskFunction, values: Sequence[Any]) -> None:
        super().__init__(function, values)
        self._numbers: dict[int, int] = {}
        for number, part in enumerate(self._parts):
            self._numbers.setdefault(id(part), number)
        # Of other objects it can only be told whether they have changed.
        self._before = [None if isinstance(p, _RESTORED) else self._as_sent(p) for p in self._parts]

    def changes(self) -> list[Any]:
        """Return what each part has become, for the call's own data to become the same."""
        for part, before in zip(self._parts, self._before, strict=True):
            if before is not None and self._as_sent(part) != before:
                raise UsageError(
                    f"task '{self._label}' changes an object of type {type(part).__name__} inside "
                    "its data, which does not come back from another process; put a new one in "
                    "its place, or use arrays, lists, dicts and bytearrays"
                )
        try:
            return [self._content(part) for part in self._parts]
        except RecursionError:
            raise UsageError(
                f"task '{self._label}' writes new data that contain themselves or are nested too "
                "deeply to come back from another process; use lists and dicts that do not contain "
                "themselves"
            ) from None

    def _as_sent(self, part: Any) -> bytes:
        try:
            return bytes(ForkingPickler.dumps(part))
        except Exception:  # what an object's own code raises
            raise self._not_compared(part) from None

    def _content(self, part: Any) -> Any:
        if isinstance(part, np.ndarray) and part.dtype == object:
            return self._told_inside(part.ravel().tolist())
        if isinstance(part, list):
            return self._told_inside(list(part))
        if isinstance(part, dict):
            return self._told_inside(dict(part))
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
        inside = _inside(value)
        if all(id(part) not in self._numbers for part in _parts(inside)):
            return ("new", value)
        told = [self._told(part) for part in inside]
        kind = type(value)
        if kind is dict:
            return ("dict", list(value), told)
        if kind in (list, tuple):
            return (kind.__name__, told)
        if issubclass(kind, tuple) and hasattr(kind, "_make"):
            return ("named tuple", told, kind)
        raise UsageError(
            f"task '{self._label}' puts data that it writes into a new {kind.__name__}, which does "
            "not come back from another process; use a list, a tuple, a named tuple or a dict"
        )


def run_copied(function: TaskFunction, values: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Run a body with data that were sent; return its result and what it has changed."""
    # Ray hands over arrays that cannot be written.
    own = tuple(_own(values, set()))
    written = _Copied(function, own)
    result = function.call_with(own)
    return result, written.changes()


def _own(values: Iterable[Any], seen: set[int]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, np.ndarray) and not value.flags.writeable:
            yield value.copy(order="K")
            continue
        if isinstance(value, list | dict) and id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, list):
                value[:] = _own(value, seen)
            else:
                for key, part in zip(value, _own(list(value.values()), seen), strict=True):
                    value[key] = part
        elif type(value) is tuple:
            value = tuple(_own(value, seen))
        elif isinstance(value, tuple) and hasattr(value, "_make"):
            value = value._make(_own(value, seen))
        yield value
