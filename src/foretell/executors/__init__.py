"""Executors: where work runs; one small interface with needs, used by every stage."""

from __future__ import annotations

import logging

from foretell.executors._base import Done, Executor, WorkerDied
from foretell.executors.cores import by_blocks, n_cores, single_threaded
from foretell.executors.in_process import SerialExecutor, ThreadExecutor
from foretell.executors.processes import ProcessExecutor

__all__ = [
    "Done",
    "Executor",
    "ProcessExecutor",
    "SerialExecutor",
    "ThreadExecutor",
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

    Parameters
    ----------
    n_workers
        By default one worker on this machine, and one on every CPU of a cluster. One worker on
        this machine is this very process.
    on
        None for this machine, ``ray`` or an address for a cluster.
    log
        Gets a warning of every worker that a cluster loses.
    """
    if on is not None:
        from foretell.executors.distributed import open_for_fits

        return open_for_fits(state, n_workers, on, log)
    if n_workers is None or n_workers == 1:
        return SerialExecutor(state)
    return ProcessExecutor(state, n_workers)
