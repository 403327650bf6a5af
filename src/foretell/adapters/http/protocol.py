"""HTTP on a connection, as uvicorn does it, with limits on slowness and on numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from foretell.adapters.http.problems import KINDS, MEDIA_TYPE, ProblemError
from foretell.adapters.http.settings import Limits


class _Deadline:
    """Something that happens unless it is called off in time."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit_s: float, then: Callable[[], None]
    ) -> None:
        self._loop, self._limit_s, self._then = loop, limit_s, then
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Let the time run, if it does not run already."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._limit_s, self._then)

    def end(self) -> None:
        """Call it off."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class BoundedProtocol(H11Protocol):
    """Minds slow heads, clients that read nothing, too many of them, and broken HTTP."""

    limits: ClassVar[Limits] = Limits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Greet a client, unless there are too many."""
        super().connection_made(transport)
        self._head, self._reader = self._deadline(), self._deadline()
        if len(self.connections) > self.limits.most_connections:
            self._refuse("busy", "too many connections are open; try again later")
        else:
            self._head.begin()

    def data_received(self, data: bytes) -> None:
        """Take what came; a head may take only so long from its first byte to its last."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._head.begin()
        else:
            self._head.end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a client."""
        self._head.end()
        self._reader.end()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for a client that does not read, though not for long."""
        super().pause_writing()
        self._reader.begin()

    def resume_writing(self) -> None:
        """Go on, for the client reads again."""
        self._reader.end()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse("malformed", msg)

    def _deadline(self) -> _Deadline:
        return _Deadline(self.loop, self.limits.request_s, self.transport.abort)

    def _refuse(self, kind: str, detail: str) -> None:
        body = ProblemError(kind, detail).to_bytes()
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            head = h11.Response(
                status_code=KINDS[kind][0],
                headers=[
                    ("content-type", MEDIA_TYPE),
                    ("content-length", str(len(body))),
                    ("connection", "close"),
                ],
            )
            for event in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def protocol_with(limits: Limits) -> type[H11Protocol]:
    """Return the protocol with some limits; uvicorn makes its instances."""
    return type("Protocol", (BoundedProtocol,), {"limits": limits})
