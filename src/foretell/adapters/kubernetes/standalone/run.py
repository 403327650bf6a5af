"""Running a scheduler of its own: watches, health and counts, until a signal stops it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass

from foretell.adapters.http.server.run import listen, run_server, url_of
from foretell.adapters.kubernetes.client import Right, check_rights, own_namespace
from foretell.adapters.kubernetes.lease import LeaseSettings
from foretell.adapters.kubernetes.live import Live
from foretell.adapters.kubernetes.moves.report import MoveReport
from foretell.adapters.kubernetes.service import ServiceSettings, make_service
from foretell.adapters.kubernetes.standalone.scheduler import SCHEDULER_NAME, Decision, Standalone
from foretell.adapters.kubernetes.upkeep.upkeep import Upkeep
from foretell.errors import Option, UsageError

_DNS_NAME = 63  # the longest name of a scheduler, which is also the name of its lease


@dataclass(frozen=True)
class StandaloneSettings:
    """How a scheduler of its own works.

    Attributes
    ----------
    name
        The schedulerName of its pods, and the name of its lease.
    namespace
        Where the lease is; None for the namespace of the pod that this runs in.
    lease_s
        How long the other replicas wait for one that is silent.
    is_dry
        Whether decisions are only told: nothing is bound, and nothing is written.
    """

    name: str = SCHEDULER_NAME
    namespace: str | None = None
    lease_s: int = 15
    is_dry: bool = False

    def __post_init__(self) -> None:
        is_name = self.name.replace("-", "").isalnum() and self.name == self.name.lower()
        if not is_name or self.name != self.name.strip("-") or len(self.name) > _DNS_NAME:
            raise UsageError(
                "must be lowercase letters, digits and dashes, such as foretell",
                option=Option("scheduler_name", self.name),
            )
        if self.lease_s < 1:
            raise UsageError(
                "must be at least 1", option=Option("lease_seconds", str(self.lease_s))
            )

    @property
    def lease(self) -> LeaseSettings | None:
        """The lease that is asked for; None if nothing is bound."""
        if self.is_dry:
            return None
        return LeaseSettings(self.namespace or own_namespace(), self.name, self.lease_s)


def _rights(lease: LeaseSettings) -> list[Right]:
    """Return what binding pods takes, besides reading what there is."""
    group, at = "coordination.k8s.io", lease.namespace
    return [
        Right("create", "pods/binding"),
        Right("get", "pods"),
        Right("patch", "pods/status"),
        Right("create", "events"),
        Right("create", "leases", group, at),
        *(Right(verb, "leases", group, at, lease.name) for verb in ("get", "update")),
    ]


def run_standalone(
    live: Live,
    service: ServiceSettings,
    settings: StandaloneSettings,
    *,
    tell: Callable[[Decision | MoveReport], None] = lambda _: None,
    on_ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Place pods until a signal stops it; ``on_ready`` gets the address of health and counts."""
    lease = settings.lease
    if lease is not None:
        check_rights(live.api, _rights(lease))
    opened = listen(service.host, service.port, refusal=None)  # health and counts are no secrets
    url = url_of(opened, service.tls)
    with opened, live:
        live.start()
        scheduler = Standalone(
            live.api, live.state, live.watches, name=settings.name, lease=lease, tell=tell
        )
        scheduler.metrics = live.metrics
        failures: list[BaseException] = []

        def schedule() -> None:
            try:
                scheduler.run()
            except BaseException as error:  # the server must not go on without it
                failures.append(error)
                os.kill(os.getpid(), signal.SIGTERM)

        thread = threading.Thread(target=schedule, name="scheduler")

        def start() -> None:
            on_ready(url)
            thread.start()

        app = make_service(service, live.metrics, lambda: live.watches.are_current)
        upkeep = Upkeep(
            live, is_leader=lambda: scheduler.is_leader, is_dry=settings.is_dry, tell=tell
        )
        try:
            with upkeep:
                run_server(app, service.limits, opened, start, tls=service.tls)
        finally:
            scheduler.stop()
            if thread.ident is not None:
                thread.join()
        if failures:
            raise failures[0]
