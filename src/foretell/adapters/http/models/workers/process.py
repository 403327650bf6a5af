"""A worker process, and the messages that it exchanges with the server.

    python -m foretell.adapters.http.models.workers.process DIRECTORY MAX_MODELS MAX_ROWS

It reads requests about models from its input, and writes answers. It ends when its input does, so
it never outlives the server. A message is a JSON header and a body, after their lengths.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from foretell.adapters.http.models.child import start_child

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


def main() -> None:
    """Answer requests until the input ends."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(start_child(), "wb")
    from foretell.adapters.http.models.store import ModelStore
    from foretell.adapters.http.models.workers.handler import RequestHandler

    directory, max_models, max_rows = sys.argv[1:]
    handler = RequestHandler(ModelStore(Path(directory), int(max_models)), int(max_rows))
    answers.write(pack({"status": 200}))
    answers.flush()
    with suppress(BrokenPipeError):
        while (message := read(requests)) is not None:
            answers.write(pack(*handler.answer(*message)))
            answers.flush()
    os._exit(0)  # skip the clean-up of libraries: everything is written


if __name__ == "__main__":
    main()
