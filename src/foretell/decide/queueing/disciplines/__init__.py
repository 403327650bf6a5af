"""Disciplines: what the engine does when a job of a higher class arrives; one file each."""

from __future__ import annotations

from foretell.decide.queueing.disciplines._base import Discipline
from foretell.registry import Registry

DISCIPLINES: Registry[Discipline] = Registry(
    "discipline",
    {
        "non-preemptive": "foretell.decide.queueing.disciplines.non_preemptive:NonPreemptive",
        "resume": "foretell.decide.queueing.disciplines.resume:Resume",
        "repeat": "foretell.decide.queueing.disciplines.repeat:Repeat",
        "redraw": "foretell.decide.queueing.disciplines.redraw:Redraw",
    },
    group="foretell.disciplines",
)

__all__ = ["DISCIPLINES", "Discipline"]
