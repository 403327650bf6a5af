"""Executors: where work runs; one small interface, used by every stage."""

from __future__ import annotations

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


def open_executor(state: object, n_workers: int) -> Executor:
    """Choose the executor for a number of workers; one worker is this very process."""
    return SerialExecutor(state) if n_workers == 1 else ProcessExecutor(state, n_workers)
