"""Buffers: the jobs that wait, one line for each class; the highest class goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from foretell.adapters.dispatcher.jobs import Job


class Buffers:
    """Jobs that wait, by class and then in the order in which they came.

    >>> buffers = Buffers(2)
    >>> for name, level in [("a", 0), ("b", 1), ("c", 1)]:
    ...     buffers.add(Job(name, "any", level, []))
    >>> [job.id for job in buffers], buffers.lengths
    (['b', 'c', 'a'], [1, 2])
    """

    def __init__(self, n_levels: int) -> None:
        self._lines: list[OrderedDict[str, Job]] = [OrderedDict() for _ in range(n_levels)]

    def add(self, job: Job) -> None:
        """Put a job at the end of the line of its class."""
        self._lines[job.level][job.id] = job

    def add_first(self, job: Job) -> None:
        """Put a job at the head of the line of its class."""
        self.add(job)
        self._lines[job.level].move_to_end(job.id, last=False)

    def remove(self, job: Job) -> None:
        """Take a job out, wherever in its line it is."""
        del self._lines[job.level][job.id]

    @property
    def head(self) -> Job | None:
        """The job whose turn it is; None if none waits."""
        return next(iter(self), None)

    @property
    def lengths(self) -> list[int]:
        """How many jobs wait, by class, the lowest priority first."""
        return [len(line) for line in self._lines]

    def __len__(self) -> int:
        return sum(self.lengths)

    def __iter__(self) -> Iterator[Job]:
        for line in reversed(self._lines):
            yield from line.values()
