"""Pods that arrive are predicted in the background, many at once, before their turn comes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence

from foretell.adapters.kubernetes.state import State
from foretell.adapters.kubernetes.watching import LOG
from foretell.decide.placement.estimates import Estimates, Predicted
from foretell.decide.placement.tasks import Task

_MOST_AT_ONCE = 200


class Foresight:
    """Predicts the tasks of pods that wait for a node.

    Many tasks at once take little longer than one. The lock of the state is not held meanwhile.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._is_stopping = False
        self._failed: set[tuple[object, ...]] = set()  # keys of tasks that cannot be predicted
        self._thread = threading.Thread(target=self._run, name="foresight", daemon=True)

    def start(self) -> None:
        """Begin to predict."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        with self._state.changed:
            self._is_stopping = True
            self._state.changed.notify_all()

    def _run(self) -> None:
        state, n_seen = self._state, -1
        while True:
            with state.changed:
                while not self._is_stopping and state.n_arrived == n_seen:
                    state.changed.wait()
                n_seen = state.n_arrived
            if self._is_stopping:
                return
            try:
                while self.predict():
                    pass
            except Exception:  # then pods are predicted when their turn comes
                LOG.exception("waiting pods could not be predicted")

    def predict(self) -> int:
        """Predict some of the tasks that wait; return how many."""
        state = self._state
        with state.lock:
            estimates = state.chooser.estimates
            new = {}
            for record in state.unbound.values():
                with contextlib.suppress(Exception):  # told when its turn comes
                    task = state.task(record)[0]
                    if not estimates.knows(task):
                        new[task.key] = task
        self._failed &= new.keys()  # those that still wait
        some = [task for key, task in new.items() if key not in self._failed][:_MOST_AT_ONCE]
        if some:
            found = self._predicted(estimates, some)
            with state.lock:
                for predicted in found:
                    estimates.keep(predicted)
        return len(some)

    def _predicted(self, estimates: Estimates, tasks: Sequence[Task]) -> list[Predicted]:
        """Predict tasks together; if that fails, one by one, without those that fail."""
        try:
            return [estimates.predict_new(tasks)]
        except Exception:
            if len(tasks) == 1:
                LOG.exception("%s could not be predicted", tasks[0].name)
                self._failed.add(tasks[0].key)
                return []
            return [p for task in tasks for p in self._predicted(estimates, [task])]
