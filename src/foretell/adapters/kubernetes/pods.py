"""Pods of Kubernetes: what they need, what annotations say of them, and fields that matter."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, get_args

from foretell.adapters.kubernetes.anti_affinity import AwayTerm, read_away
from foretell.adapters.kubernetes.client import Object
from foretell.adapters.kubernetes.rules import NodeRules, read_rules
from foretell.decide.placement.cluster import Migratable
from foretell.decide.placement.tasks import NEEDS, Task, Value, plain_value, read_h
from foretell.errors import UsageError
from foretell.machines import Resources

PREFIX = "foretell/"
DEFAULT_SCHEDULER = "default-scheduler"
_H, _MIGRATABLE = f"{PREFIX}H", f"{PREFIX}migratable"
#: The moves that a pod made, the pod that it is a copy of, and its energy if that was measured.
MOVES, COPY_OF, ENERGY = f"{PREFIX}moves", f"{PREFIX}copy-of", f"{PREFIX}energy-j"
#: What a pod requests is not for annotations to say.
_REQUESTED = {f"{PREFIX}{name}" for name in NEEDS}
_NO_FEATURES = {_H, _H.lower(), _MIGRATABLE, MOVES, COPY_OF, ENERGY, PREFIX} | _REQUESTED
_MIGRATABLE_VALUES: tuple[str, ...] = get_args(Migratable)
_KEPT = 4_096  # needs of that many different pods are remembered
_FINISHED = ("Succeeded", "Failed")
#: Volumes that are the same on every node; all others may tie a pod to some nodes.
_ANYWHERE = {"configMap", "downwardAPI", "emptyDir", "gitRepo", "hostPath", "image", "nfs",
             "projected", "secret"}  # fmt: skip


@dataclass(frozen=True)
class Owner:
    """The controller of a pod, such as a ReplicaSet."""

    kind: str
    uid: str


@dataclass(frozen=True)
class Pod:
    """A pod as it is now.

    Attributes
    ----------
    node
        The node that it is bound to; empty if it is not.
    annotations
        Those for foretell.
    unchecked
        Fields that tie it to certain nodes and that foretell does not check itself.
    is_gated
        Whether it must not be placed yet.
    owner
        The controller that makes a new pod when this one is gone; None if none does.
    created, started
        When it was created, and when its node took it, by the clock of the cluster; may be empty.
    version
        Changes whenever the pod does.
    away
        Which pods it keeps away from where it is.
    """

    uid: str
    namespace: str
    name: str
    node: str
    scheduler: str
    phase: str
    needs: Resources
    annotations: Mapping[str, str]
    rules: NodeRules
    unchecked: tuple[str, ...] = ()
    is_deleting: bool = False
    is_gated: bool = False
    created: str = ""
    started: str = ""
    is_ready: bool = False
    owner: Owner | None = None
    version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    away: tuple[AwayTerm, ...] = ()

    @property
    def title(self) -> str:
        """How people name it."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_finished(self) -> bool:
        """Whether it uses no room any more."""
        return self.phase in _FINISHED


def read_pod(item: Object, *, is_kept: bool = True) -> Pod:
    """Read a pod from the JSON of Kubernetes; unless kept, nothing of it is remembered."""
    meta, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    annotations = foretell_annotations(item)
    return Pod(
        uid=meta.get("uid") or "",
        namespace=sys.intern(meta.get("namespace") or "default"),
        name=meta.get("name") or "",
        node=sys.intern(spec.get("nodeName") or ""),
        scheduler=sys.intern(spec.get("schedulerName") or DEFAULT_SCHEDULER),
        phase=sys.intern(status.get("phase") or "Pending"),
        needs=read_needs(spec, is_kept=is_kept),
        annotations=annotations,
        rules=read_rules(spec, is_kept=is_kept),
        unchecked=tuple(_unchecked(spec)),
        is_deleting=bool(meta.get("deletionTimestamp")),
        is_gated=bool(spec.get("schedulingGates")),
        created=meta.get("creationTimestamp") or "",
        started=status.get("startTime") or "",
        version=str(meta.get("resourceVersion") or ""),
        is_ready=_is_ready(status),
        owner=_owner(meta),
        labels=meta.get("labels") or {},
        away=read_away(spec, meta.get("namespace") or "default"),
    )


def _is_ready(status: Object) -> bool:
    return any(
        c.get("type") == "Ready" and c.get("status") == "True"
        for c in status.get("conditions") or ()
    )


def _owner(meta: Object) -> Owner | None:
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller"):
            return Owner(owner.get("kind") or "", owner.get("uid") or "")
    return None


