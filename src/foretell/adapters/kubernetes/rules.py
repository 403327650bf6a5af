"""Which nodes a pod may use: its node selector, required node affinity and tolerations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from foretell.adapters.kubernetes.client import Object
from foretell.adapters.kubernetes.nodes import LiveNode, Taint

_KEEPS_OFF = ("NoSchedule", "NoExecute")
_KEPT = 4_096  # rules of that many different pods are remembered


@dataclass(frozen=True)
class NodeRules:
    """Which nodes a pod may use.

    Attributes
    ----------
    key
        The rules as text: equal for pods with the same rules.
    """

    key: str
    selector: Mapping[str, str]
    terms: Sequence[Object] | None
    tolerations: Sequence[Object]

    def why_not(self, node: LiveNode) -> str:
        """Say why a node is out; empty if the pod may use it."""
        if not self.selector.items() <= node.labels.items():
            return "its labels do not match the node selector"
        if self.terms is not None and not any(_matches(term, node) for term in self.terms):
            return "its labels do not match the node affinity"
        for taint in node.taints:
            if taint.effect in _KEEPS_OFF and not self._tolerates(taint):
                return f"its taint {taint.key} is not tolerated"
        return ""

    def _tolerates(self, taint: Taint) -> bool:
        return any(_tolerates(toleration, taint) for toleration in self.tolerations)


def read_rules(spec: Object, *, is_kept: bool = True) -> NodeRules:
    """Read the rules of a pod from its specification; unless kept, nothing is remembered."""
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = None if required is None else required.get("nodeSelectorTerms") or []
    parts = (spec.get("nodeSelector") or {}, terms, spec.get("tolerations") or [])
    key = json.dumps(parts, sort_keys=True)
    return _rules(key) if is_kept else _rules.__wrapped__(key)


@lru_cache(maxsize=_KEPT)
def _rules(key: str) -> NodeRules:
    return NodeRules(key, *json.loads(key))


def _matches(term: Object, node: LiveNode) -> bool:
    """Whether all parts of a term hold; an empty term matches nothing."""
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    return bool(expressions or fields) and (
        all(holds(part, node.labels) for part in expressions)
        and all(holds(part, {"metadata.name": node.name}) for part in fields)
    )


def holds(part: Object, labels: Mapping[str, str]) -> bool:
    """Whether labels meet an expression of a selector."""
    test = _TESTS.get(part["operator"])
    return test is not None and test(labels.get(part["key"]), part.get("values") or [])


def _compared(value: str | None, values: Sequence[Any], sign: int) -> bool:
    try:
        return value is not None and sign * (int(value) - int(values[0])) > 0
    except (ValueError, IndexError):
        return False


_TESTS: dict[str, Callable[[str | None, Sequence[Any]], bool]] = {
    "In": lambda value, values: value is not None and value in values,
    "NotIn": lambda value, values: value is None or value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: _compared(value, values, 1),
    "Lt": lambda value, values: _compared(value, values, -1),
}


def _tolerates(toleration: Object, taint: Taint) -> bool:
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if operator == "Exists":
        return key in ("", taint.key)
    return key == taint.key and (toleration.get("value") or "") == taint.value
