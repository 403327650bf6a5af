"""Models loaded again when their files change; if one cannot be used, the old ones stay."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from foretell.adapters.kubernetes.watching import LOG
from foretell.cluster.models import reload_models
from foretell.decide.placement.cluster import Cluster
from foretell.decide.placement.estimates import Estimates

#: A file as it was: when it changed, its size, and which file it is.
Stamp = tuple[int, int, int]
_EVERY_S = 5.0


class ModelFiles:
    """Watches the files of a cluster's models.

    Attributes
    ----------
    changed_s
        When the newest file of each node type that is in use was written, by the wall clock.
    """

    def __init__(
        self,
        cluster: Cluster,
        estimates: Estimates,
        lock: threading.RLock,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._cluster, self._estimates, self._lock = cluster, estimates, lock
        self._on_failure = on_failure
        self._seen = self._stamps()
        self.changed_s: dict[str, float] = {}
        self._note(self._seen)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="models", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(_EVERY_S):
            try:
                self.check()
            except Exception:  # a mistake of ours must not end the watch
                LOG.exception("the models could not be looked at")

    def check(self) -> bool:
        """Load models again if a file has changed; return whether new ones are in use."""
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        self._seen = stamps  # what cannot be used is not tried again until it changes
        why_not = reload_models(self._cluster, self._estimates, self._lock)
        if why_not is not None:
            LOG.warning("new models are not used, and the old ones stay: %s", why_not)
            self._on_failure()
            return False
        self._note(stamps)
        LOG.warning("new models are in use")
        return True

    def _stamps(self) -> dict[str, dict[Path, Stamp]]:
        found: dict[str, dict[Path, Stamp]] = {}
        for table in self._cluster.node_type:
            paths = [self._cluster.folder / path for path in table.model_paths]
            found[table.name] = {file: stamp for p in paths for file, stamp in _files(p)}
        return found

    def _note(self, stamps: dict[str, dict[Path, Stamp]]) -> None:
        for name, files in stamps.items():
            if files:
                self.changed_s[name] = max(stamp[0] for stamp in files.values()) / 1e9


def _files(path: Path) -> list[tuple[Path, Stamp]]:
    """Return the files of a model, or of a directory of models."""
    files = sorted(path.rglob("*.foretell")) if path.is_dir() else [path]
    found = []
    for file in files:
        try:
            stat = file.stat()
        except OSError:  # it may be replaced just now
            found.append((file, (0, 0, 0)))
        else:
            found.append((file, (stat.st_mtime_ns, stat.st_size, stat.st_ino)))
    return found
