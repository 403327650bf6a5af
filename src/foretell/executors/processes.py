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
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from foretell.executors._base import Executor, Work, WorkerDied

_PARENT_POLL_S = 0.5

_state: Any = None  # each worker's copy of the shared state


class ProcessExecutor(Executor):
    """Forks workers that inherit the state, so that no task carries data.

    Where forking is not safe (macOS, Windows) the state is sent once to each worker. When a worker
    dies, every task in flight runs again alone, so that only the culprit fails.
    """

    def __init__(self, state: Any, n_workers: int) -> None:
        super().__init__(state, n_workers)
        self._tasks: dict[Future[Any], tuple[Work, Any]] = {}
        self._finished: deque[tuple[Any, Any]] = deque()
        self._pool = self._open_pool(n_workers)

    @property
    def n_pending(self) -> int:
        """How many tasks run, wait in the pool or wait to be collected."""
        return len(self._tasks) + len(self._finished)

    def submit(self, work: Work, task: Any) -> None:
        """Send one task to the pool."""
        try:
            future = self._pool.submit(_run, work, task)
        except BrokenProcessPool:
            self._recover([(work, task)])
        else:
            self._tasks[future] = (work, task)

    def collect(self) -> tuple[Any, Any]:
        """Wait for the next task to end."""
        while not self._finished:
            done, _ = wait(self._tasks, return_when=FIRST_COMPLETED)
            for future in done:
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    self._recover([])
                    break
                _, task = self._tasks.pop(future)
                self._finished.append((task, error or future.result()))
        return self._finished.popleft()

    def close(self) -> None:
        """Kill the workers: results not collected are not wanted."""
        _shut(self._pool)

    def _recover(self, refused: list[tuple[Work, Any]]) -> None:
        suspects = [*self._tasks.values(), *refused]
        self._tasks.clear()
        _shut(self._pool)
        for work, task in suspects:
            self._finished.append((task, self._run_alone(work, task)))
        self._pool = self._open_pool(self.n_workers)

    def _run_alone(self, work: Work, task: Any) -> Any:
        pool = self._open_pool(1)
        try:
            return pool.submit(_run, work, task).result()
        except BrokenProcessPool:
            return WorkerDied("the worker process died; it may have run out of memory")
        except Exception as error:
            return error
        finally:
            _shut(pool)

    def _open_pool(self, n_workers: int) -> ProcessPoolExecutor:
        method = "fork" if sys.platform == "linux" else "spawn"
        pool = ProcessPoolExecutor(
            n_workers,
            mp_context=multiprocessing.get_context(method),
            initializer=_start_worker,
            initargs=(self.state, os.getpid()),
        )
        with warnings.catch_warnings():
            # Python 3.12 warns of forking beside threads; ours wait, and hold no lock.
            warnings.simplefilter("ignore", DeprecationWarning)
            pool.submit(int)  # forks all workers now
        return pool


def _start_worker(state: Any, parent: int) -> None:
    from threadpoolctl import threadpool_limits

    global _state
    _state = state
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threadpool_limits(1)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this worker when its parent is gone, even by kill -9."""
    while os.getppid() == parent:
        time.sleep(_PARENT_POLL_S)
    os._exit(1)


def _run(work: Work, task: Any) -> Any:
    return work(_state, task)


def _shut(pool: ProcessPoolExecutor) -> None:
    workers = list((pool._processes or {}).values())
    for worker in workers:
        worker.kill()
    pool.shutdown(wait=True, cancel_futures=True)
