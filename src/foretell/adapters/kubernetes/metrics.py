"""What a live scheduler counts: decisions, how long they take, moves, errors, the age of models."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily

from foretell.adapters.http.server.metrics import Metrics

_BUCKETS_S = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)


class SchedulerMetrics(Metrics):
    """The counts of an extender or a standalone scheduler, besides those of requests."""

    def __init__(self) -> None:
        super().__init__()
        self.decisions = Counter(
            "foretell_decisions",
            "Pods for which nodes were scored or chosen, by how much was known: of all nodes, of "
            "some, or of none.",
            ["known"],
            registry=self.registry,
        )
        self.decision_seconds = Histogram(
            "foretell_decision_seconds",
            "Time to score or choose the nodes of one pod.",
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self.moves = Counter(
            "foretell_moves", "Pods moved to another node, by result.", ["result"],
            registry=self.registry,
        )  # fmt: skip
        self.errors = Counter(
            "foretell_errors", "What went wrong, by kind.", ["kind"], registry=self.registry
        )

    def refused(self) -> None:
        """Count a request that was refused before the application saw it."""
        self.errors.labels("request").inc()

    def watch(
        self,
        are_current: Callable[[], bool],
        changed_s: Mapping[str, float],
        n_nodes: Callable[[], Mapping[str, int]],
    ) -> None:
        """Read the state of the watches, the age of models and the nodes whenever counts are read.

        ``changed_s`` says when the models of each node type last changed, by the wall clock.
        """
        current = Gauge(
            "foretell_state_is_current",
            "1 while all changes of the cluster are seen, 0 while the API server is lost.",
            registry=self.registry,
        )
        current.set_function(lambda: float(are_current()))
        self.registry.register(_Ages(changed_s))
        self.registry.register(_Nodes(n_nodes))


class _Ages:
    """The age of the models of each node type."""

    def __init__(self, changed_s: Mapping[str, float]) -> None:
        self._changed_s = changed_s

    def collect(self) -> list[GaugeMetricFamily]:
        found = GaugeMetricFamily(
            "foretell_model_age_seconds",
            "Time since the models in use of a node type were written.",
            labels=["type"],
        )
        for name, moment in sorted(self._changed_s.items()):
            found.add_metric([name], max(0.0, time.time() - moment))
        return [found]


class _Nodes:
    """The number of nodes of each type."""

    def __init__(self, n_nodes: Callable[[], Mapping[str, int]]) -> None:
        self._n_nodes = n_nodes

    def collect(self) -> list[GaugeMetricFamily]:
        found = GaugeMetricFamily(
            "foretell_nodes",
            "Nodes of each node type of the cluster file, and nodes that match none.",
            labels=["type"],
        )
        for name, n in self._n_nodes().items():
            found.add_metric([name], n)
        return [found]
