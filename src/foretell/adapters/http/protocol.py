"""HTTP on a connection, as uvicorn does it, with limits on slowness and on numbers."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from foretell.adapters.http.problems import KINDS, MEDIA_TYPE, ProblemError
from foretell.adapters.http.settings import Limits


class BoundedProtocol(H11Protocol):
    """Minds slow heads, clients that read nothing, too many of them, and broken HTTP."""

    limits: ClassVar[Limits] = Limits()
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Greet a client, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.most_connections:
            self._refuse("busy", "too many connections are open; try again later")
        else:
            self._mind_head()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        super().data_received(data)
        self._mind_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a client."""
        self._relax()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for a client that does not read, though not for long."""
        super().pause_writing()
        self._relax()
        self._deadline = self.loop.call_later(self.limits.request_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on, for the client reads again."""
        self._relax()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse("malformed", msg)

    def _mind_head(self) -> None:
        """Let a head take only so long from its first byte to its last."""
        is_head = self.cycle is None or self.cycle.response_complete
        if is_head and self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.limits.request_s, self.transport.abort)
        elif not is_head:
            self._relax()

    def _relax(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

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
