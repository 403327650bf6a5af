"""What runs beside a live scheduler: moves of pods, records of completed ones, maintenance."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from foretell.adapters.kubernetes.client import Right, check_rights, own_namespace
from foretell.adapters.kubernetes.lease import Lease, LeaseSettings
from foretell.adapters.kubernetes.live import Live
from foretell.adapters.kubernetes.moves.moving import Moving
from foretell.adapters.kubernetes.moves.report import MoveReport
from foretell.adapters.kubernetes.upkeep.maintaining import Maintaining
from foretell.adapters.kubernetes.upkeep.recording import Recorder
from foretell.closeable import Closeable
from foretell.cluster.maintenance.places import open_completed

_LEASE = "foretell-moves"
_EVERYWHERE = ""  # all namespaces, where the API server is asked for a right


def _rights(namespaces: Sequence[str], lease: LeaseSettings | None) -> list[Right]:
    """Return what moving the pods of some namespaces takes, besides reading what there is."""
    found = []
    for at in namespaces:
        found += [Right(verb, "pods", "", at) for verb in ("get", "create", "delete", "patch")]
        found.append(Right("create", "pods/eviction", "", at))
        found.append(Right("list", "poddisruptionbudgets", "policy", at))
    if lease is not None:
        group, at = "coordination.k8s.io", lease.namespace
        found.append(Right("create", "leases", group, at))
        found += [Right(verb, "leases", group, at, lease.name) for verb in ("get", "update")]
    return found


class Upkeep(Closeable):
    """Starts what the cluster file asks for; the watches run already.

    Parameters
    ----------
    is_leader
        Whether this replica decides now; by default a lease of its own says it.
    is_dry
        Only tell which pods would move; nothing is stored.
    tell
        Takes a report of each move.
    """

    def __init__(
        self,
        live: Live,
        *,
        is_leader: Callable[[], bool] | None = None,
        is_dry: bool = False,
        tell: Callable[[MoveReport], None] = lambda _: None,
    ) -> None:
        self._live, self._tell, self._stack = live, tell, ExitStack()
        self.moving: Moving | None = None
        self.recorder: Recorder | None = None
        try:
            if not is_dry:
                self._keep_records()
            if live.state.cluster.migration.enabled:
                self._move(is_leader, is_dry)
        except BaseException:
            self._stack.close()
            raise

    def close(self) -> None:
        """Stop everything."""
        self._stack.close()

    def _keep_records(self) -> None:
        state = self._live.state
        store, rules = open_completed(state.cluster), state.cluster.maintenance
        if store is None:
            return
        self.recorder = Recorder(state, store)
        now_s = time.time()
        self.recorder.start(now_s - rules.window_s, now_s + rules.window_s)
        self._stack.enter_context(self.recorder)
        self._live.watches.refresh()  # pods that completed before are seen, too
        if self._live.file is not None and any(t.models for t in state.cluster.node_type):
            maintaining = self._stack.enter_context(Maintaining(state.cluster, self._live.file))
            maintaining.start()

    def _move(self, is_leader: Callable[[], bool] | None, is_dry: bool) -> None:
        live = self._live
        settings = LeaseSettings(own_namespace(), _LEASE)
        if not is_dry:
            namespaces = live.state.cluster.migration.namespaces or [_EVERYWHERE]
            rights = _rights(namespaces, settings if is_leader is None else None)
            check_rights(live.api, rights, "moves.yaml")
        if is_leader is None and not is_dry:
            lease = self._stack.enter_context(Lease(live.api, settings, lambda _: None))
            lease.start()
            is_leader = lambda: lease.is_held  # noqa: E731 - a name for the type

        def tell(report: MoveReport) -> None:
            live.metrics.moves.labels(report.result).inc()
            self._tell(report)

        self.moving = self._stack.enter_context(
            Moving(
                live.api,
                live.state,
                lambda: live.watches.are_current,
                is_leader or (lambda: True),
                is_dry=is_dry,
                tell=tell,
            )
        )
        self.moving.start()
