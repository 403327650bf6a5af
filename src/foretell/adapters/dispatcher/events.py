"""Events: what the dispatcher tells as it happens, for people, programs and counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from foretell.adapters.dispatcher.jobs import Job

Kind = Literal[
    "accepted", "rejected", "started", "paused", "resumed", "preempted", "failed", "interrupted",
    "done", "aside", "canceled", "sprint", "sprint_over", "lost", "note",
]  # fmt: skip


@dataclass(frozen=True)
class Event:
    """Something that happened.

    Attributes
    ----------
    job
        The job that it is about, as it is now.
    text
        A reason, or what there is to say where no job is meant.
    latency_s
        How long the engine was free, or the job was there, before a start.
    """

    kind: Kind
    job: Job | None = None
    text: str = ""
    latency_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        found: dict[str, Any] = {"event": self.kind}
        if self.job is not None:
            found |= {"id": self.job.id, "class": self.job.class_name, "name": self.job.name,
                      "attempt": self.job.attempt}  # fmt: skip
            if self.job.ended_at is not None:
                found |= {"response_s": round(self.job.ended_at - self.job.arrived_at, 6)}
        if self.latency_s is not None:
            found["latency_s"] = round(self.latency_s, 6)
        return {**found, "text": self.text} if self.text else found

    def __str__(self) -> str:
        if self.job is None:
            return self.text
        job = self.job
        words = f"{job.class_name}: {job.title} {_WORDS[self.kind].format(job=job)}"
        if self.kind == "done" and job.ended_at is not None:
            words += f" after {job.ended_at - job.arrived_at:.3g} s ({job.busy_s:.3g} s of it ran)"
        return f"{words}: {self.text}" if self.text else words


_WORDS: dict[Kind, str] = {
    "accepted": "waits",
    "rejected": "is not a job",
    "started": "starts, attempt {job.attempt}",
    "paused": "is paused for a higher class",
    "resumed": "goes on",
    "preempted": "makes way for a higher class, and starts again later",
    "failed": "failed, and is tried again",
    "interrupted": "was interrupted, and starts again",
    "done": "is done",
    "aside": "failed {job.n_failed} times, and is set aside",
    "canceled": "is canceled",
    "sprint": "sprints",
    "sprint_over": "sprints no more",
    "lost": "waits: the engine is lost",
    "note": "",
}
