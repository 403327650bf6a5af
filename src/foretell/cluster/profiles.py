"""Profiles that tasks name, so that placement knows how tasks slow one another."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from foretell.corun.profile import read_profile
from foretell.decide.corun.jobs import JobNeeds
from foretell.decide.placement.cluster import Cluster
from foretell.decide.placement.neighbors import profile_of
from foretell.decide.placement.tasks import Task
from foretell.errors import UsageError, listing

_MOST_CORES = 100_000  # a node has fewer: needs are capped by what it has


def profiles_of(cluster: Cluster, tasks: Iterable[Task] = ()) -> dict[str, JobNeeds]:
    """Return what jobs need whose profiles the cluster file has, or tasks name; maybe none.

    A task names a profile of the cluster file, or any other file.
    """
    files = {name: cluster.folder / file for name, file in cluster.profiles.items()}
    for name in filter(None, map(profile_of, tasks)):
        if name not in files and not os.path.exists(name):  # noqa: PTH110 - a name may be too long for a path
            known = f" ({listing(cluster.profiles)})" if cluster.profiles else ""
            raise UsageError(
                f"a task names the profile '{name}', which is neither one of [profiles] in the "
                f"cluster file{known} nor a file; foretell corun profile writes one"
            )
        files.setdefault(name, Path(name))
    return {
        name: replace(read_profile(file).needs(_MOST_CORES), name=name)
        for name, file in files.items()
    }
