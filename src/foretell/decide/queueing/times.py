"""From the classes of a file to streams of jobs: times with tasks dropped, and sprinted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from foretell.decide.queueing.job_class import JobClass
from foretell.decide.queueing.queue_file import Queue
from foretell.decide.queueing.service._base import ServiceTime
from foretell.decide.queueing.service.fitted import fitted_time
from foretell.decide.queueing.service.job import job_time
from foretell.decide.queueing.service.sprinted import Sprinted
from foretell.decide.queueing.streams import Stream

#: Times of classes with models or runs, by the name of the class; they are read elsewhere.
Known = Mapping[str, ServiceTime]


def class_time(queue: Queue, job: JobClass, known: Known, drop: float | None = None) -> ServiceTime:
    """Return how long a job of a class takes without a sprint.

    Parameters
    ----------
    drop
        The share of tasks to drop, instead of that of the class.
    """
    if job.has_tasks:
        return job_time(job, queue.slots, drop)
    if job.service is not None:
        return fitted_time(job.service.mean_s, job.service.scv)
    return known[job.name]


def sprinted(queue: Queue, time: ServiceTime, after_s: float | None) -> ServiceTime:
    """Return a time with a sprint; None is never."""
    return time if after_s is None else Sprinted(time, after_s, queue.sprint.speedup)


def streams_of(queue: Queue, known: Known) -> list[Stream]:
    """Return all classes as the file describes them."""
    return [
        Stream(
            job.name,
            job.rate_per_s,
            sprinted(queue, class_time(queue, job, known), job.sprint_after_s),
            job.evict_s,
        )
        for job in queue.classes
    ]


def unsprinted(streams: Sequence[Stream]) -> list[ServiceTime]:
    """Return the times without sprints, which a simulation plays by itself."""
    services = (stream.service for stream in streams)
    return [s.service if isinstance(s, Sprinted) else s for s in services]
