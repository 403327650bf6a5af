"""Counts of requests and their times, in the format that Prometheus reads."""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The counts of one server; all requests pass through its process, so none is missed."""

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
            "Time from the headers of a request to the end of its answer.",
            ["route"],
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        ProcessCollector(registry=self.registry)

    def refused(self) -> None:
        """Take that a request was refused before the application saw it."""

    def to_bytes(self) -> bytes:
        """Return all counts as text."""
        return generate_latest(self.registry)
