"""Maintenance of models while a live scheduler runs: in a process of its own, now and then."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from foretell.adapters.kubernetes.watching import LOG
from foretell.closeable import Closeable
from foretell.cluster.maintenance.maintain import last_round_s
from foretell.decide.placement.cluster import Cluster
from foretell.errors import ForetellError

_CHECK_S = 60.0


class Maintaining(Closeable):
    """Starts `foretell cluster maintain` whenever it is due.

    Fits take long, so they get a process of their own. The scheduler loads new models when it sees
    their files.
    """

    def __init__(self, cluster: Cluster, file: Path) -> None:
        self._cluster, self._file = cluster, file
        self._began_s = time.time()
        self._process: subprocess.Popen[str] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)

    def start(self) -> None:
        """Begin to look whether it is due."""
        self._thread.start()

    def close(self) -> None:
        """End; a round that is under way is continued by the next one."""
        self._stopping.set()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    def is_due(self, now_s: float) -> bool:
        """Whether the last round, or the start of this process, was long enough ago."""
        last_s = last_round_s(self._cluster)
        since_s = now_s - (self._began_s if last_s is None else last_s)
        return since_s >= 3600 * self._cluster.maintenance.every_h

    def maintain(self) -> int:
        """Run one round; return the exit code of its process."""
        command = [sys.executable, "-m", "foretell", "cluster", "maintain", str(self._file), "-j",
                   "1"]  # fmt: skip
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        told, _ = self._process.communicate()
        for line in told.splitlines():
            LOG.warning("maintenance: %s", line)
        return self._process.returncode

    def _run(self) -> None:
        while not self._stopping.wait(_CHECK_S):
            try:
                if self.is_due(time.time()):
                    self.maintain()
            except ForetellError as error:
                LOG.warning("maintenance: %s", error)
            except Exception:  # a mistake of ours must not end it for good
                LOG.exception("maintenance failed")
