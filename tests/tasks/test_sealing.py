"""Sealed values: what comes back, and what every change of the bytes leads to."""

import struct
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from foretell.errors import UsageError
from foretell.tasks import IntegrityError, OwnerKey, Sealed
from foretell.tasks.isolation.sealing import CHUNK, Cipher, FrameReader, KeyPair, frames, unpack

pytest.importorskip("cryptography")

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
OWNER = OwnerKey(b"k" * 32)


@given(value=values)
def test_values_come_back_as_they_were(value):
    found = OWNER.open(OWNER.seal(value))
    assert found == value
    assert type(found) is type(value)


@given(
    array=arrays.arrays(
        arrays.integer_dtypes() | arrays.floating_dtypes() | arrays.boolean_dtypes(),
        arrays.array_shapes(min_dims=0, max_dims=3, max_side=4),
    ),
    transpose=st.booleans(),
)
def test_arrays_come_back_with_type_shape_and_content(array, transpose):
    array = array.T if transpose else array
    found = OWNER.open(OWNER.seal(array))
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    np.testing.assert_array_equal(found, array)


def test_arrays_of_several_chunks_come_back():
    array = np.random.default_rng(0).random(CHUNK // 8 * 2 + 17)
    np.testing.assert_array_equal(OWNER.open(OWNER.seal(array)), array)


@given(data=st.data())
def test_every_changed_bit_is_noticed(data):
    content = bytearray(OWNER.seal({"a": np.arange(5), "b": "text"}).content)
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(IntegrityError):
        OWNER.open(Sealed(bytes(content)))


@given(n=st.integers(0, 400))
def test_every_cut_is_noticed(n):
    content = OWNER.seal([np.arange(5), "text"]).content
    with pytest.raises(IntegrityError):
        OWNER.open(Sealed(content[: min(n, len(content) - 1)]))
    with pytest.raises(IntegrityError):
        OWNER.open(Sealed(content + b"x" * (n + 1)))


def test_same_value_is_never_sealed_to_the_same_bytes():
    assert OWNER.seal(1).content != OWNER.seal(1).content


def test_plain_content_is_not_in_sealed_bytes(tmp_path):
    secret = b"a very secret text of some length"
    sealed = OWNER.seal({"secret": secret})
    sealed.save(tmp_path / "data.sealed")
    assert secret not in (tmp_path / "data.sealed").read_bytes()
    assert OWNER.open(Sealed.load(tmp_path / "data.sealed")) == {"secret": secret}
    (tmp_path / "other").write_bytes(b"something else")
    with pytest.raises(UsageError, match="not a sealed value"):
        Sealed.load(tmp_path / "other")


def channel():
    key = b"c" * 32
    return Cipher(key, 1), FrameReader(Cipher(key, 1))


def bodies(content):
    return [frame[4:] for frame in content]


def test_replayed_reordered_and_dropped_frames_are_refused():
    cipher, reader = channel()
    first = bodies(frames(cipher, 1, 2, "one"))
    second = bodies(frames(cipher, 2, 2, "two"))
    assert reader.add(first[0]) == (1, 2, "one")
    with pytest.raises(IntegrityError):  # once more
        reader.add(first[0])
    cipher, reader = channel()
    first = bodies(frames(cipher, 1, 2, "one"))
    second = bodies(frames(cipher, 2, 2, "two"))
    with pytest.raises(IntegrityError):  # the second before the first, which is dropped
        reader.add(second[0])


def test_frames_of_another_task_argument_or_type_are_refused():
    cipher, reader = channel()
    (frame,) = bodies(frames(cipher, 1, 2, "one"))
    prefix = struct.Struct("<QIBB")
    for changed in ((2, 0, 2, 3), (1, 1, 2, 3), (1, 0, 3, 3), (1, 0, 2, 1)):
        reader = channel()[1]
        with pytest.raises(IntegrityError):
            reader.add(prefix.pack(*changed) + frame[prefix.size :])


@pytest.mark.parametrize(
    "header",
    [
        b'{"f": "0x1p99999"}',  # an OverflowError
        b'{"a": "(1 2)f8", "shape": [1], "order": "C"}',  # a SyntaxError
        b'{"a": "f8", "shape": [1], "order": "C"}',  # without its content
        b"[" * 100_000,
        b"\xff",
        b'{"t": 1}',
        b"{}",
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_whatever_arrives_instead_of_a_value_is_an_integrity_error(header):
    with pytest.raises(IntegrityError, match="not a value"):
        unpack([header])


def frame(cipher, chunk, part, flags):
    prefix = struct.pack("<QIBB", 1, part, 2, flags)
    return prefix + cipher.seal(prefix, chunk)


@pytest.mark.parametrize("is_last", [False, True])  # of its argument: one without end, or many
def test_value_that_does_not_end_is_refused_when_it_is_too_large(is_last):
    cipher, most = Cipher(b"c" * 32, 1), 100_000
    reader = FrameReader(Cipher(b"c" * 32, 1), most)
    with pytest.raises(IntegrityError, match="more than 100,000 bytes"):
        for k in range(most):
            reader.add(frame(cipher, bytes(1000 * (not is_last)), k * is_last, int(is_last)))
    assert 1000 * len(reader._chunks) <= most
    assert len(reader._parts) <= most / 30


def test_description_of_a_value_has_a_limit_of_its_own(monkeypatch):
    monkeypatch.setattr("foretell.tasks.isolation.sealing._MOST_HEADER", 1000)
    with pytest.raises(UsageError, match="put numbers into arrays"):
        OWNER.seal(list(range(1000)))
    assert OWNER.open(OWNER.seal(np.arange(1000))).sum() == 499_500
    cipher, reader = channel()
    reader.add(frame(cipher, bytes(CHUNK), 0, 0))
    with pytest.raises(IntegrityError, match="more than"):
        reader.add(frame(cipher, bytes(2000), 0, 0))


def test_value_that_ends_within_an_argument_is_refused():
    cipher, reader = channel()
    reader.add(frame(cipher, b"1", 0, 1))
    with pytest.raises(IntegrityError, match="within an argument"):
        reader.add(frame(cipher, b"more", 1, 2))


def test_keys_differ_by_exchange_and_by_code():
    one, other = KeyPair(), KeyPair()
    same = one.shared(other.public, b"exchange", b"code")
    assert same == other.shared(one.public, b"exchange", b"code")
    assert same[0] != same[1]
    assert one.shared(other.public, b"another", b"code") != same
    assert one.shared(other.public, b"exchange", b"changed") != same


def test_keys_are_neither_shown_nor_pickled():
    import pickle

    assert "6b6b" not in repr(OWNER)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(OWNER)
    with pytest.raises(UsageError, match="32 bytes"):
        OwnerKey(b"short")


class Row(list):
    """A list that knows more than its parts."""


class Pair(NamedTuple):
    a: int
    b: int


ITSELF: list[Any] = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize("value", [Row([1]), Pair(1, 2), OrderedDict(a=1), np.ma.ones(2), ITSELF])
def test_values_that_would_come_back_as_others_are_refused(value):
    with pytest.raises(UsageError, match="cannot be sent"):
        OWNER.seal([value])


@pytest.mark.parametrize("value", [object(), np.array([object()]), {1: 2}, lambda: 0])
def test_values_that_could_carry_code_are_refused(value):
    with pytest.raises(UsageError):
        OWNER.seal(value)
