"""What is known of a live cluster now: nodes, pods, and the chooser that sees both."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from foretell.adapters.kubernetes.anti_affinity import Away
from foretell.adapters.kubernetes.client import Object
from foretell.adapters.kubernetes.nodes import (
    NO_TYPE,
    LiveNode,
    NodeTypes,
    described_types,
    live_cluster,
    read_node,
)
from foretell.adapters.kubernetes.pods import (
    PREFIX,
    Pod,
    foretell_annotations,
    read_pod,
    read_pod_task,
)
from foretell.adapters.kubernetes.records import Record
from foretell.adapters.kubernetes.rules import NodeRules
from foretell.adapters.kubernetes.watching import LOG
from foretell.cluster.models import open_estimates
from foretell.cluster.profiles import profiles_of
from foretell.decide.corun.jobs import JobNeeds
from foretell.decide.placement.choose import Allowed, Chooser, PolicyChoice, read_policy
from foretell.decide.placement.cluster import Cluster, read_cluster
from foretell.decide.placement.estimates import Estimates
from foretell.decide.placement.fleet import Fleet
from foretell.decide.placement.moves import Running
from foretell.decide.placement.neighbors import PROFILE, Neighbors, profile_of
from foretell.decide.placement.tasks import Task
from foretell.decide.placement.waiting import Waiter, Waiting
from foretell.machines import Resources

#: Takes a pod and its JSON, which is None once the pod is gone.
Listener = Callable[[Pod, Object | None], None]
_MOST_RULES = 1_000  # sets of rules whose nodes are remembered


class State:
    """Nodes and pods as they are now, for choosing nodes; safe to use from several threads.

    ``lock`` must be held while the fleet, the chooser or records are used. The clock is monotonic:
    a jump of the wall clock changes nothing.

    Attributes
    ----------
    n_room, n_arrived
        Counts of changes that may have made room, and of pods that are new and have no node.
    changed
        Notified at each of these changes.
    listeners
        Called, with the lock held, for each pod that a watch shows or that is gone.
    """

    def __init__(
        self,
        cluster: Cluster,
        estimates: Estimates,
        choice: PolicyChoice,
        *,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
        profiles: Mapping[str, JobNeeds] | None = None,
    ) -> None:
        self.cluster, self.clock, self.profiles = cluster, clock, profiles or {}
        self.types = NodeTypes(cluster)
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.nodes: dict[str, LiveNode] = {}
        self.records: dict[str, Record] = {}
        self.unbound: dict[str, Record] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.listeners: list[Listener] = []
        self.away = Away()
        self._holds: dict[str, tuple[str, Resources]] = {}
        self.n_room = self.n_arrived = 0
        self._n_seen = 0
        self._is_stale = True
        self._unmatched: tuple[list[str], list[str]] = ([], [])
        self._allowed: dict[str, Allowed] = {}
        self._kinds = [table.node_type for table in cluster.node_type]
        self._chooser = Chooser(cluster, estimates, choice, seed, fleet=Fleet([], [], self._kinds))
        self.index: dict[str, int] = {}

    # What is known

    @property
    def chooser(self) -> Chooser:
        """The chooser, with the fleet of now."""
        if self._is_stale:
            self._rebuild()
        return self._chooser

    @property
    def fleet(self) -> Fleet:
        """The nodes of now and what is in use on them."""
        return self.chooser.fleet

    def _rebuild(self) -> None:
        """Make the arrays again, after nodes have changed."""
        usable = [node for node in self.nodes.values() if not node.problem]
        fleet = Fleet([n.node for n in usable], [n.is_ready for n in usable], self._kinds)
        self.index = {name: i for i, name in enumerate(fleet.names)}
        placed = [r for r in self.records.values() if r.counted in self.index]
        if placed:
            where = np.array([self.index[r.counted] for r in placed])
            np.add.at(fleet.used.T, where, np.array([fleet.taken(r.pod.needs) for r in placed]))
            np.add.at(fleet.n_tasks, where, 1)
        for name, needs in self._holds.values():
            if name in self.index:
                fleet.take(self.index[name], fleet.taken(needs))
        for record in self.unbound.values():
            if record.own in self.index:
                fleet.reserved[self.index[record.own]] = True
        self._allowed.clear()
        self._chooser.fleet = fleet
        if self.profiles:
            self._chooser.neighbors = neighbors = Neighbors(fleet, self.profiles)
            for record in placed:
                neighbors.add(self.index[record.counted], record.order, self.task(record)[0])
        self._is_stale = False

    def task(self, record: Record) -> tuple[Task, list[str]]:
        """Return the task that a pod is, and what is wrong with its annotations."""
        annotations = self.namespaces.get(record.pod.namespace, {})
        if record._task is None or record._task[0] is not annotations:
            task, complaints = read_pod_task(record.pod, annotations)
            name = profile_of(task)
            if name and name not in self.profiles:
                complaints.append(
                    f"annotation {PREFIX}{PROFILE} must be one of [profiles] in the cluster file, "
                    f"not {name}; slowdowns by neighbors are not known"
                )
            record._task = (annotations, task, complaints)
        return record._task[1], record._task[2]

    def allowed(self, pod: Pod) -> Allowed:
        """Say which nodes of the fleet a pod may use now, by its rules and those of pods there."""
        found, closed = self._by_rules(pod.rules), self.closed(pod)
        return found & [name not in closed for name in self.fleet.names] if closed else found

    def closed(self, pod: Pod) -> set[str]:
        """Return the names of nodes that pods which are there keep a pod away from."""
        return self.away.closed(self.away.terms(pod.namespace, pod.labels), self.nodes)

    def _by_rules(self, rules: NodeRules) -> Allowed:
        """Say which nodes of the fleet a pod may use, by its own rules."""
        fleet = self.fleet
        found = self._allowed.get(rules.key)
        if found is None:
            if len(self._allowed) >= _MOST_RULES:
                self._allowed.clear()
            reasons = [rules.why_not(self.nodes[name]) for name in fleet.names]
            found = self._allowed[rules.key] = np.array([not why for why in reasons], dtype=bool)
        return found

    def choose(self, record: Record) -> str | None:
        """Return the node for a pod; None if none that it may use has room now."""
        chooser, (task, _) = self.chooser, self.task(record)
        need = chooser.fleet.need(task.needs)
        if need is None:
            return None
        if target := self.target_of(record):
            return target
        own = self.index.get(record.own)
        found = chooser.choose(task, need, own, self.allowed(record.pod))
        return None if found is None else chooser.fleet.names[found]

    def target_of(self, record: Record) -> str:
        """Return the node that a move chose for a pod, if it can take it now; empty otherwise."""
        if not record.target:
            return ""
        self.release(record.pod.uid)
        fleet = self.fleet
        place, need = self.index.get(record.target), fleet.need(record.pod.needs)
        if place is None or need is None or not self.allowed(record.pod)[place]:
            return ""
        return record.target if place in fleet.fitting(need) else ""

    def usable(self, record: Record) -> Allowed:
        """Say which nodes would have room for a pod if they were empty and ready."""
        need = self.fleet.need(record.pod.needs)
        if need is None:
            return np.zeros(len(self.fleet), dtype=bool)
        return self.fleet.could_ever_fit(need) & self._by_rules(record.pod.rules)

    def why_not(self, record: Record) -> dict[str, str]:
        """Say for each node why it does not take a pod now."""
        fleet, found = self.fleet, {}
        need = fleet.need(record.pod.needs)
        could = None if need is None else fleet.could_ever_fit(need)
        closed = self.closed(record.pod)
        for name, node in sorted(self.nodes.items()):
            if node.problem:
                found[name] = node.problem
            elif why := record.pod.rules.why_not(node):
                found[name] = why
            elif name in closed:
                found[name] = "a pod there keeps it away by podAntiAffinity"
            elif not node.is_ready:
                found[name] = "it is not ready"
            elif need is None or could is None:
                unknown = sorted(set(record.pod.needs.amounts()) - set(fleet.row))[0]
                found[name] = f"it has no {unknown}"
            elif lacking := fleet.lacking(self.index[name], need):
                is_small = not could[self.index[name]]
                found[name] = f"{'too small' if is_small else 'too little room'} ({lacking})"
            elif fleet.reserved[self.index[name]]:
                found[name] = "it is kept free for another pod"
        return found

    def running(self) -> list[tuple[Record, Running]]:
        """Return the pods that have a node, in the form that rules about them use."""
        found = ((record, self.running_of(record)) for record in self.records.values())
        return [(record, running) for record, running in found if running is not None]

    def running_of(self, record: Record) -> Running | None:
        """Return a pod in the form that rules about it use; None if it is on no node."""
        need, place = self.fleet.taken(record.pod.needs), self.index.get(record.counted)
        if place is None:
            return None
        return Running(self.task(record)[0], need, place, record.placed_s)

    def waiting(self, scheduler: str | None = None) -> Waiting:
        """Return the pods that wait for room, of one scheduler or of all.

        Those that no node could take even if it were empty are not among them.
        """
        found, fleet = Waiting(), self.fleet
        for record in self.pending(scheduler):
            need = fleet.need(record.pod.needs)
            if need is not None and self.usable(record).any():
                found.add(
                    Waiter(
                        record.order, self.task(record)[0], need,
                        allowed=self.allowed(record.pod),
                    )
                )  # fmt: skip
        return found

    def pending(self, scheduler: str | None = None) -> list[Record]:
        """Return the pods to be placed, by arrival, of one scheduler or of all."""
        found = [
            r
            for r in self.unbound.values()
            if not (r.assumed or r.pod.is_deleting or r.pod.is_gated)
            and scheduler in (None, r.pod.scheduler)
        ]
        return sorted(found, key=lambda r: r.order)

    def check_types(self) -> None:
        """Raise a UsageError if a node matches several node types."""
        for node in self.nodes.values():
            self.types.check(node.name, node.labels)

    def n_by_type(self) -> dict[str, int]:
        """Count the nodes of each type of the cluster file, and those that match none."""
        with self.lock:
            found = dict.fromkeys((table.name for table in self.cluster.node_type), 0)
            for node in self.nodes.values():
                found[node.type.name] += 1
        return found

    def without_type(self) -> list[str]:
        """Return the names of nodes that match no node type."""
        with self.lock:
            return sorted(n.name for n in self.nodes.values() if n.type.name == NO_TYPE)

    def tell_types(self, *, is_first: bool = False) -> None:
        """Log how nodes match node types if it has changed which do not, after the first time."""
        n, without = self.n_by_type(), self.without_type()
        empty = [table.name for table in self.types.tables if not n[table.name]]
        old, self._unmatched = self._unmatched, (empty, without)
        if not is_first and self._unmatched != old:
            LOG.warning("%s", described_types(n, without))

    # Pods that are about to be bound

    def assume(self, record: Record, node: str) -> None:
        """Count a pod on a node that it is being bound to."""
        with self.lock:
            record.assumed = node
            self._recount(record)

    def forget(self, record: Record) -> None:
        """Take back an assumption; the room is free again unless the pod is bound."""
        with self.lock:
            record.assumed = ""
            is_gone = self.records.get(record.pod.uid) is not record
            self._recount(record, is_gone=is_gone)
            self._notify(room=True)

    def reserve(self, record: Record, node: str) -> None:
        """Keep a node free for a pod, or none if the name is empty."""
        with self.lock:
            old, record.own = record.own, node
            if self._is_stale:
                return
            for name in filter(self.index.__contains__, (old, node)):
                self._chooser.fleet.reserved[self.index[name]] = name == node

    def hold(self, key: str, node: str, needs: Resources) -> None:
        """Keep room on a node for a pod that is yet to come."""
        with self.lock:
            self.release(key)
            self._holds[key] = (node, needs)
            if not self._is_stale and node in self.index:
                fleet = self._chooser.fleet
                fleet.take(self.index[node], fleet.taken(needs))

    def release(self, key: str) -> None:
        """Give back room that was kept, if any was."""
        with self.lock:
            node, needs = self._holds.pop(key, ("", Resources()))
            if not node:
                return
            if not self._is_stale and node in self.index:
                fleet = self._chooser.fleet
                fleet.give_back(self.index[node], fleet.taken(needs))
            self._notify(room=True)

    def _recount(self, record: Record, is_gone: bool = False) -> None:
        """Move what a pod takes to where it is now."""
        where = "" if is_gone else record.where
        if where == record.counted:
            return
        freed, record.counted = record.counted, where
        self.away.move(record.pod.away, freed, where)
        if where:
            record.placed_s = self.clock()
        if self._is_stale:
            return
        fleet = self._chooser.fleet
        need = fleet.taken(record.pod.needs)
        neighbors = self._chooser.neighbors
        if where in self.index:
            fleet.take(self.index[where], need)
            if neighbors is not None:
                neighbors.add(self.index[where], record.order, self.task(record)[0])
        if freed in self.index:
            fleet.give_back(self.index[freed], need)
            if neighbors is not None:
                neighbors.remove(self.index[freed], record.order)

    def _notify(self, *, room: bool = False, arrived: bool = False) -> None:
        self.n_room += room
        self.n_arrived += arrived
        self.changed.notify_all()

    # What the watches see

    def put_node(self, item: Object) -> None:
        """Take a node that is new or has changed."""
        node = read_node(item, self.types)
        old = self.nodes.get(node.name)
        if old == node:  # most changes are signs of life
            return
        if node.problem and (old is None or old.problem != node.problem):
            LOG.warning("node %s is not used: %s", node.name, node.problem)
        several = self.types.matching(node.name, node.labels)
        if len(several) > 1 and (old is None or old.labels != node.labels):
            names = ", ".join(table.name for table in several)
            LOG.warning("node %s matches several node types: %s", node.name, names)
        self.nodes[node.name] = node
        self._is_stale = True
        self._notify(room=True)

    def drop_node(self, name: str) -> None:
        """Take that a node is gone."""
        if self.nodes.pop(name, None) is not None:
            self._is_stale = True
            self._notify(room=True)  # what no node could take before is looked at again

    def put_pod(self, item: Object, *, is_listed: bool = False) -> None:
        """Take a pod that is new or has changed."""
        pod = read_pod(item)
        record = self.records.get(pod.uid)
        if record is None:
            if pod.is_finished:
                self._tell(pod, item)
                return
            record = Record(pod, self._n_seen, self.clock())
            self._n_seen += 1
            self.records[pod.uid] = record
            self._place(record, pod, is_new=True)
            if is_listed and pod.started:  # it has been running for a while
                record.placed_s -= _age_s(pod.started)
        else:
            self._place(record, pod, is_new=False)
        self._tell(pod, item)

    def _tell(self, pod: Pod, item: Object | None) -> None:
        for listener in self.listeners:
            listener(pod, item)

    def _place(self, record: Record, pod: Pod, *, is_new: bool) -> None:
        was_open = not is_new and _is_open(record.pod)
        had, old = record.counted, record.pod
        if had and (old.needs, old.away) != (pod.needs, pod.away):  # resized: counted anew
            self._recount(record, is_gone=True)
        record.pod = pod
        if record._task is not None and not is_new:
            record._task = None
        if had and _profile(old.annotations) != _profile(pod.annotations):
            self._is_stale |= bool(self.profiles)
        if pod.node or pod.is_finished:
            record.assumed = ""
            self.reserve(record, "")
            self.unbound.pop(pod.uid, None)
        elif pod.uid not in self.unbound:
            self.unbound[pod.uid] = record
        self._recount(record)
        if had and record.counted != had:
            self._notify(room=True)
        if pod.is_finished:
            self.records.pop(pod.uid, None)
        elif not pod.node and _is_open(pod) and not was_open:
            self._notify(arrived=True)

    def drop_pod(self, uid: str) -> None:
        """Take that a pod is gone."""
        record = self.records.pop(uid, None)
        self.unbound.pop(uid, None)
        if record is not None and (record.counted or record.own):
            self.reserve(record, "")
            self._recount(record, is_gone=True)
            self._notify(room=True)
        if record is not None:
            self._tell(record.pod, None)

    def put_namespace(self, item: Object) -> None:
        """Take the annotations of a namespace."""
        name, found = item["metadata"]["name"], foretell_annotations(item)
        if self.namespaces.get(name) != found:
            has_other = _profile(self.namespaces.get(name, {})) != _profile(found)
            self._is_stale |= has_other and bool(self.profiles)  # its pods have another one, too
            self.namespaces[name] = found
            self._notify(arrived=True)  # its pods may be decided now, or otherwise

    def drop_namespace(self, name: str) -> None:
        """Take that a namespace is gone."""
        self.namespaces.pop(name, None)


def _profile(annotations: Mapping[str, str]) -> str | None:
    return annotations.get(f"{PREFIX}{PROFILE}")


def open_state(
    source: Path | str | Mapping[str, Any] | Cluster,
    policy: str | PolicyChoice | None = None,
    *,
    seed: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> State:
    """Read a cluster file with its models, for a live cluster."""
    cluster = live_cluster(read_cluster(source))
    NodeTypes(cluster)  # refuses types whose nodes cannot be found, before models are loaded
    chosen = cluster.policy.score if policy is None else policy
    choice = read_policy(chosen) if isinstance(chosen, str) else chosen
    return State(
        cluster, open_estimates(cluster)[0], choice, seed=seed, clock=clock,
        profiles=profiles_of(cluster),
    )  # fmt: skip


def _is_open(pod: Pod) -> bool:
    return not (pod.node or pod.is_deleting or pod.is_gated or pod.is_finished)


def _age_s(moment: str) -> float:
    """Return how long ago a moment was, by the wall clock; 0 if that cannot be said."""
    try:
        return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())
    except ValueError:
        return 0.0
