"""The loop of the scheduler: which pods to try, when, and what to say about those that wait."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from foretell.adapters.kubernetes.client import Api
from foretell.adapters.kubernetes.events import (
    FAILED,
    NO_PREDICTION,
    SCHEDULED,
    WRONG_ANNOTATION,
    Events,
)
from foretell.adapters.kubernetes.lease import Lease, LeaseSettings
from foretell.adapters.kubernetes.metrics import SchedulerMetrics
from foretell.adapters.kubernetes.records import Record
from foretell.adapters.kubernetes.standalone.binding import Binder, Binding, Outcome
from foretell.adapters.kubernetes.state import State
from foretell.adapters.kubernetes.watching import LOG, BackOff, Watches
from foretell.decide.placement.estimates import Estimate
from foretell.decide.placement.moves import Running
from foretell.decide.placement.reserving import first_room
from foretell.errors import error_lines
from foretell.spaces.quantities import ENERGY, TIME, write_quantity
from foretell.wording import counted

SCHEDULER_NAME = "foretell"
_MOST_AT_ONCE = 40  # pods that a policy may place together
_MOST_REASONS = 3
_FIRST_S, _MOST_S = 1.0, 10.0  # between attempts, where nothing has changed


@dataclass(frozen=True)
class Decision:
    """The node of a pod, and what is predicted there."""

    pod: str
    node: str
    type: str
    H: float
    estimate: Estimate

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values; what is not known is None."""
        time_s, energy_j = self.estimate.time, self.estimate.energy
        return {
            "pod": self.pod,
            "node": self.node,
            "type": self.type,
            "H": self.H,
            "time_s": time_s.value if time_s.is_known else None,
            "energy_j": energy_j.value if energy_j.is_known else None,
            "trust": self.estimate.trust,
        }

    def __str__(self) -> str:
        figures = [
            write_quantity(figure.value, kind)
            for figure, kind in ((self.estimate.time, TIME), (self.estimate.energy, ENERGY))
            if figure.is_known
        ]
        remark = f" ({self.estimate.remark})" if self.estimate.remark else ""
        predicted = " and ".join(figures) or f"nothing is predicted{remark}"
        return f"{self.pod} → {self.node} ({self.type}): {predicted}, H = {self.H:g}"


@dataclass(eq=False)
class _Attempts:
    """What was tried for a pod that has no node.

    Attributes
    ----------
    kept_until_s
        When the node that is kept free for it has been waited for in vain.
    """

    back_off: BackOff = field(default_factory=lambda: BackOff(_FIRST_S, _MOST_S))
    not_before_s: float = 0.0
    kept_until_s: float = 0.0
    told: str = ""
    has_complained: bool = False
    is_new: bool = True


@dataclass(eq=False)
class _Pass:
    """What one pass has found so far.

    Attributes
    ----------
    together
        Nodes of pods that were placed together, by the id of the pod.
    no_room
        Why there is no room for pods with certain needs and rules: they fit, or not, together.
    """

    together: dict[str, str]
    no_room: dict[tuple[object, ...], tuple[str, str]] = field(default_factory=dict)
    running: list[Running] | None = None


