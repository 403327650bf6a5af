"""Replanning: drops and sprints are chosen again when jobs come or run otherwise than expected."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from foretell.adapters.dispatcher.events import Event
from foretell.closeable import Closeable
from foretell.decide.queueing.drift import Drift
from foretell.decide.queueing.queue_file import Queue
from foretell.decide.queueing.times import class_time
from foretell.errors import ForetellError
from foretell.wording import number

#: A plan stays for at least so long.
EVERY_S = 600.0
_LEAST_S = 1e-6


@dataclass(frozen=True)
class Treatment:
    """What is done with jobs of a class: the share to drop, and after how long they sprint."""

    drop: float
    sprint_after_s: float | None


@dataclass(frozen=True)
class _Seen:
    """A job that arrived, or that ran to its end."""

    level: int
    arrived_s: float | None = None
    took_s: float = 0.0
    drop: float = 0.0


class Replanner(Closeable):
    """Follows arrivals and times of jobs in a thread of its own, if the class file asks for it.

    Parameters
    ----------
    tell
        Takes what has changed and what is done about it.
    """

    def __init__(
        self,
        queue: Queue,
        *,
        tell: Callable[[str], None],
        every_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue, self._tell, self._clock = queue, tell, clock
        self._every_s = EVERY_S if every_s is None else every_s
        self.treatments = [Treatment(c.drop, c.sprint_after_s) for c in queue.classes]
        self._gaps = [Drift(scv=1.0) for _ in queue.classes]
        self._times: list[Drift | None] = [None for _ in queue.classes]
        self._last_s: dict[int, float] = {}
        self._expected: dict[tuple[int, float], float] = {}
        self._is_due, self._planned_s = False, clock()
        self._inbox: SimpleQueue[_Seen | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="replanning", daemon=True)
        if queue.run.replan:
            self._thread.start()

    def observe(self, event: Event) -> None:
        """Take an event of the dispatcher; jobs that sprinted say nothing of the usual time."""
        job = event.job
        if job is None or not self._queue.run.replan:
            return
        if event.kind == "accepted":
            self._inbox.put(_Seen(job.level, arrived_s=job.arrived_at))
        elif event.kind == "done" and not job.sprint_s:
            self._inbox.put(_Seen(job.level, took_s=job.busy_s, drop=job.drop))

    def close(self) -> None:
        """End the thread; a choice under way is left to itself."""
        self._inbox.put(None)

    def _run(self) -> None:
        while True:
            left_s = self._planned_s + self._every_s - self._clock()
            try:
                seen = self._inbox.get(timeout=max(0.0, left_s) if self._is_due else None)
            except Empty:
                self._choose()
                continue
            if seen is None:
                return
            try:
                self._take(seen)
            except ForetellError as error:  # such as a model that cannot be read any more
                self._tell(f"nothing is planned again: {error}")
                return

    def _take(self, seen: _Seen) -> None:
        name = self._queue.classes[seen.level].name
        if seen.arrived_s is not None:
            change, words = self._arrived(seen.level, seen.arrived_s), "come {} times as often"
        else:
            change, words = self._took(seen), "take {} times as long"
        if change is not None:
            self._is_due = True
            self._tell(f"{name}: jobs {words.format(number(change, 3))} as the class file says")

    def _arrived(self, level: int, at_s: float) -> float | None:
        before_s, self._last_s[level] = self._last_s.get(level), at_s
        if before_s is None:
            return None
        gap_s = max(at_s - before_s, _LEAST_S)
        found = self._gaps[level].add(gap_s * self._queue.classes[level].rate_per_s)
        return None if found is None else 1 / found

    def _took(self, seen: _Seen) -> float | None:
        key = (seen.level, seen.drop)
        if key not in self._expected:
            from foretell.queue.services import known_times

            job = self._queue.classes[seen.level]
            known = known_times(self._queue).by_class
            time_s = class_time(self._queue, job, known, seen.drop if job.has_tasks else None)
            self._expected[key] = time_s.mean
            if self._times[seen.level] is None:
                self._times[seen.level] = Drift(time_s.moments[1] / time_s.mean**2 - 1)
        drift = self._times[seen.level]
        assert drift is not None
        return drift.add(max(seen.took_s, _LEAST_S) / self._expected[key])

    def _choose(self) -> None:
        """Choose for the queue as it is now; if no plan keeps the limits, the old one stays."""
        from foretell.queue.choice_text import headline
        from foretell.queue.choose import Changed, choose_drops

        self._is_due, self._planned_s = False, self._clock()
        changes = {
            c.name: Changed(1 / gap.factor, 1.0 if taken is None else taken.factor)
            for c, gap, taken in zip(self._queue.classes, self._gaps, self._times, strict=True)
        }
        try:
            found = choose_drops(self._queue, changes=changes)
        except ForetellError as error:
            self._tell(f"no other plan: {error}")
            return
        told = headline(found)
        if found.chosen is None:
            self._tell(f"the plan stays: {told}")
            return
        self.treatments = [
            Treatment(o.drop, o.sprint_after_s if math.isfinite(o.sprint_after_s) else None)
            for o in found.chosen.options
        ]
        self._tell(f"planned again: {told}")
