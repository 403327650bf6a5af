"""Promoting a refitted model: the old one is kept, and the model file is replaced in one step.

The old files are copied first, to a folder that gets its name when it is complete. Then the files
of the new fit are written over those of the old one, each whole, and the model file comes last: a
process that loads the model finds the old one or the new one. After a crash, the same call finishes
the work.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from foretell.cluster.maintenance.refit import ModelFile
from foretell.errors import StorageError
from foretell.files.directory import LOCK, write_whole
from foretell.model import directory as layout

_MODEL_SUFFIX = Path(layout.BEST).suffix


def promote(file: ModelFile, fit: Path, kept: Path) -> None:
    """Put the model of a fit in the place of another, which is copied to the folder ``kept``."""
    try:
        _keep(file, kept)
        if file.fit_folder is not None:
            _replace_folder(file.fit_folder, fit)
        else:
            write_whole(file.path, (fit / layout.BEST).read_bytes())
    except OSError as error:
        raise StorageError(
            f"{file.path} cannot be replaced: {error.strerror}. It is kept as it was; check the "
            "permissions, and run the same command again."
        ) from None


def _keep(file: ModelFile, kept: Path) -> None:
    if kept.exists():  # the copy is complete, and the model may be the new one by now
        return
    part = kept.with_name(kept.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for old in _files(file.fit_folder) if file.fit_folder is not None else [file.path]:
        write_whole(part / old.name, old.read_bytes())
    part.rename(kept)


def _replace_folder(folder: Path, fit: Path) -> None:
    new = sorted(_files(fit), key=lambda path: path.name == layout.BEST)
    for path in new:
        write_whole(folder / path.name, path.read_bytes())
    names = {path.name for path in new}
    for old in _files(folder):  # models of techniques that the new fit did not try
        if old.name not in names and old.suffix == _MODEL_SUFFIX:
            old.unlink()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name != LOCK)


def discard_older(folder: Path, n_kept: int) -> None:
    """Delete all but the newest of the models that were replaced; the newest has the last name."""
    found = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    for path in found[:-n_kept]:
        shutil.rmtree(path, ignore_errors=True)
