"""The sprinter: begins a sprint some time after a dispatch, and ends it before the budget does."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from foretell.adapters.dispatcher.engines import Running
from foretell.adapters.dispatcher.sprints import SPRINTS
from foretell.adapters.dispatcher.sprints._base import Sprint, SprintError
from foretell.adapters.dispatcher.sprints.bucket import Bucket
from foretell.closeable import Closeable
from foretell.errors import ForetellError
from foretell.files.directory import write_whole

BASE = "sprint-base.json"
_LEAST_S = 0.01  # a shorter sprint is not worth the switching


class Sprinter(Closeable):
    """Sprints of one engine; used by one thread.

    Attributes
    ----------
    is_able
        Whether there are sprints at all.
    deadline
        The moment by the monotonic clock at which ``tick`` has something to do; None for never.
    """

    def __init__(
        self,
        sprint: Sprint,
        bucket: Bucket,
        folder: Path,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._sprint, self.bucket = sprint, bucket
        self._base, self._tell = folder / BASE, tell
        self._running: Running | None = None
        self._began: float | None = None
        self._sprint_s = 0.0
        self.deadline: float | None = None
        refusal = sprint.refusal()
        self.is_able = refusal is None
        if refusal is None:
            self._open(sprint)
        elif type(sprint) is not SPRINTS.get("none"):
            tell(f"no sprints: {refusal}")

    def _open(self, sprint: Sprint) -> None:
        name = next(n for n in SPRINTS.names() if SPRINTS.get(n) is type(sprint))
        found = {"mechanism": name, "base": sprint.base()}
        write_whole(self._base, json.dumps(found).encode())
        try:
            sprint.open()
        except SprintError as error:
            self._give_up(error)

    @property
    def is_sprinting(self) -> bool:
        """Whether a sprint is under way."""
        return self._began is not None

    def begin(self, running: Running, after_s: float | None) -> None:
        """Take note of an attempt that started; it sprints after a while, or never."""
        self._running, self._sprint_s = running, 0.0
        if not self.is_able:
            return
        try:
            self._hold(running)
        except (SprintError, OSError) as error:
            self._give_up(error)
            return
        if after_s is not None:
            self.deadline = time.monotonic() + after_s

    def _hold(self, running: Running) -> None:
        """Hold all processes, also those that were started meanwhile."""
        seen: set[int] = set()
        while self._sprint.is_holding and (new := sorted(set(running.pids) - seen)):
            self._sprint.hold(new)
            seen.update(new)

    def tick(self) -> None:
        """Begin or end the sprint that is due."""
        if self.deadline is None or time.monotonic() < self.deadline:
            return
        self.deadline = None
        if self.is_sprinting:
            self._stop()
        else:
            self._start()

    def finish(self) -> float:
        """End the sprint of an attempt that is over; return how long it sprinted."""
        self.deadline = None
        self._stop()
        self._running = None
        return self._sprint_s

    def _start(self) -> None:
        left_s = self.bucket.left_s
        if self._running is None or left_s < _LEAST_S:
            return
        self.bucket.start()  # before, so that the switching itself counts as sprinting
        self._began = time.monotonic()
        try:
            self._sprint.start(self._running.pids)
        except SprintError as error:
            self._give_up(error)
            return
        if left_s < float("inf"):
            self.deadline = self._began + left_s

    def _stop(self) -> None:
        if self._began is None or self._running is None:
            return
        try:
            self._sprint.stop(self._running.pids)
        except SprintError as error:
            self._give_up(error)
        self._note_end()

    def _note_end(self) -> None:
        if self._began is not None:
            self._sprint_s += time.monotonic() - self._began
            self._began = None
            self.bucket.stop()

    def _give_up(self, error: Exception) -> None:
        """Say once that sprints do not work, and go on without them."""
        self._tell(f"no more sprints: {error}")
        self.is_able, self.deadline = False, None
        with contextlib.suppress(ForetellError):
            self._sprint.close()
        self._note_end()

    def close(self) -> None:
        """End a sprint, and put back what was there before the first."""
        self.finish()
        if self._base.exists():
            _restore(self._base, self._tell)


def restore_base(folder: Path, tell: Callable[[str], None]) -> None:
    """Put back what a dispatcher that was killed had changed."""
    if (folder / BASE).exists():
        _restore(folder / BASE, tell)


def _restore(file: Path, tell: Callable[[str], None]) -> None:
    try:
        found: dict[str, Any] = json.loads(file.read_bytes())
        SPRINTS.get(found["mechanism"]).restore(found["base"])
    except (ForetellError, OSError, ValueError, KeyError) as error:
        tell(f"what was set before sprints could not be put back ({error}); see {file}")
        return
    file.unlink(missing_ok=True)
