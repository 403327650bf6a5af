"""The shelf: models of one directory by name; nothing outside it is ever opened."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foretell.adapters.http.problems import ProblemError
from foretell.errors import ModelError, suggest
from foretell.model.directory import BEST

if TYPE_CHECKING:
    from foretell.model.saved.model import SavedModel

SUFFIX = ".foretell"
#: What a model may be called: no name leads out of the directory, or to a hidden file.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: Models that are told of at once.
MOST_NAMES = 500

_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO}
_Identity = tuple[int, int, int, int]


@dataclass(frozen=True)
class _Kept:
    """What came of reading a file, good or bad, and which file that was."""

    identity: _Identity
    model: SavedModel | ModelError


class Shelf:
    """Models by name: an output of ``foretell fit`` below the directory, or a model file in it.

    Links are not followed. A model that was read is kept until its file changes, or until others
    were asked for more recently.
    """

    def __init__(self, directory: Path, most: int = 8) -> None:
        self._directory = directory
        self._most = most
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def names(self) -> list[str]:
        """List the models that are there now."""
        try:
            found = self._candidates()
        except OSError as error:
            raise ProblemError(
                "storage", f"the model directory cannot be read: {error.strerror}"
            ) from None
        return [name for name in found if self._is_there(name)][:MOST_NAMES]

    def model(self, name: str) -> SavedModel:
        """Return a model, read again if its file has changed."""
        with self._opened(name) as file:
            identity = _identity(file)
            kept = self._kept.get(name)
            if kept is None or kept.identity != identity:
                kept = self._kept[name] = _Kept(identity, _read(file, name))
            self._kept.move_to_end(name)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        if isinstance(kept.model, ModelError):
            raise ProblemError("broken-model", str(kept.model))
        return kept.model

    def identity(self, name: str) -> _Identity:
        """Return what changes when the file of a model does."""
        with self._opened(name) as file:
            return _identity(file)

    def _is_there(self, name: str) -> bool:
        try:
            with self._opened(name):
                return True
        except ProblemError as problem:
            return problem.kind == "broken-model"

    @contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        file = self._open(name)
        try:
            yield file
        finally:
            os.close(file)

    def _open(self, name: str) -> int:
        if NAME.fullmatch(name):
            for steps in ((name, BEST), (name + SUFFIX,)):
                try:
                    return _open_beneath(self._directory, steps)
                except OSError as error:
                    if error.errno not in _ABSENT:
                        raise ProblemError(
                            "broken-model", f"the model '{name}' cannot be read: {error.strerror}"
                        ) from None
        self._kept.pop(name, None)
        raise ProblemError("unknown-model", self._unknown(name))

    def _unknown(self, name: str) -> str:
        with suppress(OSError):
            if names := self._candidates():
                return f"there is no model {name[:100]!r} here. {suggest(name[:100], names)}"
        return f"there is no model {name[:100]!r} here, nor any other yet"

    def _candidates(self) -> list[str]:
        """List the names under which a model could be."""
        with os.scandir(self._directory) as entries:
            found = {name for entry in entries if (name := _model_name(entry)) is not None}
        best = BEST.removesuffix(SUFFIX)
        return [best] if best in found else sorted(found)  # of one fit, the others only compete


def _open_beneath(directory: Path, steps: tuple[str, ...]) -> int:
    """Open a plain file step by step, without following any link."""
    here = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for step in steps[:-1]:
            there = os.open(step, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = there
        # Without waiting: a pipe in the place of a file would keep us forever.
        file = os.open(steps[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
    finally:
        os.close(here)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.ENOENT, "not a file")
    return file


def _identity(file: int) -> _Identity:
    found = os.fstat(file)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _model_name(entry: os.DirEntry[str]) -> str | None:
    """Return the name that an entry of the directory could be a model of."""
    if entry.is_dir(follow_symlinks=False):
        name = entry.name
    elif entry.is_file(follow_symlinks=False) and entry.name.endswith(SUFFIX):
        name = entry.name.removesuffix(SUFFIX)
    else:
        return None
    return name if NAME.fullmatch(name) else None


def _read(file: int, name: str) -> SavedModel | ModelError:
    from foretell.model.saved.model import read_model

    with os.fdopen(os.dup(file), "rb") as content:
        try:
            return read_model(content, f"the model '{name}'")
        except ModelError as error:
            return error
