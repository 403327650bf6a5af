"""What tasks read and write: keys and boxes of arrays, and which earlier tasks must end first."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import PurePath
from types import SimpleNamespace
from typing import Any

import numpy as np

from foretell.errors import UsageError

#: Start, stop and step along each axis of the array that owns the memory.
Box = tuple[tuple[int, int, int], ...]
#: Values of these types are keys by themselves: equal ones are the same data.
KEYS = (str, bytes, int, float, bool, type(None), PurePath)
_FIRST_ROOM = 8


class _Entry:
    """A part of some data: who wrote it last, who read it since, and the parts that overlap it.

    Attributes
    ----------
    is_past
        Whether a later task, which wrote a part of it, waits for all of its readers.
    inside
        The parts that lie within it.
    """

    __slots__ = ("inside", "is_past", "others", "readers", "writer")

    def __init__(self) -> None:
        self.writer: Any = None
        self.readers: list[Any] = []
        self.is_past = False
        self.others: list[_Entry] = []
        self.inside: list[_Entry] = []


class _Base:
    """All parts of one array that tasks have named so far."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        # Kept alive: the address of an array that is gone may become that of another.
        self.array = array
        self._start = _byte_range(array)[0]
        self._entries: dict[Any, _Entry] = {}
        self._boxes: list[tuple[Box | None, _Entry]] = []
        self._low = np.zeros((_FIRST_ROOM, array.ndim + 1), dtype=np.int64)
        self._high = np.zeros_like(self._low)

    def entry(self, view: np.ndarray[Any, Any]) -> _Entry:
        """Return the entry of a view; one that is new learns which others overlap it."""
        whole = view is self.array
        key = (None, None) if whole else (view.__array_interface__["data"][0], view.strides)
        key = (*key, view.shape, view.itemsize)
        found = self._entries.get(key)
        return self._added(key, view) if found is None else found

    def _added(self, key: Any, view: np.ndarray[Any, Any]) -> _Entry:
        own = _Entry()
        box = box_of(view, self.array)
        if view.size:  # an empty part depends on nothing
            low, high = self._bounds(view, box)
            n = len(self._boxes)
            is_near = (self._low[:n] < high).all(1) & (self._high[:n] > low).all(1)
            for k in np.flatnonzero(is_near):
                other_box, other = self._boxes[k]
                if _may_overlap(box, other_box):
                    own.others.append(other)
                    other.others.append(own)
                    if _contains(box, other_box):
                        own.inside.append(other)
                    if _contains(other_box, box):
                        other.inside.append(own)
            if n == len(self._low):
                self._low = np.concatenate([self._low, np.zeros_like(self._low)])
                self._high = np.concatenate([self._high, np.zeros_like(self._high)])
            self._low[n] = low
            self._high[n] = high
            self._boxes.append((box, own))
        self._entries[key] = own
        return own

    def _bounds(self, view: np.ndarray[Any, Any], box: Box | None) -> tuple[list[int], list[int]]:
        first, last = _byte_range(view)
        axes = box or tuple((0, max(n, 1), 1) for n in self.array.shape)
        low = [first - self._start, *(a[0] for a in axes)]
        high = [last - self._start, *(a[1] for a in axes)]
        return low, high


