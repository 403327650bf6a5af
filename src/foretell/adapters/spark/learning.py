"""Class files from Spark event logs: what a queue needs to know, from jobs that ran."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from foretell.adapters.spark.events import read_events
from foretell.queue.learn import LearnedClasses, learn_classes


def learn_queue(
    events: Path | str, *, by: str | None = None, order: Sequence[str] = ()
) -> LearnedClasses:
    """Learn the classes of a queue from Spark event logs.

    Parameters
    ----------
    events
        The folder with the logs: that of ``spark.eventLog.dir``, or one rolling log.
    by
        What makes a class: ``"property"`` of jobs that `foretell queue run` ran, the ``"group"``
        of a job, or the name of the ``"application"``. By default the first that the logs have.
    order
        Classes by priority, the lowest first; logs do not tell.

    >>> print(learn_queue("events/", order=["low", "high"]).toml())  # doctest: +SKIP
    """
    return learn_classes(read_events(events, by), order)
