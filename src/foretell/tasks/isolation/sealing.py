"""Sealing: values as bytes that are never unpickled, and AES-GCM with keys for each exchange."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foretell.errors import ForetellError, UsageError
from foretell.files.content import read_content
from foretell.files.directory import write_whole

CHUNK = 2**20
_MAGIC = b"foretell sealed 1\n"
_ID, _KEY = 16, 32
_START = len(_MAGIC) + _ID  # where the content of a sealed value begins
#: The most bytes that describe a value, beside the content of its arrays, and that a value has.
_MOST_HEADER = 2**26
_MOST_SEALED = 2**34
_PREFIX = struct.Struct("<QIBB")  # task, argument, type, whether it is the last chunk
_LENGTH = struct.Struct("<I")
_TAG = 16
#: Types of numbers that arrays may have.
_KINDS = "biufc"


class IntegrityError(ForetellError):
    """What arrived is not what was sent: it was changed, repeated, reordered or left out."""


def require_cryptography() -> None:
    """Raise a UsageError unless the library for encryption is there."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise UsageError(
            "isolated and sealed tasks need encryption: pip install 'foretell[secure]'"
        ) from None


# Values


def pack(value: Any) -> list[bytes | memoryview]:
    """Return a value as a description in JSON, and the content of its arrays.

    Values are None, truth values, numbers, texts, bytes, lists, tuples, dicts with texts as keys,
    and arrays of numbers.
    """
    buffers: list[bytes | memoryview] = []
    try:
        header = json.dumps(_described(value, buffers)).encode()
    except RecursionError:
        raise UsageError(
            "a list or dict that contains itself, or is nested too deeply, cannot be sent to an "
            "isolated task"
        ) from None
    if len(header) > _MOST_HEADER:
        raise UsageError(
            "a value of so many parts cannot be sent to an isolated task: they take "
            f"{len(header):,} bytes, and may take {_MOST_HEADER:,}; put numbers into arrays"
        )
    return [header, *buffers]


def _described(value: Any, buffers: list[bytes | memoryview]) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"f": value.hex()}
    if isinstance(value, np.generic) and value.dtype.kind in _KINDS:
        return _described(np.asarray(value), buffers) | {"scalar": True}
    if isinstance(value, np.ndarray):
        return _described_array(value, buffers)
    if isinstance(value, bytes | bytearray):
        buffers.append(bytes(value))
        return {"b": len(value), "mutable": isinstance(value, bytearray)}
    # Not of classes derived from these, which would arrive without what they add.
    if type(value) is list:
        return [_described(part, buffers) for part in value]
    if type(value) is tuple:
        return {"t": [_described(part, buffers) for part in value]}
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {"d": [[key, _described(part, buffers)] for key, part in value.items()]}
    raise _refusal(value)


def _refusal(value: Any) -> UsageError:
    name = type(value).__name__
    if type(value) is dict:
        name = "dict with keys that are no texts"
    elif isinstance(value, list | tuple | dict):
        name += " (convert it with list(), tuple() or dict())"
    return UsageError(
        f"a {name} cannot be sent to an isolated task: use numbers, texts, bytes, "
        "arrays of numbers, and lists, tuples and dicts of these"
    )


def _described_array(
    value: np.ndarray[Any, Any], buffers: list[bytes | memoryview]
) -> dict[str, Any]:
    if isinstance(value, np.ma.MaskedArray):  # would arrive without its mask
        raise _refusal(value)
    if value.dtype.kind not in _KINDS:
        raise UsageError(f"an array of type {value.dtype} cannot be sent to an isolated task")
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    flat = np.asarray(value, order=order).reshape(-1, order="A")  # type: ignore[call-overload]
    buffers.append(memoryview(flat).cast("B"))
    return {"a": value.dtype.str, "shape": list(value.shape), "order": order}


def unpack(parts: list[bytes]) -> Any:
    """Return the value that was packed; raise an IntegrityError if the parts are no value."""
    try:
        header = json.loads(parts[0])
        left = iter(parts[1:])
        return _built(header, left)
    except Exception as error:  # whoever sends it may have chosen it to raise anything
        raise IntegrityError(f"what arrived is not a value: {type(error).__name__}") from None


