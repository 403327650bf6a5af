"""The guard in front of an application: host, origin, token, size and speed of every request."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import time
from collections.abc import Callable, Container
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foretell.adapters.http.server import problems
from foretell.adapters.http.server.metrics import Metrics
from foretell.adapters.http.server.problems import ProblemError
from foretell.adapters.http.server.settings import Access, RequestLimits
from foretell.errors import Option

_METHODS = {"GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"}
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
#: A name or an address in brackets, and a port. Python's own parser of 3.11 reads
#: ``[::1].evil.com`` as ``::1``.
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:/?#@\\\s]+))(?::[0-9]{0,5})?", re.ASCII)
#: How much of a refused body is still read, so that the client can read the answer.
_DRAIN_BYTES, _DRAIN_S = 2**24, 1.0


class Guard:
    """Checks a request before the application sees it, and bounds what it may send.

    ``is_open`` says whether a path needs no token. Requests to ``routes`` are counted by their
    path even if they are refused here, or if the application does not say which route it took.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        limits: RequestLimits,
        metrics: Metrics,
        *,
        is_open: Callable[[str], bool],
        routes: Container[str] = (),
    ) -> None:
        self._app, self._access, self._limits = app, access, limits
        self._metrics, self._is_open, self._routes = metrics, is_open, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._limits)
        try:
            headers = {k: v.decode("latin-1") for k, v in scope["headers"]}
            try:
                self._check_head(scope)
                self._check_host(headers)
                self._check_origin(scope, headers)
                self._check_token(scope, headers)
                self._check_length(headers)
            except ProblemError as problem:
                self._metrics.refused()
                await problem.response()(scope, receive, exchange.send)
            else:
                await self._app(scope, exchange.receive, exchange.send)
        finally:
            own = scope["path"] if scope["path"] in self._routes else "other"
            route = getattr(scope.get("route"), "path", own)
            # A client can make up any method, and each label takes memory.
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.requests.labels(route, method, str(exchange.status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - exchange.started)

    def _check_head(self, scope: Scope) -> None:
        """Refuse headers that arrived at once, which the parser does not measure."""
        n_bytes = len(scope["raw_path"]) + len(scope["query_string"])
        n_bytes += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if n_bytes > self._limits.max_head_bytes:
            raise head_too_large(self._limits.max_head_bytes)

    def _check_host(self, headers: dict[bytes, str]) -> None:
        """Refuse foreign names, by which a page could make a browser talk to this server."""
        name = host_name(headers.get(b"host", ""))
        if name is None or not (is_address(name) or name in self._access.allowed_hosts):
            raise ProblemError(
                problems.HOST,
                "use the address of the server, or localhost",
                remedy=("to allow another name, start the server with ", Option("allow_host")),
            )

    def _check_origin(self, scope: Scope, headers: dict[bytes, str]) -> None:
        """Refuse changes that the page of another site asks for."""
        if scope["method"] in _SAFE_METHODS:
            return
        origin = headers.get(b"origin")
        is_own = origin is None or origin_host(origin) == headers.get(b"host", "").lower()
        site = headers.get(b"sec-fetch-site", "none")
        if not is_own or site not in {"same-origin", "none"}:
            raise ProblemError(
                problems.FOREIGN_PAGE, "only the server's own page may send this request"
            )

    def _check_token(self, scope: Scope, headers: dict[bytes, str]) -> None:
        token = self._access.token
        if token is None or self._is_open(scope["path"]):
            return
        scheme, _, given = headers.get(b"authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip().encode(), token.encode())
        if scheme.lower() != "bearer" or not is_right:
            raise ProblemError(
                problems.TOKEN,
                "send the token of this server in a header: Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _check_length(self, headers: dict[bytes, str]) -> None:
        """Refuse a body whose own header says that it is too large."""
        length = headers.get(b"content-length", "0")
        if length.isdecimal() and int(length) > self._limits.max_body_bytes:
            raise _body_too_large(self._limits)


class _Exchange:
    """A request and its answer: the body is counted and timed, the answer gets our headers."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: RequestLimits) -> None:
        self.started = time.perf_counter()
        self.status = 0
        self._receive, self._send = receive, send
        self._limits = limits
        self._until = self.started + limits.request_s
        self._n_bytes = 0
        names = {name for name, _ in scope["headers"]}
        self._is_read = not names & {b"content-length", b"transfer-encoding"}

    async def receive(self) -> Message:
        """Pass on a part of the body."""
        if self._is_read:
            return await self._receive()
        try:
            async with asyncio.timeout(max(self._until - time.perf_counter(), 0.0)):
                message = await self._receive()
        except TimeoutError:
            raise ProblemError(
                problems.SLOW, "the body did not arrive in time; send less at once"
            ) from None
        self._n_bytes += len(message.get("body", b""))
        self._is_read = not message.get("more_body", False)
        if self._n_bytes > self._limits.max_body_bytes:
            raise _body_too_large(self._limits)
        return message

    async def send(self, message: Message) -> None:
        """Pass on a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if not self._is_read:
                await self._drain()
            closing = [] if self._is_read else [(b"connection", b"close")]
            message["headers"] = [*message["headers"], *_HEADERS, *closing]
        await self._send(message)

    async def _drain(self) -> None:
        """Read on for a moment: a connection that is closed on unread data loses the answer."""
        n_bytes = 0
        try:
            async with asyncio.timeout(_DRAIN_S):
                while n_bytes < _DRAIN_BYTES and not self._is_read:
                    message = await self._receive()
                    n_bytes += len(message.get("body", b""))
                    self._is_read = not message.get("more_body", False)
        except TimeoutError:
            return


def _body_too_large(limits: RequestLimits) -> ProblemError:
    return ProblemError(
        problems.TOO_LARGE,
        f"a request may have at most {limits.max_body_bytes:,} bytes; {limits.too_large}",
    )


def head_too_large(max_bytes: int) -> ProblemError:
    """Return the problem of a request whose headers are too large."""
    return ProblemError(
        problems.HEAD_TOO_LARGE,
        f"the address and the headers may have at most {max_bytes:,} bytes together; "
        "send long values in the body",
    )


def host_name(host: str) -> str | None:
    """Return the name in a Host header, without its port; None where the header is malformed.

    >>> host_name("Localhost:8000"), host_name("[::1]:80"), host_name("a:b:c")
    ('localhost', '::1', None)
    """
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else None


def is_address(name: str) -> bool:
    """Whether a name is an IP address or ``localhost``, which DNS cannot redirect."""
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def origin_host(origin: str) -> str | None:
    """Return host and port of an origin; None where it has none.

    >>> origin_host("http://Localhost:8000"), origin_host("null")
    ('localhost:8000', None)
    """
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
