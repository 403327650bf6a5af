"""What a watch of nodes, pods or namespaces sees, handed to the state of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from foretell.adapters.kubernetes.client import Object
from foretell.adapters.kubernetes.state import State
from foretell.adapters.kubernetes.watching import DELETED, LOG


class StateHandler:
    """Hands what a watch sees to the state: nodes, pods or namespaces."""

    def __init__(self, state: State, kind: str) -> None:
        self.state, self.kind = state, kind
        self._has_listed = False

    def replace(self, items: Sequence[Object]) -> None:
        """Take all objects that there are now."""
        with self.state.lock:
            for gone in self._known() - {_key(self.kind, item) for item in items}:
                self._drop(gone)
            for item in sorted(items, key=_created):
                self._put(item, is_listed=True)
            if self.kind == "nodes":
                self.state.tell_types(is_first=not self._has_listed)
            self._has_listed = True

    def change(self, kind: str, item: Object) -> None:
        """Take one object that was added, modified or deleted."""
        with self.state.lock:
            key = _key(self.kind, item)
            before = self._type_of(key)
            if kind == DELETED:
                self._drop(key)
            else:
                self._put(item)
            if self._type_of(key) != before:
                self.state.tell_types()

    def _type_of(self, key: str) -> str:
        """Return the type of a node; empty if there is no such node."""
        found = self.state.nodes.get(key) if self.kind == "nodes" else None
        return "" if found is None else found.type.name

    def _known(self) -> set[str]:
        known: Mapping[str, Iterable[str]] = {
            "nodes": self.state.nodes, "pods": self.state.records,
            "namespaces": self.state.namespaces,
        }  # fmt: skip
        return set(known[self.kind])

    def _put(self, item: Object, *, is_listed: bool = False) -> None:
        try:
            if self.kind == "pods":
                self.state.put_pod(item, is_listed=is_listed)
            elif self.kind == "nodes":
                self.state.put_node(item)
            else:
                self.state.put_namespace(item)
        except Exception:  # an object that cannot be read must not stop the others
            LOG.exception("%s %s cannot be read, and is left out", self.kind, _key(self.kind, item))

    def _drop(self, key: str) -> None:
        drops = {"pods": self.state.drop_pod, "nodes": self.state.drop_node,
                 "namespaces": self.state.drop_namespace}  # fmt: skip
        drops[self.kind](key)


def _key(kind: str, item: Object) -> str:
    return str(item["metadata"]["uid" if kind == "pods" else "name"])


def _created(item: Object) -> tuple[str, str]:
    meta = item["metadata"]
    return meta.get("creationTimestamp") or "", meta.get("name") or ""