def _built(told: Any, buffers: Iterator[bytes]) -> Any:
    if isinstance(told, list):
        return [_built(part, buffers) for part in told]
    if not isinstance(told, dict):
        return told
    if "f" in told:
        return float.fromhex(told["f"])
    if "t" in told:
        return tuple(_built(part, buffers) for part in told["t"])
    if "d" in told:
        return {str(key): _built(part, buffers) for key, part in told["d"]}
    if "b" in told:
        content = next(buffers)
        return bytearray(content) if told["mutable"] else content
    kind = np.dtype(told["a"])
    if kind.kind not in _KINDS:
        raise ValueError("not an array of numbers")
    array = np.frombuffer(bytearray(next(buffers)), kind)
    array = array.reshape(told["shape"], order=told["order"])
    return array[()] if told.get("scalar") else array


# Keys


class KeyPair:
    """A key pair of one exchange, which is forgotten with it."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._private = X25519PrivateKey.generate()

    @property
    def public(self) -> bytes:
        """What the other side gets."""
        return bytes(self._private.public_key().public_bytes_raw())

    def shared(self, other: bytes, exchange: bytes, code_hash: bytes) -> tuple[bytes, bytes]:
        """Return the keys for both directions; they differ unless both sides mean the same code."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        secret = self._private.exchange(X25519PublicKey.from_public_bytes(other))
        keys = _derived(secret, exchange + code_hash, None, 2 * _KEY)
        return keys[:_KEY], keys[_KEY:]


def _derived(secret: bytes, info: bytes, salt: bytes | None, length: int) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return bytes(HKDF(SHA256(), length, salt, info).derive(secret))


class Cipher:
    """One direction of a channel: each chunk has the next number, and none is taken twice."""

    def __init__(self, key: bytes, channel: int) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(key)
        self._channel = struct.pack(">I", channel)
        self._n = 0

    def seal(self, prefix: bytes, chunk: bytes | memoryview) -> bytes:
        """Encrypt the next chunk, bound to what the prefix says of it."""
        nonce, bound = self._next(prefix)
        found: bytes = self._cipher.encrypt(nonce, chunk, bound)
        return found

    def open(self, prefix: bytes, chunk: bytes) -> bytes:
        """Decrypt the next chunk; raise an IntegrityError if it is another one."""
        from cryptography.exceptions import InvalidTag

        nonce, bound = self._next(prefix)
        try:
            found: bytes = self._cipher.decrypt(nonce, chunk, bound)
        except InvalidTag:
            raise IntegrityError(
                f"chunk {self._n} was changed, repeated or reordered; the channel is closed"
            ) from None
        return found

    def _next(self, prefix: bytes) -> tuple[bytes, bytes]:
        number = struct.pack(">Q", self._n)
        self._n += 1
        return self._channel + number, prefix + number


