"""Class files as commands get them: names of engines and mechanisms are known, too."""

from __future__ import annotations

from pathlib import Path

from foretell.decide.queueing.queue_file import Queue, read_queue


def read_classes(path: Path) -> Queue:
    """Read a class file; refuse an engine or a sprint mechanism that does not exist."""
    from foretell.adapters.dispatcher.engines import ENGINES
    from foretell.adapters.dispatcher.sprints import SPRINTS

    queue = read_queue(path)
    ENGINES.check(queue.run.engine)
    SPRINTS.check(queue.sprint.mechanism)
    return queue
