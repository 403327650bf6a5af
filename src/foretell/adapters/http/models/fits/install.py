"""Put a finished fit into the model directory, and never lose the model that it replaces.

The old model is renamed into the folder of the job, then the new one is renamed into its place.
The old one is deleted when the job is recorded as done. If the process is killed in between,
``recover`` finds out how far it got, and puts the old model back if the new one is not in place.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from foretell.adapters.http.models.store import SUFFIX, open_beneath
from foretell.errors import StorageError
from foretell.files.directory import JOURNAL, LOCK, LOG
from foretell.files.journal import starts_journal
from foretell.model import directory as layout

_REPLACED = "replaced"
#: What a fit writes, besides the files of models.
_FILES_OF_A_FIT = {
    *(LOCK, JOURNAL, LOG),
    *(layout.RESULTS, layout.SUMMARY, layout.LEADERBOARD, layout.CAMPAIGN),
    *(layout.RUNS, layout.REHEARSALS),
}


class Installer:
    """Moves fits into a model directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def is_taken(self, name: str) -> bool:
        """Whether anything in the model directory has this name."""
        return any(os.path.lexists(path) for path in self._places(name))

    def check_replaceable(self, name: str) -> None:
        """Refuse to replace anything but a model that foretell wrote."""
        folder, file = self._places(name)
        if os.path.lexists(folder):
            _check_output_of_fit(folder)
        if os.path.lexists(file) and not _is_model(self._directory, (file.name,)):
            raise StorageError(
                f"the file '{file.name}' is not a model that foretell wrote, so it is not "
                "replaced; choose another name, or remove it first"
            )

    def install(self, name: str, output: Path, *, replace: bool) -> None:
        """Move the output of a fit to its place; on an error, everything is as before."""
        aside = _aside(output)
        try:
            if replace:
                self.check_replaceable(name)
            elif self.is_taken(name):
                raise StorageError(f"the name '{name}' was taken while the fit ran")
            aside.mkdir(exist_ok=True)
            for old in self._places(name):
                if os.path.lexists(old):
                    old.rename(aside / old.name)
            output.rename(self._directory / name)
        except OSError as error:
            self.recover(name, output)
            raise StorageError(f"the model cannot be put in place: {error.strerror}") from None

    def recover(self, name: str, output: Path) -> bool:
        """Undo a move that was interrupted; return whether it was complete instead."""
        aside = _aside(output)
        if not aside.is_dir():
            return False
        if os.path.lexists(self._directory / name) and not os.path.lexists(output):
            return True
        for old in list(aside.iterdir()):
            if not os.path.lexists(self._directory / old.name):
                old.rename(self._directory / old.name)
        with suppress(OSError):  # what could not be put back stays
            aside.rmdir()
        return False

    def discard_replaced(self, output: Path) -> None:
        """Delete the model that was replaced."""
        shutil.rmtree(_aside(output), ignore_errors=True)

    def _places(self, name: str) -> tuple[Path, Path]:
        return self._directory / name, self._directory / (name + SUFFIX)


def _aside(output: Path) -> Path:
    """Return the folder for the model that is replaced, beside the output of the new fit."""
    return output.parent / _REPLACED


def _check_output_of_fit(folder: Path) -> None:
    is_output = (
        folder.is_dir()
        and not folder.is_symlink()
        and _is_model(folder.parent, (folder.name, layout.BEST))
        and _has_journal(folder)
    )
    if not is_output:
        raise StorageError(
            f"'{folder.name}' is not the output of a fit, so it is not replaced; choose another "
            "name, or remove it first"
        )
    foreign = [entry.name for entry in os.scandir(folder) if not _is_of_a_fit(entry)]
    if foreign:
        raise StorageError(
            f"'{folder.name}' also holds '{min(foreign)}', which foretell did not write, so it is "
            "not replaced; choose another name, or move that file away first"
        )


def _has_journal(folder: Path) -> bool:
    try:
        with os.fdopen(open_beneath(folder.parent, (folder.name, JOURNAL)), "rb") as file:
            return starts_journal(file)
    except OSError:
        return False


def _is_of_a_fit(entry: os.DirEntry[str]) -> bool:
    name = entry.name.removesuffix(".part")  # left by a fit that was killed
    is_known = name in _FILES_OF_A_FIT or name.endswith(SUFFIX)
    return is_known and entry.is_file(follow_symlinks=False)


def _is_model(directory: Path, steps: tuple[str, ...]) -> bool:
    """Whether foretell wrote a file, be it this version or another."""
    from foretell.model.saved.file import Archive

    try:
        with os.fdopen(open_beneath(directory, steps), "rb") as file:
            header = Archive(file, steps[-1]).header()
    except Exception:  # a damaged or hostile file may fail in any way
        return False
    return isinstance(header, dict) and isinstance(header.get("format"), int)
