"""The guard in front of every request: who asks, from where, how much, and how fast."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from foretell.adapters.http.metrics import Metrics
from foretell.adapters.http.problems import MEDIA_TYPE, ProblemError
from foretell.adapters.http.settings import Settings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: What anybody may see: nothing in it is about models.
_OPEN = {"/", "/health", "/docs", "/openapi.json"}
_OPEN_FOLDER = "/page/"
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
#: How much of a refused body is still read, so that the client reads the answer.
_DRAINED_BYTES, _DRAINED_S = 2**22, 1.0


class Guard:
    """Checks a request before the application sees it, and bounds what it may send."""

    def __init__(self, app: App, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._checks = (self._check_host, self._check_origin, self._check_token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = _Visit(scope, receive, send, self._settings)
        try:
            headers = {k: v.decode("latin-1") for k, v in scope["headers"]}
            try:
                for check in self._checks:
                    check(scope, headers)
                visit.check_length(headers)
            except ProblemError as problem:
                await visit.refuse(problem)
            else:
                await self._app(scope, visit.receive, visit.send)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            # Any token can be a method, and there is no end of them.
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.requests.labels(route, method, str(visit.status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - visit.started)

    def _check_host(self, _: Scope, headers: dict[bytes, str]) -> None:
        """Refuse foreign names, by which a page could make a browser speak with this server."""
        name = host_name(headers.get(b"host", ""))
        if name is None or not (is_address(name) or name in self._settings.allowed_hosts):
            raise ProblemError(
                "host",
                "use the server's address, or localhost; other names are allowed with --allow-host",
            )

    def _check_origin(self, scope: Scope, headers: dict[bytes, str]) -> None:
        """Refuse what the page of another site wants to have done."""
        if scope["method"] in _SAFE_METHODS:
            return
        origin = headers.get(b"origin")
        is_own = origin is None or urlsplit_host(origin) == headers.get(b"host", "").lower()
        site = headers.get(b"sec-fetch-site", "none")
        if not is_own or site not in {"same-origin", "none"}:
            raise ProblemError("foreign-page", "only the server's own page may ask for this")

    def _check_token(self, scope: Scope, headers: dict[bytes, str]) -> None:
        token = self._settings.token
        path = scope["path"]
        if token is None or path in _OPEN or path.startswith(_OPEN_FOLDER):
            return
        scheme, _, given = headers.get(b"authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip().encode(), token.encode())
        if scheme.lower() != "bearer" or not is_right:
            raise ProblemError(
                "token",
                "send the token of this server as a header: Authorization: Bearer TOKEN",
                {"WWW-Authenticate": "Bearer"},
            )


_METHODS = {"GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"}


class _Visit:
    """One request on its way: its body is counted and timed, its answer gets our headers."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, settings: Settings) -> None:
        self.started = time.perf_counter()
        self.status = 0
        self._receive, self._send = receive, send
        self._most_bytes = settings.limits.most_body_bytes
        self._until = self.started + settings.limits.request_s
        self._n_bytes = 0
        names = {name for name, _ in scope["headers"]}
        self._is_read = not names & {b"content-length", b"transfer-encoding"}

    def check_length(self, headers: dict[bytes, str]) -> None:
        """Refuse a body that says itself that it is too large."""
        length = headers.get(b"content-length", "0")
        if length.isdecimal() and int(length) > self._most_bytes:
            raise self._too_large()

    async def receive(self) -> MutableMapping[str, Any]:
        """Pass on a part of the body."""
        if self._is_read:
            return await self._receive()
        try:
            async with asyncio.timeout(max(self._until - time.perf_counter(), 0.0)):
                message = await self._receive()
        except TimeoutError:
            raise ProblemError(
                "slow", "the body did not arrive in time; send less at once"
            ) from None
        self._n_bytes += len(message.get("body", b""))
        self._is_read = not message.get("more_body", False)
        if self._n_bytes > self._most_bytes:
            raise self._too_large()
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Pass on a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if not self._is_read:
                await self._drain()
            message["headers"] = [*message["headers"], *_HEADERS, *self._closing()]
        await self._send(message)

    async def refuse(self, problem: ProblemError) -> None:
        """Answer with a problem."""
        body = problem.to_bytes()
        headers = [(k.lower().encode(), v.encode()) for k, v in problem.headers.items()]
        headers += [(b"content-type", MEDIA_TYPE.encode())]
        headers += [(b"content-length", str(len(body)).encode())]
        start = {"type": "http.response.start", "status": problem.status, "headers": headers}
        await self.send(start)
        await self.send({"type": "http.response.body", "body": body})

    def _too_large(self) -> ProblemError:
        return ProblemError(
            "too-large",
            f"a request has at most {self._most_bytes:,} bytes; send the rows in parts",
        )

    def _closing(self) -> list[tuple[bytes, bytes]]:
        """Close the connection on a body that was not read to its end."""
        return [] if self._is_read else [(b"connection", b"close")]

    async def _drain(self) -> None:
        """Read on for a moment: a connection that is closed on unread data loses the answer."""
        n_bytes = 0
        try:
            async with asyncio.timeout(_DRAINED_S):
                while n_bytes < _DRAINED_BYTES and not self._is_read:
                    message = await self._receive()
                    n_bytes += len(message.get("body", b""))
                    self._is_read = not message.get("more_body", False)
        except TimeoutError:
            return


def host_name(host: str) -> str | None:
    """Return the name in a Host header, without its port; None where it is no name.

    >>> host_name("Localhost:8000"), host_name("[::1]:80"), host_name("a:b:c")
    ('localhost', '::1', None)
    """
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
        return parts.hostname if parts.netloc == host and "@" not in host else None
    except ValueError:
        return None


def is_address(name: str) -> bool:
    """Whether a name is an address or ``localhost``: nobody else can let it point elsewhere."""
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def urlsplit_host(origin: str) -> str | None:
    """Return host and port of an origin; None where it has none.

    >>> urlsplit_host("http://Localhost:8000"), urlsplit_host("null")
    ('localhost:8000', None)
    """
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None
