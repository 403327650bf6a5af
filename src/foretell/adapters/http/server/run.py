"""Open a socket, run an application on it, and stop cleanly on a signal."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from foretell.adapters.http.server.guard import App
from foretell.adapters.http.server.protocol import protocol_with
from foretell.adapters.http.server.settings import RequestLimits
from foretell.errors import Option, UsageError

_KEEP_ALIVE_S = 75
_STOP_S = 3


def listen(host: str, port: int, *, has_token: bool) -> socket.socket:
    """Open the socket; an address that other machines can reach requires a token."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, OverflowError):
        raise UsageError(
            f"'{host}' is not an address of this machine",
            option=Option("host"),
            remedy=("the usual one is ", Option("host", "127.0.0.1")),
        ) from None
    family, kind, protocol, _, address = found[0]
    if not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback and not has_token:
        raise UsageError(
            f"other machines can reach {host}, so a token is required",
            remedy=(
                "write one to a file with `openssl rand -hex 32 > token`, and name the file with ",
                Option("token_file", "token"),
            ),
        )
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(1024)
    except (OSError, OverflowError) as error:
        opened.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot listen on {host}, port {port}: {reason}",
            remedy=("choose another port with ", Option("port")),
        ) from None
    return opened


def url_of(opened: socket.socket) -> str:
    """Return the address of a socket, as a browser expects it."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_server(
    app: App, limits: RequestLimits, opened: socket.socket, on_ready: Callable[[], None]
) -> None:
    """Serve an application until a signal stops it."""
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.WARNING)
    config = uvicorn.Config(
        app,
        http=protocol_with(limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=limits.max_head_bytes,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_STOP_S,
    )
    server = _Server(config, on_ready)
    asyncio.run(server.serve(sockets=[opened]))
    if not server.was_ready:
        raise UsageError("the server could not start; the reason is printed above")


class _Server(uvicorn.Server):
    """A server that reports when it is ready, and stops on a signal without raising it again."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self.was_ready = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then report."""
        await super().startup(sockets)
        if not self.should_exit:
            self.was_ready = True
            self._on_ready()

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
