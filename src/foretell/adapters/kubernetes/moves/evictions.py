"""Evictions and disruption budgets, in the versions of their interface that servers have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from foretell.adapters.kubernetes.client import Api, ApiError, Object
from foretell.adapters.kubernetes.pods import Pod
from foretell.adapters.kubernetes.rules import holds
from foretell.adapters.kubernetes.watching import list_all

Outcome = Literal["evicted", "gone", "changed", "refused"]
_OLD, _NEW = "v1beta1", "v1"
_UNKNOWN_KIND = (400, 415, 422)
_GONE, _CONFLICT, _TOO_MANY = 404, 409, 429


class Evictions:
    """Asks the API server to evict pods, and what disruption budgets allow."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._budgets = self._evictions = ""

    def evict(self, pod: Pod) -> Outcome:
        """Evict a pod as it was last seen.

        *changed* if it is not like that any more: perhaps it has completed, or another pod has its
        name. *refused* if a disruption budget does not allow it now.
        """
        try:
            self._post(pod, self._evictions or self._version())
        except ApiError as error:
            if error.status == _GONE:
                return "gone"
            if error.status == _CONFLICT:
                return "changed"
            if error.status == _TOO_MANY:
                return "refused"
            if error.status not in _UNKNOWN_KIND or self._evictions == _OLD:
                raise
            self._evictions = _OLD  # a server with new budgets and old evictions: 1.21
            return self.evict(pod)
        return "evicted"

    def why_not(self, pod: Pod, labels: Mapping[str, str]) -> str:
        """Say which disruption budget does not allow that a pod is evicted; empty if all do."""
        version = self._version()
        path = f"/apis/policy/{version}/namespaces/{pod.namespace}/poddisruptionbudgets"
        for budget in list_all(self.api, path)[0]:
            selector = (budget.get("spec") or {}).get("selector")
            if selector is None or not _selects(selector, labels, version):
                continue
            status = budget.get("status") or {}
            is_seen = status.get("observedGeneration") == budget["metadata"].get("generation")
            if not is_seen or not status.get("disruptionsAllowed"):
                return f"the disruption budget {budget['metadata']['name']} does not allow it"
        return ""

    def _version(self) -> str:
        if not self._budgets:
            group = self.api.get("/apis/policy")
            served = {entry.get("version") for entry in group.get("versions") or ()}
            self._budgets = _NEW if _NEW in served else _OLD
        return self._budgets

    def _post(self, pod: Pod, version: str) -> None:
        body = {
            "apiVersion": f"policy/{version}",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid, "resourceVersion": pod.version}},
        }
        self.api.post(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction", body)


def _selects(selector: Object, labels: Mapping[str, str], version: str) -> bool:
    """Whether a budget is about pods with these labels; an empty selector changed its meaning."""
    named = selector.get("matchLabels") or {}
    parts = selector.get("matchExpressions") or ()
    if not named and not parts:
        return version == _NEW
    return named.items() <= labels.items() and all(holds(part, labels) for part in parts)
