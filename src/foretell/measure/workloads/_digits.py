"""Images of handwritten digits: MNIST's files, or those that ship inside scikit-learn."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.errors import UsageError

SIDE = 28
N_CLASSES = 10

#: MNIST has six training images per image to validate with, and 10,000 of the latter.
_TRAINING_PER_VALIDATION = 6
_MOST_VALIDATION = 10_000

_IMAGES_MAGIC, _LABELS_MAGIC = 2051, 2049


@dataclass(frozen=True)
class Digits:
    """Grey images of 28 × 28 bytes, and the digit that each shows."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def replicated(self, n: int) -> Digits:
        """Return n images: these over and over, as the paper made its larger sets from MNIST."""
        index = np.arange(n) % len(self)
        return Digits(self.images[index], self.labels[index])


def load_digits(folder: Path | None, n_images: int) -> tuple[Digits, Digits]:
    """Return n images to train with, and as many to validate with as MNIST would have.

    The folder has MNIST's four files; None takes scikit-learn's digits.
    """
    training, validation = _shipped() if folder is None else read_mnist(folder)
    n_validation = min(_MOST_VALIDATION, max(1, n_images // _TRAINING_PER_VALIDATION))
    return training.replicated(n_images), validation.replicated(n_validation)


def _shipped() -> tuple[Digits, Digits]:
    """Return scikit-learn's 1,797 digits, enlarged; every sixth is kept for validation."""
    from sklearn import datasets

    found = datasets.load_digits()
    images, labels = enlarged(found.images), found.target.astype(np.int64)
    is_kept = np.arange(len(labels)) % _TRAINING_PER_VALIDATION == 0
    return Digits(images[~is_kept], labels[~is_kept]), Digits(images[is_kept], labels[is_kept])


def enlarged(images: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Scale images of 8 × 8 pixels from 0 to 16 to 28 × 28 bytes, linearly between pixels."""
    side = images.shape[-1]
    places = np.linspace(0, side - 1, SIDE)
    weights = np.stack([np.interp(places, np.arange(side), row) for row in np.eye(side)], axis=1)
    return np.rint(weights @ images @ weights.T * (255 / 16)).astype(np.uint8)


def read_mnist(folder: Path) -> tuple[Digits, Digits]:
    """Read MNIST's four files, packed or not; raise a UsageError if one is missing or broken."""
    if not folder.is_dir():
        raise UsageError(f"workload.images: there is no folder {folder}")
    return _read_part(folder, "train"), _read_part(folder, "t10k")


def _read_part(folder: Path, part: str) -> Digits:
    images_path = _find(folder, f"{part}-images-idx3-ubyte")
    labels_path = _find(folder, f"{part}-labels-idx1-ubyte")
    images = _read_idx(images_path, _IMAGES_MAGIC, n_dimensions=3)
    labels = _read_idx(labels_path, _LABELS_MAGIC, n_dimensions=1)
    if images.shape[1:] != (SIDE, SIDE):
        shape = " × ".join(map(str, images.shape[1:]))
        raise UsageError(f"{images_path} has images of {shape} pixels, not {SIDE} × {SIDE}")
    if len(images) != len(labels):
        raise UsageError(
            f"{images_path} has {len(images):,} images, and {labels_path.name} {len(labels):,} "
            "labels; the two must belong together"
        )
    if not len(images):
        raise UsageError(f"{images_path} has no images")
    if labels.max() >= N_CLASSES:
        raise UsageError(f"{labels_path} has the label {labels.max()}; digits are 0 to 9")
    return Digits(images, labels.astype(np.int64))


def _find(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise UsageError(
        f"workload.images: {folder} has no {name} or {name}.gz; MNIST has four such files, "
        "train- and t10k- with images and labels"
    )


def _read_idx(path: Path, magic: int, *, n_dimensions: int) -> NDArray[Any]:
    """Read one file: a magic number, the size of each dimension, and one byte per value."""
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path} cannot be read: {error}; copy it again") from None
    n_header = 4 * (1 + n_dimensions)
    if len(content) < n_header:
        raise UsageError(f"{path} has {len(content)} bytes, too few for an idx file")
    found, *sizes = np.frombuffer(content, ">u4", 1 + n_dimensions).tolist()
    if found != magic:
        raise UsageError(
            f"{path} must begin with the number {magic}, not {found}; it is another kind of file"
        )
    n_expected = n_header + int(np.prod(sizes, dtype=object))
    if len(content) != n_expected:
        raise UsageError(
            f"{path} must have {n_expected:,} bytes by its own header, not {len(content):,}; "
            "copy it again"
        )
    return np.frombuffer(content, np.uint8, offset=n_header).reshape(sizes)