class Standalone:
    """Places the pods that name it as their scheduler, one pass whenever room or pods are new.

    Parameters
    ----------
    lease
        With a lease, pods are bound only while this replica holds it; without, nothing is bound
        and nothing is written: decisions are only told.
    tell
        Told each decision.
    """

    def __init__(
        self,
        api: Api,
        state: State,
        watches: Watches,
        *,
        name: str = SCHEDULER_NAME,
        lease: LeaseSettings | None = None,
        tell: Callable[[Decision], None] = lambda _: None,
    ) -> None:
        self.state, self.watches, self.name = state, watches, name
        self._tell = tell
        self._stopping = threading.Event()
        self._attempts: dict[str, _Attempts] = {}
        self._seen = (-1, -1)
        self._last_placed = -1
        self._idle = BackOff(_FIRST_S, _MOST_S)
        self.metrics: SchedulerMetrics | None = None
        self._lease = self._events = self._binder = None
        if lease is not None:
            self._lease = Lease(api, lease, self._on_lease)
            self._events = Events(api, name)
            self._binder = Binder(
                api, state, self._may_bind, self._on_end, timeout_s=lease.duration_s / 3
            )

    def run(self) -> None:
        """Place pods until it is stopped; the watches run already."""
        if self._lease and self._events:
            self._events.start()
            self._lease.start()
        try:
            while not self._stopping.is_set():
                self._wait()
                if self._may_decide():
                    self.place_pending()
                if self._binder:
                    self._binder.resolve()
        finally:
            for part in (self._binder, self._events, self._lease):
                if part is not None:
                    part.close()

    def stop(self) -> None:
        """End it from another thread or a signal handler, once the bindings under way are done."""
        self._stopping.set()
        threading.Thread(target=self._wake, daemon=True).start()  # a handler must not wait

    @property
    def is_leader(self) -> bool:
        """Whether this replica decides now."""
        return self._lease is None or self._lease.is_held

    def _may_bind(self) -> bool:
        return self.is_leader and not self._stopping.is_set()

    def _may_decide(self) -> bool:
        return not self._stopping.is_set() and self.is_leader and self.watches.are_current

    def _on_lease(self, is_held: bool) -> None:
        LOG.warning("this replica %s the lease", "has" if is_held else "does not have")
        if is_held:  # what the replica before bound just now must be counted
            self.watches.refresh()
        self._wake()

    def _wake(self) -> None:
        with self.state.changed:
            self._seen = (-1, -1)
            self.state.changed.notify_all()

    def _wait(self) -> None:
        """Wait for news: pods, room, the lease; or for the next attempt."""
        with self.state.changed:
            end_s = time.monotonic() + self._next_s()
            while not self._stopping.is_set():
                now = (self.state.n_room, self.state.n_arrived)
                if now != self._seen and self._may_decide():
                    self._idle.reset()
                    break
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    break
                # The lease and the watches do not notify when they end.
                self.state.changed.wait(min(left_s, 0.25 if now != self._seen else left_s))

    def _next_s(self) -> float:
        """Return how long to wait at most."""
        if not self._attempts and not (self._binder and self._binder.n_doubtful):
            return _MOST_S
        now_s = self.state.clock()
        due = [a.not_before_s - now_s for a in self._attempts.values() if a.not_before_s > now_s]
        return max(0.0, min([self._idle.next_s(), *due]))

    # One pass

    def place_pending(self) -> None:
        """Try all pods that wait, by arrival."""
        with self.state.lock:
            self._seen = (self.state.n_room, self.state.n_arrived)
            pending = [r for r in self.state.pending(self.name) if self._is_due(r)]
            self._attempts = {
                uid: tried for uid, tried in self._attempts.items() if uid in self.state.unbound
            }
            found = _Pass(self._assigned(pending))
        for record in pending:
            if not self._may_decide():
                self._seen = (-1, -1)  # the others are tried as soon as that is possible again
                return
            with self.state.lock:
                if record.assumed or record.pod.node or record.pod.uid not in self.state.unbound:
                    continue
                start_s = time.perf_counter()
                decision = self._try(record, found)
            if decision is not None:
                self._count(decision, time.perf_counter() - start_s)
                self._tell(decision)
                if self._binder:
                    self._binder.submit(Binding(record, decision.node))

    def _is_due(self, record: Record) -> bool:
        pod = record.pod
        tried = self._attempts.setdefault(pod.uid, _Attempts())
        if pod.unchecked:
            self._refuse(record, "unchecked", f"{', '.join(pod.unchecked)} is not checked by "
                         f"{self.name}: give the pod another scheduler, such as default-scheduler",
                         )  # fmt: skip
            return False
        # The namespace may have annotations for it; the watch of namespaces brings them.
        return pod.namespace in self.state.namespaces and tried.not_before_s <= self.state.clock()

    def _assigned(self, pending: Sequence[Record]) -> dict[str, str]:
        """Place pods that are new together, if the policy does that."""
        state, fleet = self.state, self.state.fleet
        new = [r for r in pending if self._attempts[r.pod.uid].is_new]
        for record in new:
            self._attempts[record.pod.uid].is_new = False
        group = []
        for record in islice(new, _MOST_AT_ONCE):
            with contextlib.suppress(Exception):  # told when its turn comes
                task, allowed = state.task(record)[0], state.allowed(record.pod)
                state.chooser.estimates.of(task)
                if (need := fleet.need(record.pod.needs)) is not None:
                    group.append((record.pod.uid, (task, need), allowed))
        try:
            found = state.chooser.assign([t for _, t, _ in group], [a for *_, a in group])
        except Exception:  # then they are placed one by one
            LOG.exception("%s could not be placed together", counted(len(group), "pod"))
            found = None
        return {
            uid: fleet.names[node]
            for (uid, *_), node in zip(group, found or (), strict=False)
            if node is not None
        }

    def _try(self, record: Record, found: _Pass) -> Decision | None:
        """Decide about a pod; a mistake of ours with one pod must not stop the others."""
        try:
            return self._decide(record, found)
        except Exception as error:
            LOG.exception("%s cannot be placed", record.pod.title)
            if record.assumed:
                self.state.forget(record)
            self._delay(record.pod.uid)
            text = f"{type(error).__name__}: {error_lines(error)[0]}"
            self._refuse(record, "failed", f"{self.name} cannot place it, and tries later: {text}")
            return None

    def _delay(self, uid: str) -> None:
        """Try a pod again only after a while, which is longer each time."""
        tried = self._attempts.get(uid)
        if tried is not None:
            tried.not_before_s = self.state.clock() + tried.back_off.next_s()

    def _decide(self, record: Record, found: _Pass) -> Decision | None:
        """Choose a node and count the pod there; None if it must wait."""
        state = self.state
        task, complaints = state.task(record)
        self._complain(record, complaints, state.chooser.why_blind(task))
        pod = record.pod
        away = state.away.terms(pod.namespace, pod.labels)
        node, alike = None, (pod.needs, pod.rules.key, away)
        if record.own or record.target or alike not in found.no_room:
            assigned = found.together.get(record.pod.uid)
            keeps = not record.target and self._still_fits(record, assigned)
            node = assigned if keeps else state.choose(record)
        if node is None:
            if alike not in found.no_room:
                found.no_room[alike] = self._why_not(record)
            self._let_wait(record, found, found.no_room[alike])
            return None
        predicted = state.chooser.predicted(task, state.index[node])
        state.reserve(record, "")
        state.assume(record, node)
        self._last_placed = max(self._last_placed, record.order)
        kind = int(state.fleet.type_of[state.index[node]])
        return Decision(
            record.pod.title,
            node,
            state.fleet.types[kind].name,
            state.chooser.weight(task),
            predicted,
        )

    def _still_fits(self, record: Record, node: str | None) -> bool:
        """Whether a node that was assigned before other pods were placed still has room."""
        state = self.state
        if node is None or node not in state.index:
            return False
        need, place = state.fleet.need(record.pod.needs), state.index[node]
        return need is not None and place in state.fleet.fitting(need)

    def _count(self, decision: Decision, seconds: float) -> None:
        if self.metrics is not None:
            self.metrics.decision_seconds.observe(seconds)
            figures = decision.estimate.time, decision.estimate.energy
            n_known = sum(figure.is_known for figure in figures)
            self.metrics.decisions.labels(("none", "some", "all")[n_known]).inc()

    def _on_end(self, binding: Binding, outcome: Outcome, why: str) -> None:
        pod = binding.record.pod
        if outcome == "bound":
            if self._events:
                self._events.tell(pod, SCHEDULED, f"Assigned {pod.title} to {binding.node}")
            return
        LOG.warning("%s was not bound to %s: %s", pod.title, binding.node, why)
        if self.metrics is not None:
            self.metrics.errors.labels("binding").inc()
        with self.state.lock:
            self._delay(pod.uid)

    # Pods that wait

    def _let_wait(self, record: Record, found: _Pass, why: tuple[str, str]) -> None:
        """Say why a pod waits; keep a node free for it if it has waited long."""
        state, policy = self.state, self.state.cluster.policy
        self._refuse(record, *why)
        if record.own and not self._can_keep(record):
            state.reserve(record, "")
        waited_s = state.clock() - record.seen_s
        is_overtaken = self._last_placed > record.order
        if not is_overtaken or waited_s < policy.reserve_after_s:
            return
        if not record.own or state.clock() > self._attempts[record.pod.uid].kept_until_s:
            self._keep_free(record, found, waited_s)

    def _keep_free(self, record: Record, found: _Pass, waited_s: float) -> None:
        """Keep a node free for a pod: another one if room has not come where it was predicted."""
        state = self.state
        need = state.fleet.need(record.pod.needs)
        if need is None:
            return
        if found.running is None:
            found.running = [running for _, running in state.running()]
        usable = state.usable(record) & state.allowed(record.pod) & state.fleet.ready
        room = first_room(state.chooser, need, found.running, usable, state.clock())
        if room is not None:
            state.reserve(record, state.fleet.names[room.node])
            patience_s = state.cluster.policy.reserve_after_s
            self._attempts[record.pod.uid].kept_until_s = room.end_s + patience_s
            LOG.warning("%s has waited %.0f s: node %s is kept free for it", record.pod.title,
                        waited_s, record.own)  # fmt: skip

    def _can_keep(self, record: Record) -> bool:
        """Whether the node that is kept free for a pod could still take it."""
        state, place = self.state, self.state.index.get(record.own)
        return place is not None and bool(
            state.usable(record)[place]
            and state.allowed(record.pod)[place]
            and state.fleet.ready[place]
        )

    def _complain(self, record: Record, complaints: Sequence[str], why_blind: str) -> None:
        """Say once what is wrong with the annotations of a pod, and why nothing is predicted."""
        tried = self._attempts[record.pod.uid]
        told = [(WRONG_ANNOTATION, text) for text in complaints]
        told += [(NO_PREDICTION, why_blind)] if why_blind else []
        if tried.has_complained or not told:
            return
        tried.has_complained = True
        if self.metrics is not None and complaints:
            self.metrics.errors.labels("annotation").inc()
        for reason, text in told:
            LOG.warning("%s: %s", record.pod.title, text)
            if self._events:
                self._events.tell(record.pod, reason, text, "Warning")

    def _refuse(self, record: Record, kind: str, text: str) -> None:
        """Say why a pod has no node: once for each kind of reason."""
        tried = self._attempts[record.pod.uid]
        if tried.told == kind:
            return
        tried.told = kind
        LOG.warning("%s waits: %s", record.pod.title, text)
        if self._events:
            self._events.tell(record.pod, FAILED, text, "Warning")
            self._events.set_unschedulable(record.pod, text)

    def _why_not(self, record: Record) -> tuple[str, str]:
        """Return the kind of reason why no node takes a pod, and say it for people."""
        counts = Counter(self.state.why_not(record).values())
        parts = [f"{counted(n, 'node')}: {why}" for why, n in counts.most_common(_MOST_REASONS)]
        why = "; ".join(parts) + ("; ..." if len(counts) > _MOST_REASONS else "")
        if self.state.usable(record).any():
            return "waits", f"no node has room now: {why}"
        why = why or "there are no nodes"
        return "beyond", f"no node could take it, even if it were empty: {why}"
