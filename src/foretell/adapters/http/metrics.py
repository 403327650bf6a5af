"""What the server counts, in the form that Prometheus reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

if TYPE_CHECKING:
    from foretell.adapters.http.pool import Pool

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The counts of one server; all requests pass through its process, so that none is missed."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "foretell_requests",
            "Requests, by route, method and status.",
            ["route", "method", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "foretell_request_seconds",
            "Time from the head of a request to the end of its answer.",
            ["route"],
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self.rows = Counter("foretell_predicted_rows", "Rows predicted.", registry=self.registry)
        self.jobs = Counter(
            "foretell_fits", "Fits that ended, by state.", ["state"], registry=self.registry
        )
        ProcessCollector(registry=self.registry)

    def watch(self, pool: Pool) -> None:
        """Read from the pool what is known there."""
        workers = Gauge("foretell_workers", "Worker processes that run.", registry=self.registry)
        workers.set_function(lambda: pool.n_alive)
        waiting = Gauge("foretell_waiting_requests", "Requests that wait for a worker.",
                        registry=self.registry)  # fmt: skip
        waiting.set_function(lambda: pool.n_waiting)

    def to_bytes(self) -> bytes:
        """Return all counts as text."""
        return generate_latest(self.registry)
