"""Pods of Kubernetes: what they need, what annotations say of them, and fields that matter."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from foretell.adapters.kubernetes.client import Object
from foretell.adapters.kubernetes.rules import NodeRules, read_rules
from foretell.decide.placement.cluster import Migratable
from foretell.decide.placement.tasks import Task, Value, plain_value, read_h
from foretell.errors import UsageError
from foretell.machines import Resources

PREFIX = "foretell/"
DEFAULT_SCHEDULER = "default-scheduler"
_H, _MIGRATABLE = f"{PREFIX}H", f"{PREFIX}migratable"
_MIGRATABLE_VALUES: tuple[str, ...] = get_args(Migratable)
_FINISHED = ("Succeeded", "Failed")
#: Volumes that are the same on every node; all others may tie a pod to some nodes.
_ANYWHERE = {"configMap", "downwardAPI", "emptyDir", "gitRepo", "hostPath", "image", "nfs",
             "projected", "secret"}  # fmt: skip


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
    created, started
        When it was created, and when its node took it, by the clock of the cluster; may be empty.
    version
        Changes whenever the pod does.
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
    version: str = ""

    @property
    def title(self) -> str:
        """How people name it."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_finished(self) -> bool:
        """Whether it uses no room any more."""
        return self.phase in _FINISHED


def read_pod(item: Object) -> Pod:
    """Read a pod from the JSON of Kubernetes."""
    meta, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    annotations = foretell_annotations(item)
    return Pod(
        uid=meta.get("uid") or "",
        namespace=sys.intern(meta.get("namespace") or "default"),
        name=meta.get("name") or "",
        node=sys.intern(spec.get("nodeName") or ""),
        scheduler=sys.intern(spec.get("schedulerName") or DEFAULT_SCHEDULER),
        phase=sys.intern(status.get("phase") or "Pending"),
        needs=read_needs(spec),
        annotations=annotations,
        rules=read_rules(spec),
        unchecked=tuple(_unchecked(spec)),
        is_deleting=bool(meta.get("deletionTimestamp")),
        is_gated=bool(spec.get("schedulingGates")),
        created=meta.get("creationTimestamp") or "",
        started=status.get("startTime") or "",
        version=str(meta.get("resourceVersion") or ""),
    )


def foretell_annotations(item: Object) -> dict[str, str]:
    """Return the annotations of an object that are for foretell."""
    given = item["metadata"].get("annotations") or {}
    return {key: str(text) for key, text in given.items() if key.startswith(PREFIX)}


def read_needs(spec: Object) -> Resources:
    """Return what a pod asks for: that of its containers, or of the largest step before them."""
    running = Resources()
    for container in spec.get("containers") or ():
        running += _requests(container)
    starting, beside = [], Resources()
    for container in spec.get("initContainers") or ():
        needs = _requests(container)
        if container.get("restartPolicy") == "Always":  # it goes on beside the others
            beside += needs
            starting.append(beside)
        else:
            starting.append(beside + needs)
    total = _largest([running + beside, *starting])
    given = (spec.get("resources") or {}).get("requests") or {}  # those of the pod as a whole
    whole = Resources.read(given)
    if "cpu" in given:
        total = replace(total, cpus=whole.cpus)
    if "memory" in given:
        total = replace(total, memory_bytes=whole.memory_bytes)
    return total + Resources.read(spec.get("overhead") or {})


def _requests(container: Object) -> Resources:
    return Resources.read((container.get("resources") or {}).get("requests") or {})


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
    migratable = given.get(_MIGRATABLE, "never").strip()
    if migratable not in _MIGRATABLE_VALUES:
        complaints.append(
            f"annotation {_MIGRATABLE} must be one of {', '.join(_MIGRATABLE_VALUES)}, not "
            f"{migratable}; never is used"
        )
        migratable = "never"
    features: dict[str, Value] = {
        key.removeprefix(PREFIX): plain_value(text.strip())
        for key, text in given.items()
        if key not in (_H, _MIGRATABLE) and key != PREFIX
    }
    return Task(pod.needs, features, H, migratable, pod.title), complaints


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
