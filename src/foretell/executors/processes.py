"""The executor that runs tasks on N local processes, one core each."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from foretell.executors._base import ONE_CORE, Done, Executor, Work, WorkerDied
from foretell.executors._retries import RetryQueue, Ticket
from foretell.executors.cores import limit_threads
from foretell.machines import Needs

_PARENT_POLL_S = 0.5
_ENDING_S = 5.0


@dataclass(eq=False)
class _Worker:
    """A process, our end of the pipe to it, and the task it has."""

    process: BaseProcess
    pipe: Connection
    ticket: Ticket | None = None


class ProcessExecutor(Executor):
    """Forks workers that inherit the state, so that no task carries data.

    Where forking is not safe (macOS, Windows) the state is sent once to each worker. Each worker
    has a pipe of its own and one task at a time, so a worker that dies takes nothing else along.
    Its task runs once more, in case the worker was killed from outside.
    """

    def __init__(self, state: Any, n_workers: int) -> None:
        super().__init__(state, n_workers)
        self._queue = RetryQueue(most_losses=1)
        self._ended: deque[Done] = deque()
        self._workers: list[_Worker] = []
        self._is_ending = False
        try:
            for _ in range(n_workers):
                self._workers.append(_start(state))
        except BaseException:
            self.close()
            raise

    @property
    def n_pending(self) -> int:
        """How many tasks run, wait for a worker or wait to be collected."""
        n_running = sum(worker.ticket is not None for worker in self._workers)
        return len(self._queue) + n_running + len(self._ended)

    def submit(self, work: Work, task: Any, needs: Needs = ONE_CORE) -> None:
        """Send one task to a worker that is free, or let it wait for one."""
        self._queue.append(Ticket(work, task, needs))
        self._send()

    def wait(self) -> Done:
        """Wait for the next task to end."""
        while not self._ended:
            self._send()
            busy = {worker.pipe: worker for worker in self._workers if worker.ticket is not None}
            # One pipe needs no selector, which takes longer to make than a small task.
            for pipe in wait(list(busy)) if len(busy) > 1 else list(busy):
                self._receive(busy[pipe])  # type: ignore[index]
            self._send()  # before the results are looked at, so that no worker is idle meanwhile
        return self._ended.popleft()

    def interrupt(self) -> None:
        """Kill the workers from another thread: whoever waits gets a ``WorkerDied``."""
        self._is_ending = True
        for worker in list(self._workers):
            worker.process.kill()

    def close(self) -> None:
        """Kill the workers: results not collected are not wanted."""
        self._queue.clear()
        self._ended.clear()
        for worker in self._workers:
            _end(worker)
        self._workers.clear()

    def _send(self) -> None:
        for place, worker in enumerate(self._workers):
            if worker.ticket is not None or not self._queue:
                continue
            ticket = self._queue.popleft()
            try:
                worker.pipe.send((ticket.work, ticket.task))
            except OSError:  # it died while it had nothing to do
                if self._is_ending:
                    self._ended.append(Done(ticket.task, WorkerDied("it was ended")))
                    continue
                self._queue.appendleft(ticket)
                self._replace(place)
                return self._send()
            except Exception as error:  # a task that cannot be sent
                self._ended.append(Done(ticket.task, error))
            else:
                worker.ticket = ticket
        return None

    def _receive(self, worker: _Worker) -> None:
        ticket = worker.ticket
        assert ticket is not None
        worker.ticket = None
        try:
            result = worker.pipe.recv()
        except (EOFError, OSError):
            if self._is_ending:
                self._ended.append(Done(ticket.task, WorkerDied("it was ended")))
                return
            if (done := self._queue.lost(ticket, _death(worker.process))) is not None:
                self._ended.append(done)
            self._replace(self._workers.index(worker))
        except Exception as error:  # what was sent cannot be read
            self._ended.append(Done(ticket.task, error, n_lost=ticket.n_lost))
        else:
            self._ended.append(Done(ticket.task, result, n_lost=ticket.n_lost))

    def _replace(self, place: int) -> None:
        _end(self._workers[place])
        self._workers[place] = _start(self.state)


def _start(state: Any) -> _Worker:
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    own, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, state, os.getpid()), daemon=True)
    with _uninterrupted(), warnings.catch_warnings():
        # Python 3.12 warns of forking beside threads; ours wait, and hold no lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    theirs.close()
    return _Worker(process, own)


def _death(process: BaseProcess) -> str:
    """Say how a worker ended that hung up."""
    process.join(_ENDING_S)
    code = process.exitcode
    if code is None:
        return "the worker process hung up, and did not end"
    if code >= 0:
        return f"the worker process ended with exit code {code}"
    return f"the worker process was killed by {signal.Signals(-code).name}" + (
        "; it may have run out of memory" if code == -signal.SIGKILL else ""
    )


def _end(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.join()
    worker.process.close()
    worker.pipe.close()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait: Python drops it during a fork, and a new worker must not see it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Connection, state: Any, parent: int) -> None:
    """Run tasks until the parent hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    limit_threads()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    while True:
        try:
            work, task = pipe.recv()
        except EOFError:
            return
        except Exception as error:  # a task that can be sent and not be read
            pipe.send(error)
            continue
        try:
            result = work(state, task)
        except Exception as error:
            result = error
        try:
            pipe.send(result)
        except OSError:
            return
        except Exception as error:  # a result that cannot be sent
            pipe.send(error)


def _end_with(parent: int) -> None:
    """End this worker when its parent is gone, even by kill -9."""
    while os.getppid() == parent:
        time.sleep(_PARENT_POLL_S)
    os._exit(1)
