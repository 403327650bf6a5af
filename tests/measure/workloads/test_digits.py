"""Images: scikit-learn's digits made as large as MNIST's, and MNIST's own files."""

import gzip
import struct

import numpy as np
import pytest

from foretell.errors import UsageError
from foretell.measure.workloads._digits import enlarged, load_digits, read_mnist


def idx(magic, *sizes, content):
    return struct.pack(f">{1 + len(sizes)}I", magic, *sizes) + bytes(content)


def images(n, *, side=28, magic=2051):
    pixels = np.arange(n * side * side) % 251
    return idx(magic, n, side, side, content=pixels.astype(np.uint8))


def labels(n, *, magic=2049):
    return idx(magic, n, content=np.arange(n, dtype=np.uint8) % 10)


@pytest.fixture
def mnist(tmp_path):
    """A folder with MNIST's four files, of very few images; two of them are packed."""
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(images(12)))
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels(12)))
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(images(5))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(labels(5))
    return tmp_path


def test_digits_of_scikit_learn_become_images_of_mnists_shape_with_all_ten_labels():
    training, validation = load_digits(None, 2000)
    for part, n in ((training, 2000), (validation, 333)):
        assert part.images.shape == (n, 28, 28)
        assert part.images.dtype == np.uint8
        assert part.images.max() == 255
        assert set(part.labels) == set(range(10))


def test_images_are_repeated_in_order_beyond_those_that_there_are(mnist):
    training, _ = load_digits(mnist, 30)
    assert np.array_equal(training.images[12:24], training.images[:12])
    assert np.array_equal(training.images[24:], training.images[:6])
    assert np.array_equal(training.labels, [*(np.arange(12) % 10)] * 2 + [*range(6)])


@pytest.mark.parametrize(
    ("n_images", "n_validation"), [(1, 1), (600, 100), (60_000, 10_000), (120_000, 10_000)]
)
def test_validation_images_are_as_many_as_mnist_would_have(mnist, n_images, n_validation):
    training, validation = load_digits(mnist, n_images)
    assert (len(training), len(validation)) == (n_images, n_validation)


def test_no_image_to_train_with_is_used_to_validate():
    training, validation = load_digits(None, 1497)
    training_images = {image.tobytes() for image in training.images}
    assert not training_images & {image.tobytes() for image in validation.images}


def test_enlarging_keeps_corners_and_is_linear_in_between():
    image = np.zeros((1, 8, 8))
    image[0, 0, :] = 16
    image[0, 7, 7] = 8
    large = enlarged(image)[0]
    assert (large[0] == 255).all()
    assert large[27, 27] == 128
    assert large[1, 0] == round(255 * (1 - 7 / 27))


def test_files_of_mnist_are_read_packed_or_not(mnist):
    training, validation = read_mnist(mnist)
    assert training.images.tobytes() == images(12)[16:]
    assert validation.images.tobytes() == images(5)[16:]
    assert training.labels.tolist() == [*range(10), 0, 1]


BROKEN = {
    "begin with the number 2051, not 2049": ("t10k-images-idx3-ubyte", images(5, magic=2049)),
    "begin with the number 2049, not 7": ("t10k-labels-idx1-ubyte", labels(5, magic=7)),
    "must have 3,936 bytes by its own header, not 3,935": (
        "t10k-images-idx3-ubyte",
        images(5)[:-1],
    ),
    "must have 13 bytes by its own header, not 14": ("t10k-labels-idx1-ubyte", labels(5) + b"\0"),
    "has 3 bytes, too few": ("t10k-images-idx3-ubyte", b"abc"),
    "images of 27 × 27 pixels": ("t10k-images-idx3-ubyte", images(5, side=27)),
    "has 5 images, and t10k-labels-idx1-ubyte 4 labels": ("t10k-labels-idx1-ubyte", labels(4)),
    "has the label 10": ("t10k-labels-idx1-ubyte", idx(2049, 5, content=[0, 1, 10, 3, 4])),
    "cannot be read": ("train-images-idx3-ubyte.gz", gzip.compress(images(12))[:-9]),
    "Not a gzipped file": ("train-labels-idx1-ubyte.gz", labels(12)),
}


@pytest.mark.parametrize("complaint", BROKEN)
def test_broken_file_of_mnist_is_named_with_its_fault(mnist, complaint):
    name, content = BROKEN[complaint]
    (mnist / name).write_bytes(content)
    with pytest.raises(UsageError, match=complaint) as caught:
        read_mnist(mnist)
    assert str(mnist) in str(caught.value)


def test_empty_set_of_images_is_refused(mnist):
    (mnist / "t10k-images-idx3-ubyte").write_bytes(images(0))
    (mnist / "t10k-labels-idx1-ubyte").write_bytes(labels(0))
    with pytest.raises(UsageError, match="has no images"):
        read_mnist(mnist)


def test_missing_file_and_missing_folder_are_named(mnist):
    (mnist / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(UsageError, match="has no t10k-labels-idx1-ubyte or t10k-"):
        read_mnist(mnist)
    with pytest.raises(UsageError, match=r"there is no folder .*nowhere"):
        read_mnist(mnist / "nowhere")
