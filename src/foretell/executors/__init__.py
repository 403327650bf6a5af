"""Executors: where work runs; one small interface, used by every stage."""

from __future__ import annotations

import logging

from foretell.executors._base import Executor, WorkerDied
from foretell.executors.processes import ProcessExecutor
from foretell.executors.serial import SerialExecutor
from foretell.executors.threads import by_blocks, n_cores, single_threaded

__all__ = [
    "Executor",
    "ProcessExecutor",
    "SerialExecutor",
    "WorkerDied",
    "by_blocks",
    "n_cores",
    "open_executor",
    "single_threaded",
]


def open_executor(
    state: object,
    n_workers: int | None = None,
    on: str | None = None,
    log: logging.Logger | None = None,
) -> Executor:
    """Choose the executor for a place and a number of workers.

    No place is this machine, where one worker is this very process. No number is one worker here,
    and every CPU of a cluster, whose losses are logged.
    """
    if on is not None:
        from foretell.executors.distributed import RayExecutor

        return RayExecutor(state, n_workers, on, log)
    if n_workers is None or n_workers == 1:
        return SerialExecutor(state)
    return ProcessExecutor(state, n_workers)