def foretell_annotations(item: Object) -> dict[str, str]:
    """Return the annotations of an object that are for foretell."""
    given = item["metadata"].get("annotations") or {}
    return {key: str(text) for key, text in given.items() if key.startswith(PREFIX)}


def read_needs(spec: Object, *, is_kept: bool = True) -> Resources:
    """Return what a pod asks for: that of its containers, or of the largest step before them."""
    first = [
        (c.get("restartPolicy") == "Always", _requests(c)) for c in _all(spec, "initContainers")
    ]
    containers = [_requests(c) for c in _all(spec, "containers")]
    asked = json.dumps([containers, first, _requests(spec), spec.get("overhead") or {}])
    return _needs(asked) if is_kept else _needs.__wrapped__(asked)


@lru_cache(maxsize=_KEPT)  # most pods are copies of few, and are seen several times
def _needs(asked: str) -> Resources:
    containers, first, whole, overhead = json.loads(asked)
    running = sum(map(Resources.read, containers), Resources())
    starting, beside = [], Resources()
    for goes_on, requests in first:
        if goes_on:  # beside the containers, and beside later steps
            beside += Resources.read(requests)
            starting.append(beside)
        else:
            starting.append(beside + Resources.read(requests))
    total, of_pod = _largest([running + beside, *starting]), Resources.read(whole)
    if "cpu" in whole:
        total = replace(total, cpus=of_pod.cpus)
    if "memory" in whole:
        total = replace(total, memory_bytes=of_pod.memory_bytes)
    return total + Resources.read(overhead)


def _all(spec: Object, kind: str) -> list[Object]:
    return spec.get(kind) or []


def _requests(part: Object) -> Object:
    return (part.get("resources") or {}).get("requests") or {}


def _largest(parts: Sequence[Resources]) -> Resources:
    """Return the largest amount of each resource."""
    if len(parts) == 1:
        return parts[0]
    amounts: dict[str, float] = {}
    for part in parts:
        for name, n in part.amounts().items():
            amounts[name] = max(n, amounts.get(name, 0.0))
    return Resources.read(amounts)


def read_pod_task(pod: Pod, of_namespace: Mapping[str, str]) -> tuple[Task, list[str]]:
    """Return the task that a pod is, and what is wrong with its annotations.

    An annotation of the pod wins over one of its namespace; one that is wrong is not used.
    """
    complaints: list[str] = []
    given = {**of_namespace, **pod.annotations}
    H = None
    if _H in given:
        try:
            H = read_h(given[_H].strip())
        except UsageError as error:
            complaints.append(f"annotation {_H} {error.text}; the default is used")
    migratable, complaint = read_migratable(given)
    if complaint:
        complaints.append(complaint)
    if (typed := _H.lower()) in given:
        complaints.append(f"annotation {typed} is not used; write {_H} for the weight of energy")
    for key in sorted(given.keys() & _REQUESTED):
        complaints.append(f"annotation {key} is not used: CPUs and memory are those requested")
    features: dict[str, Value] = {
        key.removeprefix(PREFIX): plain_value(text.strip())
        for key, text in given.items()
        if key not in _NO_FEATURES
    }
    return Task(pod.needs, features, H, migratable, pod.title), complaints


def read_migratable(given: Mapping[str, str]) -> tuple[str, str]:
    """Return what annotations say of moves, and what is wrong with that, if anything is."""
    found = given.get(_MIGRATABLE, "never").strip()
    if found in _MIGRATABLE_VALUES:
        return found, ""
    return "never", (
        f"annotation {_MIGRATABLE} must be one of {', '.join(_MIGRATABLE_VALUES)}, not "
        f"{found}; never is used"
    )


def _unchecked(spec: Object) -> Iterator[str]:
    """Name the fields of a pod that only kube-scheduler checks."""
    for i, volume in enumerate(spec.get("volumes") or ()):
        yield from (f"spec.volumes[{i}].{s}" for s in sorted(volume.keys() - {"name"} - _ANYWHERE))
    affinity: Mapping[str, Any] = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        if affinity.get(kind):
            yield f"spec.affinity.{kind}"
    for i, spread in enumerate(spec.get("topologySpreadConstraints") or ()):
        if spread.get("whenUnsatisfiable") != "ScheduleAnyway":
            yield f"spec.topologySpreadConstraints[{i}]"
    yield from _host_ports(spec)
    if spec.get("resourceClaims"):
        yield "spec.resourceClaims"


def _host_ports(spec: Object) -> Iterator[str]:
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(kind) or ()):
            if any(port.get("hostPort") for port in container.get("ports") or ()):
                yield f"spec.{kind}[{i}].ports.hostPort"
