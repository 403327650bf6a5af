"""Watching objects of Kubernetes: list them, follow changes, and go on when a watch breaks."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from foretell.adapters.kubernetes.client import Api, ApiError, Object, Stream

LOG = logging.getLogger("foretell.kubernetes")
NODES, PODS, NAMESPACES = "/api/v1/nodes", "/api/v1/pods", "/api/v1/namespaces"
ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

_PAGE = 500
_WATCH_S = 300
_GONE = 410
_STOP_S = 2.0


class Handler(Protocol):
    """Takes what a watch sees."""

    def replace(self, items: Sequence[Object]) -> None:
        """Take all objects that there are now; those that are not among them are gone."""

    def change(self, kind: str, item: Object) -> None:
        """Take one object that was added, modified or deleted."""


class BackOff:
    """How long to wait after failures: from one second on, doubled up to ten, and not all at once.

    >>> wait = BackOff(first_s=1, most_s=10)
    >>> [round(wait.next_s() / (1 + wait.spread), 0) <= 10 for _ in range(6)]
    [True, True, True, True, True, True]
    """

    def __init__(self, first_s: float = 1.0, most_s: float = 10.0, spread: float = 0.2) -> None:
        self.first_s, self.most_s, self.spread = first_s, most_s, spread
        self._now_s = first_s

    def next_s(self) -> float:
        """Return how long to wait now; the next time it is longer."""
        found, self._now_s = self._now_s, min(2 * self._now_s, self.most_s)
        return found * (1 + random.uniform(0, self.spread))  # noqa: S311 - spreads clients, no secret

    def reset(self) -> None:
        """Begin at the first wait again."""
        self._now_s = self.first_s


class Watch:
    """Keeps a handler up to date with one kind of objects, in a thread of its own.

    After a broken connection the changes since then are asked for; if the server does not have them
    any more, all objects are listed again.

    Attributes
    ----------
    synced
        Set once all objects have been listed.
    """

    def __init__(self, api: Api, path: str, handler: Handler, back_off: BackOff | None = None):
        self.api, self.path, self.handler = api, path, handler
        self.synced = threading.Event()
        self._is_current = False
        self.n_lists = 0
        self._back_off = back_off or BackOff()
        self._stream: Stream | None = None
        self._lock = threading.Lock()
        self._n_wanted, self._n_done = 1, 0  # lists that were asked for, and those of them done
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch {path}", daemon=True)

    @property
    def is_current(self) -> bool:
        """Whether the connection stands, so that no change is missed."""
        return self._is_current and not self._must_list

    @property
    def _must_list(self) -> bool:
        return self._n_done < self._n_wanted

    def _want_list(self) -> None:
        with self._lock:
            self._n_wanted += 1

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._interrupt()

    def join(self, timeout_s: float) -> None:
        """Wait until the thread has ended, if it began."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def refresh(self) -> None:
        """List all objects again, as the server has them from now on; until then, not current."""
        self._want_list()
        self._interrupt()

    def _interrupt(self) -> None:
        self._is_current = False
        stream = self._stream
        if stream is not None:
            stream.end()

    def _run(self) -> None:
        version = ""
        while not self._stopping.is_set():
            try:
                if self._must_list:
                    self._is_current = False
                    n_wanted = self._n_wanted  # those that come from now on need another list
                    version = self._list()
                    self._n_done = n_wanted
                version = self._follow(version)
            except ApiError as error:
                if error.status is not None or not version:
                    self._want_list()
                if error.status != _GONE and not self._stopping.is_set():
                    LOG.warning("watch of %s: %s", self.path, error)
            except Exception:  # a mistake of ours in a handler must not end the watch
                self._want_list()
                LOG.exception("watch of %s failed, and starts again", self.path)
            else:
                continue
            self._is_current = False
            self._stopping.wait(self._back_off.next_s())

    def _list(self) -> str:
        items, version = list_all(self.api, self.path)
        self.handler.replace(items)
        self.n_lists += 1
        return version

    def _follow(self, version: str) -> str:
        """Take changes until the server ends the watch; return the version to go on from."""
        query: dict[str, str | int] = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": random.randint(_WATCH_S, 2 * _WATCH_S),  # noqa: S311 - no secret
        }
        start_s = time.monotonic()
        with self.api.stream(self.path, query, read_s=2.5 * _WATCH_S) as stream:
            self._stream = stream
            if not self._must_list and not self._stopping.is_set():
                self._is_current = True
                self.synced.set()
                version = self._follow_stream(stream, version)
        self._stream = None
        if time.monotonic() - start_s < 1 and not self._must_list:
            # A server that ends each watch at once is not asked over and over.
            self._is_current = False
            self._stopping.wait(self._back_off.next_s())
        return version

    def _follow_stream(self, stream: Stream, version: str) -> str:
        try:
            for event in stream:
                if self._must_list or self._stopping.is_set():
                    return version
                version = self._take(event, version)
                self._back_off.reset()
        except ApiError as error:
            self._is_current = False
            if error.status is not None:
                raise
            # The connection broke: what was taken so far holds, and the rest is asked for.
            if not self._must_list and not self._stopping.is_set():
                LOG.info("watch of %s broke: %s", self.path, error)
        return version

    def _take(self, event: Object, version: str) -> str:
        kind, item = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            raise ApiError(str(item.get("message") or item), item.get("code") or 500)
        found = (item.get("metadata") or {}).get("resourceVersion")
        if kind in (ADDED, MODIFIED, DELETED):
            self.handler.change(kind, item)
        return version if found is None else str(found)


def list_all(api: Api, path: str) -> tuple[list[Object], str]:
    """Return all objects and the version of the list, page by page."""
    items: list[Object] = []
    query: dict[str, str | int] = {"limit": _PAGE}
    while True:
        page = api.get(path, query)
        items += page.get("items") or ()
        meta = page.get("metadata") or {}
        if not meta.get("continue"):
            return items, str(meta.get("resourceVersion") or "")
        query["continue"] = meta["continue"]


class Watches:
    """Several watches that are started, waited for and stopped together."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        self.watches = list(watches)

    def start(self) -> None:
        """Start all."""
        for watch in self.watches:
            watch.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait until all objects have been listed; return whether that happened in time."""
        end_s = time.monotonic() + timeout_s
        return all(w.synced.wait(max(0.0, end_s - time.monotonic())) for w in self.watches)

    @property
    def are_current(self) -> bool:
        """Whether all connections stand."""
        return all(watch.is_current for watch in self.watches)

    def refresh(self) -> None:
        """List everything again; until that is done, they are not current."""
        for watch in self.watches:
            watch.refresh()

    def stop(self) -> None:
        """Stop all; return once their connections are closed, or soon after."""
        for watch in self.watches:
            watch.stop()
        end_s = time.monotonic() + _STOP_S
        for watch in self.watches:
            watch.join(max(0.0, end_s - time.monotonic()))
