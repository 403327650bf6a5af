"""The HTTP service of a live scheduler: its health and its counts; the extender adds its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fastapi import FastAPI, Response

from foretell.adapters.http.server.api import make_api
from foretell.adapters.http.server.guard import Guard
from foretell.adapters.http.server.run import Tls
from foretell.adapters.http.server.settings import Access, RequestLimits
from foretell.adapters.kubernetes.metrics import SchedulerMetrics
from foretell.errors import Option, UsageError

#: The path that kube-scheduler asks.
PRIORITIZE = "/prioritize"
_MAX_BODY_BYTES = 5_000_000
_TOO_LARGE = "let kube-scheduler send names alone, with nodeCacheCapable: true in its configuration"


@dataclass(frozen=True)
class ServiceSettings:
    """Where a live scheduler listens, and to whom.

    Attributes
    ----------
    tls
        The certificate of the server; None to speak plain HTTP.
    access
        The names by which clients may reach it.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    tls: Tls | None = None
    access: Access = field(default_factory=Access)
    limits: RequestLimits = field(
        default_factory=lambda: RequestLimits(
            max_body_bytes=_MAX_BODY_BYTES, request_s=10.0, too_large=_TOO_LARGE
        )
    )

    @property
    def refusal(self) -> UsageError | None:
        """Why an address that other machines can reach is refused; None if it is not."""
        if self.tls is not None:
            return None
        return UsageError(
            f"other machines can reach {self.host}, so a certificate is required: kube-scheduler "
            "can send no token",
            option=Option("host", self.host),
            remedy=("name the files with ", Option("cert", "tls.crt"), " and ",
                    Option("key", "tls.key")),
        )  # fmt: skip


def make_service(
    settings: ServiceSettings,
    metrics: SchedulerMetrics,
    are_current: Callable[[], bool],
    add_routes: Callable[[FastAPI], None] = lambda _: None,
) -> Guard:
    """Make the application; ``are_current`` says whether all changes of the cluster are seen."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield

    app = make_api("Chooses nodes by predicted time and energy.", lifespan)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Say that the service answers; while the API server is lost, from what was seen last."""
        return {"status": "ok" if are_current() else "stale"}

    @app.get("/metrics")
    async def get_metrics() -> Response:
        """Return all counts, for Prometheus."""
        return Response(metrics.to_bytes(), media_type="text/plain; version=0.0.4; charset=utf-8")

    add_routes(app)
    return Guard(
        app, settings.access, settings.limits, metrics, is_open=lambda _: True, routes=(PRIORITIZE,)
    )
