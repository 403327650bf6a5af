"""Sprints: ways to make an engine faster for a while; one file each, and one line here."""

from __future__ import annotations

from foretell.adapters.dispatcher.sprints._base import Sprint, SprintError
from foretell.registry import Registry

SPRINTS: Registry[Sprint] = Registry(
    "sprint mechanism",
    {
        "none": "foretell.adapters.dispatcher.sprints.none:NoSprint",
        "cpufreq": "foretell.adapters.dispatcher.sprints.cpufreq:CpuFrequency",
        "quota": "foretell.adapters.dispatcher.sprints.quota:Quota",
        "command": "foretell.adapters.dispatcher.sprints.command:Command",
    },
    group="foretell.sprints",
)

__all__ = ["SPRINTS", "Sprint", "SprintError"]
