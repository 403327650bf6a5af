"""Profiles that tasks name, so that a simulation knows how tasks slow one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from foretell.corun.profile import read_profile
from foretell.decide.corun.jobs import JobNeeds
from foretell.decide.placement.neighbors import PROFILE
from foretell.simulate.arrivals import Arrival

_MOST_CORES = 100_000  # a node has fewer: needs are capped by what it has


def profiles_of(arrivals: Sequence[Arrival]) -> dict[str, JobNeeds]:
    """Return what the jobs need whose profiles tasks name; empty if none does."""
    names = dict.fromkeys(str(arrival.task.features.get(PROFILE, "")) for arrival in arrivals)
    return {
        name: replace(read_profile(name).needs(_MOST_CORES), name=name) for name in names if name
    }
