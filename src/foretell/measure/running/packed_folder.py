"""The folder of a sweep on other machines: used where it is, or sent along if it is small."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: The most that is sent to nodes: scripts and small inputs, not a home directory.
MOST_BYTES, MOST_FILES = 20 * 2**20, 1000


@dataclass(frozen=True)
class PackedFolder:
    """A folder, packed for machines that do not have it.

    Attributes
    ----------
    inode
        Equal on a node whose folder of this path is the same one, on a shared file system.
    packed
        The folder's files; None if they are too many or too large to be sent.
    """

    path: str
    inode: int
    packed: bytes | None

    @classmethod
    def of(cls, folder: Path) -> PackedFolder:
        """Pack a folder."""
        folder = folder.resolve()
        return cls(str(folder), folder.stat().st_ino, _pack(folder))

    def folder(self) -> Path | None:
        """Return the folder, or a copy where it does not exist; None if it was too large."""
        with suppress(OSError):
            if Path(self.path).stat().st_ino == self.inode:
                return Path(self.path)
        return self.copy()

    def copy(self) -> Path | None:
        """Return a copy, at a path that depends on the content alone; None if it was too large."""
        return None if self.packed is None else _unpack(self.packed)


def _pack(folder: Path) -> bytes | None:
    content, n_bytes = io.BytesIO(), 0
    with zipfile.ZipFile(content, "w") as archive:
        for n_files, path in enumerate(_files(folder)):
            n_bytes += path.stat().st_size
            if n_files >= MOST_FILES or n_bytes > MOST_BYTES:
                return None
            info = zipfile.ZipInfo(str(path.relative_to(folder)))  # of a fixed date
            info.external_attr = path.stat().st_mode << 16
            archive.writestr(info, path.read_bytes())
    return content.getvalue()


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files that a job may need, in order; hidden files are left out."""
    for parent, names, files in os.walk(folder):
        names[:] = sorted(n for n in names if not n.startswith(".") and n != "__pycache__")
        for name in sorted(files):
            path = Path(parent, name)
            if not name.startswith(".") and path.is_file() and os.access(path, os.R_OK):
                yield path


def _unpack(packed: bytes) -> Path:
    """Unpack into a folder named after the content; a second call finds it there."""
    name = f"foretell-{os.getuid()}-{hashlib.sha256(packed).hexdigest()[:16]}"
    target = Path(tempfile.gettempdir(), name)
    if not (target.is_dir() and target.stat().st_uid == os.getuid()):
        fresh = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            for info in archive.infolist():
                file = Path(archive.extract(info, fresh))
                file.chmod(info.external_attr >> 16 & 0o777)
        try:
            fresh.rename(target)
        except OSError:
            if not (target.is_dir() and target.stat().st_uid == os.getuid()):
                raise
            shutil.rmtree(fresh, ignore_errors=True)
    return target
