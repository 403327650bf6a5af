"""The models of one directory, by name; nothing outside the directory is ever opened."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from foretell.adapters.http.server.problems import Kind, ProblemError
from foretell.errors import ModelError, suggest
from foretell.files.directory import JOURNAL
from foretell.model.directory import BEST, RUNS

if TYPE_CHECKING:
    from foretell.model.saved.model import SavedModel

SUFFIX = ".foretell"
#: What a model may be called: no name leads out of the directory, or to a hidden file.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: Models listed at once.
MAX_NAMES = 500

UNKNOWN_MODEL = Kind("unknown-model", 404, "There is no such model")
BROKEN_MODEL = Kind("broken-model", 500, "The model cannot be read")
STORAGE = Kind("storage", 500, "The model directory cannot be used")

_MAX_RUNS_BYTES = 8 * 2**20
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO}
_Identity = tuple[int, int, int, int]


class ModelStore:
    """Models by name: an output of ``foretell fit`` in the directory, or a model file in it.

    Links are not followed. A model stays in memory until its file changes, or until enough others
    were asked for more recently.
    """

    def __init__(self, directory: Path, max_models: int = 8) -> None:
        self._directory = directory
        self._max_models = max_models
        self._entries: OrderedDict[str, tuple[_Identity, SavedModel | ModelError]] = OrderedDict()

    def names(self) -> list[str]:
        """List the models that are there now."""
        try:
            found = self._candidates()
        except OSError as error:
            raise ProblemError(
                STORAGE, f"the model directory cannot be read: {error.strerror}"
            ) from None
        return [name for name in found if self._exists(name)][:MAX_NAMES]

    def model(self, name: str) -> SavedModel:
        """Return a model, read again if its file has changed."""
        with self._opened(name) as file:
            identity = _identity(file)
            if name not in self._entries or self._entries[name][0] != identity:
                self._entries[name] = identity, _read(file, name)
            self._entries.move_to_end(name)
            _, found = self._entries[name]
        while len(self._entries) > self._max_models:
            self._entries.popitem(last=False)
        if isinstance(found, ModelError):
            raise ProblemError.of(found, BROKEN_MODEL)
        return found

    def identity(self, name: str) -> _Identity:
        """Return a value that changes when the file of a model does."""
        with self._opened(name) as file:
            return _identity(file)

    def runs(self, name: str) -> bytes | None:
        """Return the runs that a model was fitted on, as CSV; None where there is no such file."""
        opened, (*folder, file_name) = self._open(name)
        os.close(opened)
        if file_name != BEST:
            return None
        try:
            os.close(open_beneath(self._directory, (*folder, JOURNAL)))  # a fit left it there
            with os.fdopen(open_beneath(self._directory, (*folder, RUNS)), "rb") as file:
                table = file.read(_MAX_RUNS_BYTES + 1)
        except OSError:
            return None
        return table if len(table) <= _MAX_RUNS_BYTES else None

    def _exists(self, name: str) -> bool:
        try:
            with self._opened(name):
                return True
        except ProblemError as problem:
            return problem.kind == BROKEN_MODEL

    @contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        file, _ = self._open(name)
        try:
            yield file
        finally:
            os.close(file)

    def _open(self, name: str) -> tuple[int, tuple[str, ...]]:
        """Open the file of a model; also return the steps from the directory to it."""
        if NAME.fullmatch(name):
            for steps in ((name, BEST), (name + SUFFIX,)):
                try:
                    return open_beneath(self._directory, steps), steps
                except OSError as error:
                    if error.errno not in _ABSENT:
                        raise ProblemError(
                            BROKEN_MODEL,
                            f"the model '{name}' cannot be read: {error.strerror}",
                        ) from None
        self._entries.pop(name, None)
        raise ProblemError(UNKNOWN_MODEL, self._unknown(name))

    def _unknown(self, name: str) -> str:
        with suppress(OSError):
            if names := self._candidates():
                return f"there is no model {name[:100]!r} here. {suggest(name[:100], names)}"
        return f"there is no model {name[:100]!r} here, and no other one yet"

    def _candidates(self) -> list[str]:
        """List the names under which a model could be."""
        with os.scandir(self._directory) as entries:
            found = list(entries)
        files = {entry.name for entry in found if entry.is_file(follow_symlinks=False)}
        if {BEST, JOURNAL} <= files:  # one fit: its other files are models it did not choose
            found = [entry for entry in found if entry.name == BEST or entry.name not in files]
        return sorted({name for entry in found if (name := _model_name(entry)) is not None})


def open_beneath(directory: Path, steps: tuple[str, ...]) -> int:
    """Open a regular file step by step, without following any link."""
    here = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for step in steps[:-1]:
            there = os.open(step, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = there
        # Without waiting: opening a pipe would block until somebody writes to it.
        file = os.open(steps[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
    finally:
        os.close(here)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.ENOENT, "not a regular file")
    return file


def _identity(file: int) -> _Identity:
    found = os.fstat(file)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _model_name(entry: os.DirEntry[str]) -> str | None:
    """Return the name of the model that an entry of the directory could be."""
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
