"""A lease of Kubernetes: of several replicas, only the one that holds it binds pods."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from foretell.adapters.kubernetes.client import Api, ApiError, Object
from foretell.adapters.kubernetes.watching import LOG
from foretell.closeable import Closeable

_NOT_FOUND, _CONFLICT = 404, 409


@dataclass(frozen=True)
class LeaseSettings:
    """Where a lease is, and how long it lasts unless it is renewed.

    Attributes
    ----------
    duration_s
        How long others wait for a holder that is silent. The holder itself stops after two thirds
        of it, so that its last requests end before another begins.
    """

    namespace: str
    name: str
    duration_s: int = 15

    @property
    def safe_s(self) -> float:
        """How long a holder that cannot renew may go on."""
        return self.duration_s * 2 / 3

    @property
    def every_s(self) -> float:
        """How often it is renewed or asked for."""
        return min(self.duration_s / 7.5, 2.0)


class Lease(Closeable):
    """Asks for a lease until it has it, and renews it, in a thread of its own.

    Only the monotonic clock of this process decides: a lease has run out when it has not changed
    for its duration since it was first seen like this.

    Attributes
    ----------
    identity
        The name of this replica in the lease.
    """

    def __init__(
        self, api: Api, settings: LeaseSettings, on_change: Callable[[bool], None]
    ) -> None:
        self.api, self.settings, self._on_change = api, settings, on_change
        self.identity = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
        self.holder = ""
        self._until_s = -1.0
        self._seen = ""
        self._seen_s = 0.0
        self._was_held = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def is_held(self) -> bool:
        """Whether this replica may bind pods at this moment."""
        return time.monotonic() < self._until_s

    def start(self) -> None:
        """Begin to ask for it."""
        self._thread.start()

    def close(self) -> None:
        """Stop renewing, and give it back so that another replica need not wait."""
        self._stopping.set()
        self._thread.join(2 * self.settings.duration_s)
        if self.is_held:
            self._until_s = -1.0
            try:
                found = self.api.get(self._path)
                if found["spec"].get("holderIdentity") == self.identity:
                    found["spec"].update(holderIdentity="", leaseDurationSeconds=1)
                    self.api.put(self._path, found)
            except Exception as error:  # then the others wait until it has run out
                LOG.warning("the lease was not given back: %s", error)

    @property
    def _path(self) -> str:
        return f"{self._folder}/{self.settings.name}"

    @property
    def _folder(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.settings.namespace}/leases"

    def _run(self) -> None:
        while not self._stopping.is_set():
            start_s = time.monotonic()
            try:
                self._until_s = start_s + self.settings.safe_s if self._try() else -1.0
            except ApiError as error:
                LOG.warning("lease %s: %s", self.settings.name, error)
            except Exception:  # a mistake of ours must not end the thread; the lease runs out
                LOG.exception("lease %s could not be asked for", self.settings.name)
            self._tell()
            self._stopping.wait(self.settings.every_s)

    def _tell(self) -> None:
        is_held = self.is_held
        if is_held == self._was_held:
            return
        try:
            self._on_change(is_held)
        except Exception:  # it is told again
            LOG.exception("lease %s: its change could not be told", self.settings.name)
        else:
            self._was_held = is_held

    def _try(self) -> bool:
        """Take or renew the lease; return whether this replica has it."""
        try:
            found = self.api.request("GET", self._path, timeout_s=self.settings.safe_s / 2)
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
            return self._write(None)
        spec = found.get("spec") or {}
        self.holder = spec.get("holderIdentity") or ""
        version = str(found["metadata"].get("resourceVersion"))
        if version != self._seen:
            self._seen, self._seen_s = version, time.monotonic()
        lasts_s = spec.get("leaseDurationSeconds") or self.settings.duration_s
        is_over = time.monotonic() - self._seen_s >= lasts_s
        if self.holder not in ("", self.identity) and not is_over:
            return False
        return self._write(found)

    def _write(self, old: Object | None) -> bool:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = dict((old or {}).get("spec") or {})
        if spec.get("holderIdentity") != self.identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + (old is not None)
        spec.update(holderIdentity=self.identity, renewTime=now,
                    leaseDurationSeconds=self.settings.duration_s)  # fmt: skip
        try:
            if old is None:
                meta = {"name": self.settings.name, "namespace": self.settings.namespace}
                self.api.post(self._folder, {"metadata": meta, "spec": spec},
                              timeout_s=self.settings.safe_s / 2)  # fmt: skip
            else:
                self.api.put(self._path, {**old, "spec": spec}, timeout_s=self.settings.safe_s / 2)
        except ApiError as error:
            if error.status == _CONFLICT:  # another replica was faster
                return False
            raise
        self.holder = self.identity
        return True
