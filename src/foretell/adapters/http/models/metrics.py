"""Counts of predictions, fits and workers."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from foretell.adapters.http.models.workers.pool import Pool
from foretell.adapters.http.server.metrics import Metrics


class ModelMetrics(Metrics):
    """What a server of models counts, besides requests."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = Counter("foretell_predicted_rows", "Rows predicted.", registry=self.registry)
        self.fits = Counter(
            "foretell_fits", "Fits that ended, by state.", ["state"], registry=self.registry
        )

    def watch(self, pool: Pool) -> None:
        """Read the state of the pool whenever counts are read."""
        workers = Gauge("foretell_workers", "Worker processes that run.", registry=self.registry)
        workers.set_function(lambda: pool.n_alive)
        waiting = Gauge(
            "foretell_waiting_requests",
            "Requests that wait for a worker.",
            registry=self.registry,
        )
        waiting.set_function(lambda: pool.n_waiting)
