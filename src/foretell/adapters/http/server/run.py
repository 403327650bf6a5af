"""Run an application on a socket with uvicorn: bounded clients, and a clean stop on a signal."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from foretell.adapters.http.server import problems
from foretell.adapters.http.server.guard import head_too_large
from foretell.adapters.http.server.problems import ProblemError
from foretell.adapters.http.server.settings import RequestLimits
from foretell.errors import Option, UsageError

_KEEP_ALIVE_S = 75
_STOP_S = 3
_RENEW_S = 5.0  # how often files of certificates are looked at


@dataclass(frozen=True)
class Tls:
    """The certificate of a server, its key, and whose clients are let in: all, or those of a CA."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def __post_init__(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{self.certificate} and {self.key} are no certificate with its key: "
                f"{_reason(error)}",
                option=Option("cert"),
                remedy=("both must be PEM files, and the key must have no password",),
            ) from None
        if self.client_ca is not None:
            try:
                context.load_verify_locations(self.client_ca)
            except (OSError, ValueError) as error:
                raise UsageError(
                    f"{self.client_ca} has no certificates: {_reason(error)}",
                    option=Option("client_ca"),
                    remedy=("it must be a PEM file",),
                ) from None

    def stamps(self) -> list[tuple[int, int, int]]:
        """Return what changes when a file is replaced; raise an OSError if one is not there."""
        stats = [path.stat() for path in (self.certificate, self.key)]
        return [(stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats]

    def settings(self) -> dict[str, Any]:
        """Return it as uvicorn wants it."""
        found: dict[str, Any] = {"ssl_certfile": self.certificate, "ssl_keyfile": self.key}
        if self.client_ca is not None:
            found |= {"ssl_ca_certs": str(self.client_ca), "ssl_cert_reqs": ssl.CERT_REQUIRED}
        return found


def _no_password() -> str:
    raise ValueError("the key has a password")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def listen(host: str, port: int, *, refusal: UsageError | None) -> socket.socket:
    """Open the socket; ``refusal`` is raised if other machines can reach the address."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, OverflowError):
        raise UsageError(
            f"'{host}' is not an address of this machine",
            option=Option("host"),
            remedy=("the usual one is ", Option("host", "127.0.0.1")),
        ) from None
    family, kind, protocol, _, address = found[0]
    is_loopback = ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback
    if refusal is not None and not is_loopback:
        raise refusal
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(1024)
    except (OSError, OverflowError) as error:
        opened.close()
        raise UsageError(
            f"cannot listen on {host}, port {port}: {_reason(error)}",
            remedy=("choose another port with ", Option("port")),
        ) from None
    return opened


def token_required(host: str) -> UsageError:
    """Return why a server that needs a token does not start without one."""
    return UsageError(
        f"other machines can reach {host}, so a token is required",
        remedy=(
            "write one to a file with `openssl rand -hex 32 > token`, and name the file with ",
            Option("token_file", "token"),
        ),
    )


def url_of(opened: socket.socket, tls: Tls | None = None) -> str:
    """Return the address of a socket, as a browser expects it."""
    host, port = opened.getsockname()[:2]
    scheme = "http" if tls is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def run_server(
    app: ASGIApp,
    limits: RequestLimits,
    opened: socket.socket,
    on_ready: Callable[[], None],
    *,
    tls: Tls | None = None,
) -> None:
    """Serve an application until a signal stops it."""
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.WARNING)
    config = uvicorn.Config(
        app,
        http=type("Protocol", (_BoundedProtocol,), {"limits": limits}),  # uvicorn makes instances
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=limits.max_head_bytes,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_STOP_S,
        **({} if tls is None else tls.settings()),
    )
    server = _Server(config, on_ready, tls)
    asyncio.run(server.serve(sockets=[opened]))
    if not server.was_ready:
        raise UsageError("the server could not start; the reason is printed above")


class _Server(uvicorn.Server):
    """A server that reports when it is ready, and stops on a signal without raising it again."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], tls: Tls | None = None
    ) -> None:
        super().__init__(config)
        self._on_ready, self._tls = on_ready, tls
        self._renewal: asyncio.Task[None] | None = None
        self.was_ready = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then report."""
        await super().startup(sockets)
        if not self.should_exit:
            self.was_ready = True
            if self._tls is not None and self.config.ssl is not None:
                self._renewal = asyncio.create_task(_renew(self._tls, self.config.ssl))
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop."""
        if self._renewal is not None:
            self._renewal.cancel()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals as requests to stop; uvicorn's own version raises them again afterwards."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


async def _renew(tls: Tls, context: ssl.SSLContext) -> None:
    """Use the certificate of new files for new connections; one that is wrong is left alone."""
    seen = tls.stamps()
    while True:
        await asyncio.sleep(_RENEW_S)
        try:
            stamps = tls.stamps()
            if stamps != seen:
                replace(tls)  # a new one checks the files
                context.load_cert_chain(tls.certificate, tls.key)
                seen = stamps
        except (OSError, UsageError) as error:
            logging.getLogger(__name__).warning("the old certificate stays: %s", error)


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


class _BoundedProtocol(H11Protocol):
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
