"""uvicorn's HTTP protocol with limits on slow clients, large headers and open connections."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from foretell.adapters.http.server import problems
from foretell.adapters.http.server.guard import head_too_large
from foretell.adapters.http.server.problems import ProblemError
from foretell.adapters.http.server.settings import RequestLimits


class _Deadline:
    """A callback that runs unless it is stopped in time."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit_s: float, callback: Callable[[], None]
    ) -> None:
        self._loop, self._limit_s, self._callback = loop, limit_s, callback
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the timer, unless it runs already."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._limit_s, self._callback)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class BoundedProtocol(H11Protocol):
    """Refuses slow headers, clients that read nothing, too many connections, and broken HTTP."""

    limits: ClassVar[RequestLimits] = RequestLimits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a client, unless there are too many."""
        super().connection_made(transport)
        self._head, self._reader = self._deadline(), self._deadline()
        if len(self.connections) > self.limits.max_connections:
            self._refuse(
                ProblemError(problems.BUSY, "too many connections are open; try again later")
            )
        else:
            self._head.start()

    def data_received(self, data: bytes) -> None:
        """Read data; the time for headers runs from their first byte to their last."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._head.start()
        else:
            self._head.stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers of a client that is gone."""
        self._head.stop()
        self._reader.stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for a client that does not read, for a limited time."""
        super().pause_writing()
        self._reader.start()

    def resume_writing(self) -> None:
        """Continue when the client reads again."""
        self._reader.stop()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP; uvicorn calls this while it handles the parser's error."""
        error = sys.exception()
        if getattr(error, "error_status_hint", None) == problems.HEAD_TOO_LARGE.status:
            self._refuse(head_too_large(self.limits.max_head_bytes))
        else:
            self._refuse(ProblemError(problems.MALFORMED, msg))

    def _deadline(self) -> _Deadline:
        return _Deadline(self.loop, self.limits.request_s, self.transport.abort)

    def _refuse(self, problem: ProblemError) -> None:
        body = problem.to_bytes()
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            head = h11.Response(
                status_code=problem.kind.status,
                headers=[
                    ("content-type", problems.MEDIA_TYPE),
                    ("content-length", str(len(body))),
                    ("connection", "close"),
                ],
            )
            for event in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def protocol_with(limits: RequestLimits) -> type[H11Protocol]:
    """Return the protocol with some limits; uvicorn creates its instances."""
    return type("Protocol", (BoundedProtocol,), {"limits": limits})
