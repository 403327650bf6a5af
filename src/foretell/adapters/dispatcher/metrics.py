"""What a dispatcher counts, in the format that Prometheus reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

from foretell.adapters.dispatcher.events import Event
from foretell.adapters.dispatcher.status import Status
from foretell.adapters.http.server.metrics import Metrics

_LATENCY_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
_RESPONSE_S = (0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1200, 3600, 7200, 21600, 86400)


class DispatcherMetrics(Metrics):
    """Counts of jobs, responses, sprints and failures, besides those of requests."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs = Counter(
            "foretell_jobs",
            "Jobs by class and what happened: accepted, started, preempted, paused, failed, done, "
            "aside, canceled.",
            ["class", "event"],
            registry=self.registry,
        )
        self.rejected = Counter(
            "foretell_rejected_files", "Files of the spool folder that are not jobs.",
            registry=self.registry,
        )  # fmt: skip
        self.latency = Histogram(
            "foretell_dispatch_seconds",
            "Time from when the engine was free, or the job was there, to the start.",
            buckets=_LATENCY_S,
            registry=self.registry,
        )
        self.responses = Histogram(
            "foretell_response_seconds",
            "Time from the arrival of a job to its end, if it was done.",
            ["class"],
            buckets=_RESPONSE_S,
            registry=self.registry,
        )
        self.sprints = Counter("foretell_sprints", "Sprints begun.", registry=self.registry)

    def observe(self, event: Event) -> None:
        """Count an event."""
        job = event.job
        if event.kind == "rejected":
            self.rejected.inc()
        elif event.kind == "sprint":
            self.sprints.inc()
        elif job is not None:
            self.jobs.labels(job.class_name, event.kind).inc()
        if event.latency_s is not None:
            self.latency.observe(event.latency_s)
        if event.kind == "done" and job is not None and job.ended_at is not None:
            self.responses.labels(job.class_name).observe(job.ended_at - job.arrived_at)

    def watch(self, status: Callable[[], Status]) -> None:
        """Read the lengths of queues and the budget whenever counts are read."""
        self.registry.register(_Now(status))


class _Now:
    """How the queue is at the moment."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self._status = status

    def describe(self) -> list[GaugeMetricFamily]:
        """Name nothing beforehand: the queue may not be there yet."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        found = self._status()
        waiting = GaugeMetricFamily(
            "foretell_waiting_jobs", "Jobs that wait, by class.", labels=["class"]
        )
        for c in found.classes:
            waiting.add_metric([c.name], c.waiting)
        yield waiting
        yield _gauge("foretell_running_jobs", "1 while a job is in the engine.",
                     found.running is not None)  # fmt: skip
        yield _gauge("foretell_engine_is_lost", "1 while the engine can run nothing.",
                     bool(found.lost))  # fmt: skip
        yield _gauge("foretell_is_sprinting", "1 during a sprint.", bool(found.is_sprinting))
        if found.budget_j is not None:
            yield _gauge("foretell_sprint_budget_joules", "What the sprint budget has.",
                         found.budget_j)  # fmt: skip


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text)
    family.add_metric([], float(value))
    return family
