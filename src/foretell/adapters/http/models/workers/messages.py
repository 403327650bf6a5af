"""Messages between the server and its workers: a JSON header and a body, with their lengths."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

_LENGTHS = struct.Struct(">II")

Message = tuple[dict[str, Any], bytes]


def pack(header: Mapping[str, Any], body: bytes = b"") -> bytes:
    """Write one message.

    >>> import io
    >>> read(io.BytesIO(pack({"do": "list"}, b"rows")))
    ({'do': 'list'}, b'rows')
    """
    text = json.dumps(header).encode()
    return _LENGTHS.pack(len(text), len(body)) + text + body


def read(file: IO[bytes]) -> Message | None:
    """Read one message; None when the other side has ended."""
    lengths = file.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    n_header, n_body = _LENGTHS.unpack(lengths)
    header, body = file.read(n_header), file.read(n_body)
    return (json.loads(header), body) if len(body) == n_body else None


async def read_async(stream: asyncio.StreamReader) -> Message:
    """Read one message; raise IncompleteReadError when the other side has ended."""
    n_header, n_body = _LENGTHS.unpack(await stream.readexactly(_LENGTHS.size))
    header = await stream.readexactly(n_header)
    return json.loads(header), await stream.readexactly(n_body)
