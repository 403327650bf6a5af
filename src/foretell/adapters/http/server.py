"""The server: a socket, the application behind it, and an orderly end."""

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

from foretell.adapters.http.app import make_app
from foretell.adapters.http.protocol import protocol_with
from foretell.adapters.http.settings import Settings
from foretell.errors import UsageError

_HEAD_BYTES = 16_384
_KEEP_ALIVE_S = 75
_END_S = 3


def listen(host: str, port: int, *, has_token: bool) -> socket.socket:
    """Open the socket; an address that others can reach demands a token."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, OverflowError):
        raise UsageError(
            f"'{host}' is no address of this machine; 127.0.0.1 is the usual one"
        ) from None
    family, kind, protocol, _, address = found[0]
    if not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback and not has_token:
        raise UsageError(
            f"others can reach {host}, so a token is needed: write one to a file with "
            "`openssl rand -hex 32 > token`, and add --token-file token"
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
            f"{host}, port {port} cannot be listened on: {reason}; choose another with --port"
        ) from None
    return opened


def url_of(opened: socket.socket) -> str:
    """Return the address of a socket, as a browser wants it."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_server(settings: Settings, opened: socket.socket, on_ready: Callable[[], None]) -> None:
    """Serve until a signal says otherwise."""
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.WARNING)
    config = uvicorn.Config(
        make_app(settings),
        http=protocol_with(settings.limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_END_S,
    )
    server = _Server(config, on_ready)
    asyncio.run(server.serve(sockets=[opened]))
    if not server.was_ready:
        raise UsageError("the server could not start its workers; the reason is above")


class _Server(uvicorn.Server):
    """A server that says when it is ready, and ends on a signal as if by itself."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self.was_ready = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then tell."""
        await super().startup(sockets)
        if not self.should_exit:
            self.was_ready = True
            self._on_ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals as the wish to end; unlike uvicorn's own, do not raise them again then."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