def frames(cipher: Cipher, task: int, kind: int, value: Any) -> Iterator[bytes]:
    """Return a value as sealed frames: arguments one after the other, in chunks of 1 MiB."""
    parts = pack(value)
    for k, part in enumerate(parts):
        whole = memoryview(part)
        n_chunks = max(1, -(-len(whole) // CHUNK))
        for c in range(n_chunks):
            is_last = c == n_chunks - 1
            flags = is_last | (2 if is_last and k == len(parts) - 1 else 0)
            prefix = _PREFIX.pack(task, k, kind, flags)
            sealed = cipher.seal(prefix, whole[c * CHUNK : (c + 1) * CHUNK])
            yield _LENGTH.pack(_PREFIX.size + len(sealed)) + prefix + sealed


def gathered(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Put small frames together, so that a small message is sent at once."""
    waiting: list[bytes] = []
    n_bytes = 0
    for part in parts:
        waiting.append(part)
        n_bytes += len(part)
        if n_bytes >= CHUNK:
            yield b"".join(waiting)
            waiting, n_bytes = [], 0
    if waiting:
        yield b"".join(waiting)


def frame_length(told: bytes) -> int:
    """Read how long the next frame is; raise an IntegrityError if none is that long."""
    length: int = _LENGTH.unpack(told)[0]
    if length > CHUNK + _PREFIX.size + _TAG:
        raise IntegrityError("a frame is too long; the channel is closed")
    return length


class FrameReader:
    """Collects sealed frames into values, and accepts them only in order.

    Parameters
    ----------
    most_bytes
        A value that is larger is refused, as whoever sends it may go on forever.
    """

    def __init__(self, cipher: Cipher, most_bytes: int = _MOST_SEALED) -> None:
        self._cipher, self._most_bytes = cipher, most_bytes
        self._parts: list[bytes] = []
        self._chunks: list[bytes] = []
        self._n_bytes = 0

    def add(self, frame: bytes) -> tuple[int, int, Any] | None:
        """Take a frame; return task, type and value when it was the last of a value."""
        prefix, sealed = frame[: _PREFIX.size], frame[_PREFIX.size :]
        if len(prefix) < _PREFIX.size or len(sealed) < _TAG:
            raise IntegrityError("a frame is too short; the channel is closed")
        chunk = self._cipher.open(prefix, sealed)
        task, part, kind, flags = _PREFIX.unpack(prefix)
        if part != len(self._parts):
            raise IntegrityError("an argument is missing; the channel is closed")
        self._n_bytes += len(frame)
        most = self._most_bytes if part else min(self._most_bytes, _MOST_HEADER + CHUNK)
        if self._n_bytes > most:
            raise IntegrityError(f"a value has more than {most:,} bytes; the channel is closed")
        self._chunks.append(chunk)
        if flags & 1:
            self._parts.append(
                self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
            )
            self._chunks = []
        if not flags & 2:
            return None
        if self._chunks:
            raise IntegrityError("a value ends within an argument; the channel is closed")
        parts, self._parts, self._n_bytes = self._parts, [], 0
        return task, kind, unpack(parts)


# Data at rest


@dataclass(frozen=True)
class Sealed:
    """A value that only the owner of its key, and the worker of a sealed task, can read."""

    content: bytes

    def save(self, path: str | Path) -> None:
        """Write it to a file; nothing in it is plain."""
        write_whole(Path(path), self.content)

    @classmethod
    def load(cls, path: str | Path) -> Sealed:
        """Read it from a file."""
        content = read_content(Path(path), _MOST_SEALED)
        if not content.startswith(_MAGIC):
            raise UsageError(f"{path} is not a sealed value")
        return cls(content)

    def __repr__(self) -> str:
        return f"Sealed({len(self.content):,} bytes)"


class ValueKey:
    """The key of one value, derived from that of its owner: it opens nothing else.

    Parameters
    ----------
    name
        What it was derived with; a sealed value begins with the name of its key.
    """

    def __init__(self, name: bytes, key: bytes) -> None:
        self.name, self.key = name, key

    def seal(self, value: Any) -> Sealed:
        """Encrypt the value."""
        content = b"".join(frames(Cipher(self.key, 0), 0, 0, value))
        return Sealed(_MAGIC + self.name + content)

    def open(self, sealed: Sealed) -> Any:
        """Decrypt the value; raise an IntegrityError if it is another or was changed."""
        content, start = sealed.content, _START
        if content[:start] != _MAGIC + self.name or len(self.name) != _ID:
            raise IntegrityError("this is not the sealed value of this key")
        reader = FrameReader(Cipher(self.key, 0))
        while start + _LENGTH.size <= len(content):
            (length,) = _LENGTH.unpack_from(content, start)
            start += _LENGTH.size
            found = reader.add(content[start : start + length])
            start += length
            if found is not None:
                if start != len(content):
                    break
                return found[2]
        raise IntegrityError("a part of the sealed value is missing, or something was added")

    def __repr__(self) -> str:
        return "ValueKey(...)"

    def __reduce__(self) -> Any:
        raise TypeError("a key is not pickled: it would be readable wherever that goes")


class OwnerKey:
    """The key of an owner of data; it is never written, printed or sent in the clear.

    >>> owner = OwnerKey()
    >>> owner.open(owner.seal({"a": 1}))
    {'a': 1}
    >>> owner
    OwnerKey(...)
    """

    def __init__(self, key: bytes | None = None) -> None:
        require_cryptography()
        self.key = os.urandom(_KEY) if key is None else bytes(key)
        if len(self.key) != _KEY:
            raise UsageError(f"a key has {_KEY} bytes, not {len(self.key)}")

    def seal(self, value: Any) -> Sealed:
        """Encrypt a value with a key of its own, derived from this one."""
        return self.key_of().seal(value)

    def open(self, sealed: Sealed) -> Any:
        """Decrypt a value; raise an IntegrityError if a bit of it was changed."""
        return self.key_of(sealed).open(sealed)

    def key_of(self, sealed: Sealed | None = None) -> ValueKey:
        """Return the key of one value, or of one that is yet to be sealed."""
        name = os.urandom(_ID) if sealed is None else sealed.content[len(_MAGIC) : _START]
        return ValueKey(name, _derived(self.key, _MAGIC, name, _KEY))

    def __repr__(self) -> str:
        return "OwnerKey(...)"

    def __reduce__(self) -> Any:
        raise TypeError("a key is not pickled: it would be readable wherever that goes")
