"""Copies of pods: the same pod, to be started on another node."""

from __future__ import annotations

import re

from foretell.adapters.kubernetes.client import Object
from foretell.adapters.kubernetes.pods import COPY_OF, MOVES

_NO_META = ("uid", "resourceVersion", "creationTimestamp", "generateName", "managedFields",
            "selfLink", "generation", "deletionTimestamp", "deletionGracePeriodSeconds",
            "ownerReferences")  # fmt: skip
_NO_SPEC = ("nodeName", "ephemeralContainers")
_LONGEST_NAME = 253
_SUFFIX = re.compile(r"-move-[0-9]+$")


def copy_of(item: Object, node: str, history: str, n_moves: int) -> Object:
    """Return a pod like another, on another node; its annotations say where it comes from."""
    meta = {key: value for key, value in item["metadata"].items() if key not in _NO_META}
    spec = {key: value for key, value in item["spec"].items() if key not in _NO_SPEC}
    suffix = f"-move-{n_moves}"
    base = _SUFFIX.sub("", meta["name"])[: _LONGEST_NAME - len(suffix)]
    own = {MOVES: history, COPY_OF: item["metadata"]["uid"]}
    meta |= {"name": base + suffix, "annotations": {**(meta.get("annotations") or {}), **own}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**spec, "nodeName": node}}
