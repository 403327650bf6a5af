"""Pods that keep others away: required anti-affinity of pods that already have a node."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from foretell.adapters.kubernetes.client import Object
from foretell.adapters.kubernetes.nodes import LiveNode
from foretell.adapters.kubernetes.rules import holds

_HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True)
class AwayTerm:
    """Which pods may not be where the pod with this term is.

    Attributes
    ----------
    topology
        The label whose value makes nodes one place.
    namespaces
        Those whose pods are meant; None for all.
    key
        The selector as text.
    """

    topology: str
    namespaces: frozenset[str] | None
    key: str
    selector: Object = field(compare=False)

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod is kept away."""
        wanted: Mapping[str, str] = self.selector.get("matchLabels") or {}
        return (
            (self.namespaces is None or namespace in self.namespaces)
            and wanted.items() <= labels.items()
            and all(holds(part, labels) for part in self.selector.get("matchExpressions") or ())
        )

    def place(self, node: LiveNode) -> str | None:
        """Return the place that a node is part of; None if it is part of none."""
        return node.name if self.topology == _HOSTNAME else node.labels.get(self.topology)


def read_away(spec: Object, namespace: str) -> tuple[AwayTerm, ...]:
    """Read which pods a pod keeps away; a term without a selector means none."""
    affinity = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return tuple(_read(t, namespace) for t in terms if t.get("labelSelector") is not None)


def _read(term: Object, namespace: str) -> AwayTerm:
    # Labels of namespaces are not followed, so a selector of namespaces stands for all of them.
    is_everywhere = term.get("namespaceSelector") is not None
    namespaces = None if is_everywhere else frozenset(term.get("namespaces") or [namespace])
    selector = term["labelSelector"]
    return AwayTerm(term["topologyKey"], namespaces, json.dumps(selector, sort_keys=True), selector)


class Away:
    """On which nodes there are pods that keep others away."""

    def __init__(self) -> None:
        self._nodes: dict[AwayTerm, Counter[str]] = {}

    def move(self, terms: Iterable[AwayTerm], freed: str, taken: str) -> None:
        """Take that a pod with these terms has left a node, or is on one; empty for none."""
        for term in terms:
            nodes = self._nodes.setdefault(term, Counter())
            if taken:
                nodes[taken] += 1
            if freed:
                nodes[freed] -= 1
                if not nodes[freed]:
                    del nodes[freed]
            if not nodes:
                del self._nodes[term]

    def terms(self, namespace: str, labels: Mapping[str, str]) -> frozenset[AwayTerm]:
        """Return the terms that keep a pod away somewhere."""
        return frozenset(term for term in self._nodes if term.matches(namespace, labels))

    def closed(self, terms: Iterable[AwayTerm], nodes: Mapping[str, LiveNode]) -> set[str]:
        """Return the names of the nodes that such terms close."""
        found: set[str] = set()
        for term in terms:
            places = {term.place(nodes[name]) for name in self._nodes[term] if name in nodes}
            places.discard(None)
            found |= {name for name, node in nodes.items() if term.place(node) in places}
        return found