def _byte_range(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return the addresses of the first byte of an array and of the one after its last.

    What ``numpy.lib.array_utils.byte_bounds`` does, in a tenth of the time.
    """
    first = last = array.__array_interface__["data"][0]
    for n, stride in zip(array.shape, array.strides, strict=True):
        if stride > 0:
            last += (n - 1) * stride
        else:
            first += (n - 1) * stride
    return first, last + array.itemsize


def box_of(view: np.ndarray[Any, Any], base: np.ndarray[Any, Any]) -> Box | None:
    """Return the box that a view is of the array that owns its memory; None if it is no box.

    Such a view, like one of another type or shape, is then known by its first and last byte.

    >>> a = np.zeros((8, 8))
    >>> box_of(a[2:4, ::2], a), box_of(a.reshape(4, 16), a)
    (((2, 4, 1), (0, 7, 2)), None)
    """
    if view is base:
        return tuple((0, n, 1) for n in base.shape)
    if view.itemsize != base.itemsize or not base.size or not view.size:
        return None
    low = _byte_range(view)[0] - _byte_range(base)[0]
    axes = sorted(range(base.ndim), key=lambda k: -abs(base.strides[k]))
    starts = {}
    for k in axes:
        starts[k], low = divmod(low, abs(base.strides[k]) or base.itemsize)
    found = {k: (starts[k], starts[k] + 1, 1) for k in axes}
    free = [k for k in axes if base.shape[k] > 1]
    for stride, n in sorted(zip(view.strides, view.shape, strict=True), key=lambda p: -abs(p[0])):
        if n == 1:
            continue
        fitting = [
            k for k in free
            if stride and abs(stride) % abs(base.strides[k]) == 0
            and starts[k] + abs(stride) // abs(base.strides[k]) * (n - 1) < base.shape[k]
        ]  # fmt: skip
        if not fitting:
            return None
        k = fitting[0]
        free.remove(k)
        step = abs(stride) // abs(base.strides[k])
        found[k] = (starts[k], starts[k] + step * (n - 1) + 1, step)
    is_inside = all(stop <= base.shape[k] for k, (_, stop, _) in found.items())
    return tuple(found[k] for k in range(base.ndim)) if is_inside and not low else None


def _may_overlap(one: Box | None, other: Box | None) -> bool:
    """Say whether boxes whose bounds overlap share an element: not if they alternate."""
    if one is None or other is None:
        return True
    return not any(
        a[2] == b[2] > 1 and (a[0] - b[0]) % a[2] for a, b in zip(one, other, strict=True)
    )


def _contains(one: Box | None, other: Box | None) -> bool:
    """Say whether a box has all elements of another."""
    if one is None or other is None:
        return False
    return all(
        a[0] <= b[0] and b[1] <= a[1]
        and (a[2] == 1 or ((b[0] - a[0]) % a[2] == 0 and (b[2] % a[2] == 0 or b[1] - b[0] == 1)))
        for a, b in zip(one, other, strict=True)
    )  # fmt: skip


def owner_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return the array that owns the memory of a view; None if something else than numpy does."""
    while (base := array.base) is not None:
        if isinstance(base, memoryview):
            base = base.obj
        if not isinstance(base, np.ndarray):
            return None
        array = base
    return array


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or is_tensor(value)


def is_tensor(value: Any) -> bool:
    """Whether something is a tensor of PyTorch."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "numpy")


def _memory_of(tensor: Any) -> np.ndarray[Any, Any]:
    """Return the memory of a tensor of PyTorch as an array, of whatever type its numbers are."""
    if tensor.device.type != "cpu" or str(tensor.layout) != "torch.strided":
        raise UsageError(
            f"a task reads or writes a tensor on '{tensor.device}' with layout {tensor.layout}; "
            "expected one in the memory of the CPU that is not sparse. Name other data by keys"
        )
    n_bytes = tensor.element_size()
    memory = SimpleNamespace(
        __array_interface__={
            "version": 3, "typestr": f"|V{n_bytes}", "data": (tensor.data_ptr(), False),
            "shape": tuple(tensor.shape), "strides": tuple(n_bytes * s for s in tensor.stride()),
        }
    )  # fmt: skip
    return np.asarray(memory)


class Dependencies:
    """Finds which earlier tasks a new one must wait for, from what they read and write.

    >>> from types import SimpleNamespace
    >>> first, second, third = (SimpleNamespace(id=i) for i in range(3))
    >>> known = Dependencies()
    >>> known.add(first, reads=[], writes=["x"]), known.add(second, reads=["x"], writes=[])
    ([], [namespace(id=0)])
    >>> [task.id for task in known.add(third, reads=[], writes=["x"])]
    [0, 1]
    """

    def __init__(self) -> None:
        self._keys: dict[Hashable, _Entry] = {}
        self._objects: dict[int, tuple[Any, _Entry]] = {}
        self._arrays: dict[int, _Base] = {}

    def add(self, task: Any, reads: Sequence[Any], writes: Sequence[Any]) -> list[Any]:
        """Return the tasks before a new one, each once: read after write, and write after both."""
        read, written = self._entries(reads), self._entries(writes)
        found: dict[int, Any] = {}
        for entry in read:
            for one in (entry, *entry.others):
                if one.writer is not None:
                    found[one.writer.id] = one.writer
        for entry in written:
            for one in (entry, *entry.others):
                if one.writer is not None:
                    found[one.writer.id] = one.writer
                for reader in one.readers:
                    found[reader.id] = reader
                one.is_past = True
        _note(task, read, written)
        found.pop(task.id, None)
        return list(found.values())

    def writers(self, values: list[Any]) -> list[Any]:
        """Return the last tasks that write any of some data."""
        entries = self._entries(values)
        every = {id(one): one for entry in entries for one in (entry, *entry.others)}
        return [one.writer for one in every.values() if one.writer is not None]

    def _entries(self, values: Sequence[Any], outer: tuple[Any, ...] = ()) -> list[_Entry]:
        found: list[_Entry] = []
        for value in values:
            if type(value) is str and value in self._keys:
                found.append(self._keys[value])
            elif isinstance(value, np.ndarray):
                found.append(self._of_array(value))
            elif isinstance(value, (list, tuple)) and any(map(_is_array, value)):
                if not any(value is one for one in outer):  # a list may contain itself
                    found += self._entries(value, (*outer, value))
            else:
                found.append(self._of_other(value))
        return found

    def _of_other(self, value: Any) -> _Entry:
        is_of_numpy = _is_of_numpy(value)
        if is_of_numpy:
            value = value.item()
        if is_of_numpy or isinstance(value, KEYS) or (isinstance(value, tuple) and is_key(value)):
            # True is not 1. A text equals nothing but a text.
            key = value if type(value) is str else (type(value), value)
            entry = self._keys.get(key)
            if entry is None:
                entry = self._keys[key] = _Entry()
            return entry
        if is_tensor(value):
            return self._of_array(_memory_of(value))
        known = self._objects.get(id(value))
        if known is None:
            known = self._objects[id(value)] = (value, _Entry())
        return known[1]

    def _of_array(self, array: np.ndarray[Any, Any]) -> _Entry:
        owner = array if array.base is None else owner_of(array)
        if owner is None:
            owner = _EVERYTHING
        base = self._arrays.get(id(owner))
        if base is None:
            base = self._arrays[id(owner)] = _Base(owner)
        return base.entry(array)


def _note(task: Any, read: Sequence[_Entry], written: Sequence[_Entry]) -> None:
    """Note who reads and writes entries; who later depends on a task depends on those before it."""
    for entry in read:
        if entry.is_past:  # this task comes after its readers, by way of who wrote a part
            entry.readers, entry.is_past = [], False
        entry.readers.append(task)
    for entry in written:
        entry.writer = task
        entry.readers = []
        for one in entry.inside:  # what overlaps these overlaps all of what is written
            one.readers = []


def is_key(value: tuple[Any, ...]) -> bool:
    """Whether a tuple is a key: equal ones are the same data."""
    return all(
        isinstance(v, KEYS) or _is_of_numpy(v) or (isinstance(v, tuple) and is_key(v))
        for v in value
    )


def _is_of_numpy(value: Any) -> bool:
    """Whether something is a number or a text of numpy, such as what `numpy.arange` holds."""
    return isinstance(value, np.generic) and not isinstance(value, np.void)  # which may change


#: Stands for all memory that numpy does not own: parts of it are known by their addresses.
_EVERYTHING = np.zeros(0, dtype=np.uint8)
