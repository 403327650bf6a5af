"""Pods that arrive are predicted in the background, many at once, before their turn comes."""

from __future__ import annotations

import threading

from foretell.adapters.kubernetes.state import State
from foretell.adapters.kubernetes.watching import LOG

_MOST_AT_ONCE = 200


class Foresight:
    """Predicts the tasks of pods that wait for a node.

    Many tasks at once take little longer than one. The lock of the state is not held meanwhile.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._is_stopping = False
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
            tasks = (state.task(record)[0] for record in state.unbound.values())
            new = {task.key: task for task in tasks if not estimates.knows(task)}
        some = list(new.values())[:_MOST_AT_ONCE]
        if some:
            found = estimates.predict_new(some)
            with state.lock:
                estimates.keep(found)
        return len(some)
