"""Queues whose jobs are small commands, and waiting for what they do."""

import sys
import time

import pytest

from foretell.adapters.dispatcher.dispatcher import Dispatcher
from foretell.adapters.dispatcher.processes import QUEUE_MARK

#: Nothing here takes so long; it only keeps a failure from hanging.
PATIENCE_S = 60


def await_that(condition, what="it"):
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} does not come about"
        time.sleep(0.002)


def queue_of(*names, **values):
    """Describe a queue with classes of these names, the lowest priority first."""
    service = {"mean_s": 1.0, "scv": 1.0}
    classes = [{"name": n, "rate_per_s": 0.1, "service": service} for n in names]
    return {"class": classes, **values}


class Queue:
    """A dispatcher in a folder of its own, with all that it tells."""

    def __init__(self, folder):
        self.folder = folder
        self.events = []
        self.opened = []

    def open(self, *names, spool=None, **values):
        described = queue_of(*(names or ("low", "high")), **values)
        self.dispatcher = Dispatcher(
            described, state=self.folder / "state", spool=spool, tell=self.events.append
        )
        self.opened.append(self.dispatcher)
        return self.dispatcher

    def submit(self, name, script="true", *, of="low"):
        """Submit a shell script, which runs in the folder of the test."""
        run = ["sh", "-c", f"cd '{self.folder}' && {script}"]
        return self.dispatcher.submit({"class": of, "run": run, "name": name})

    def told(self, *kinds):
        """Return kinds of events with the names of their jobs."""
        return [(e.kind, e.job.name) for e in self.events if e.job and e.kind in kinds]

    def close(self):
        for dispatcher in self.opened:
            dispatcher.close()


@pytest.fixture
def queue(tmp_path, monkeypatch):
    monkeypatch.delenv(QUEUE_MARK, raising=False)
    found = Queue(tmp_path)
    yield found
    found.close()


@pytest.fixture
def python():
    """The start of a command that runs Python code."""
    return [sys.executable, "-c"]
