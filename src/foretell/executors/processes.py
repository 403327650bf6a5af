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
from collections.abc import Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection
from typing import Any

from foretell.executors._base import Executor, Work, WorkerDied
from foretell.executors.threads import limit_threads

_PARENT_POLL_S = 0.5
_WORKERS_POLL_S = 1.0

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
            ended = {future: future.exception() for future in _wait(self._pool, self._tasks)}
            for future, error in ended.items():
                if not isinstance(error, BrokenProcessPool):
                    _, task = self._tasks.pop(future)
                    self._finished.append((task, error or future.result()))
            if any(future in self._tasks for future in ended):
                self._recover([])
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
            future = pool.submit(_run, work, task)
            _wait(pool, [future])
            return future.result()
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
        try:
            with _uninterrupted(), warnings.catch_warnings():
                # Python 3.12 warns of forking beside threads; ours wait, and hold no lock.
                warnings.simplefilter("ignore", DeprecationWarning)
                pool.submit(int)  # forks all workers now
        except BaseException:
            _shut(pool)
            raise
        return pool


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait: Python drops it in the midst of a fork, and a new worker must not see it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(state: Any, parent: int) -> None:
    global _state
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _state = state
    limit_threads()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this worker when its parent is gone, even by kill -9."""
    while os.getppid() == parent:
        time.sleep(_PARENT_POLL_S)
    os._exit(1)


def _run(work: Work, task: Any) -> Any:
    return work(_state, task)


def _wait(pool: ProcessPoolExecutor, futures: Collection[Future[Any]]) -> set[Future[Any]]:
    """Wait for some of the futures to end, be it because a worker died."""
    while True:
        ended, _ = wait(futures, timeout=_WORKERS_POLL_S, return_when=FIRST_COMPLETED)
        if ended:
            return ended
        if connection.wait([worker.sentinel for worker in _workers(pool)], timeout=0):
            _kill(pool)  # one died while sending, and the pool waits for the rest forever


def _workers(pool: ProcessPoolExecutor) -> list[Any]:
    return list((pool._processes or {}).values())


def _kill(pool: ProcessPoolExecutor) -> None:
    results: Any = pool._result_queue
    if results is not None:
        results._writer.close()  # else the pool waits for a result that was cut off halfway
    for worker in _workers(pool):
        worker.kill()


def _shut(pool: ProcessPoolExecutor) -> None:
    _kill(pool)
    pool.shutdown(wait=True, cancel_futures=True)
