"""Grouping jobs, for users: profiles in, which to put together and which to run in turn out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pydantic

from foretell.corun.machine import Machine, chosen_machine
from foretell.corun.predict import on_one_machine
from foretell.corun.profile import Profile, read_profile
from foretell.corun.text import time_text
from foretell.decide.corun.fluid import play_together
from foretell.decide.corun.grouping import Group, GroupEnds, best_plan, placed, score
from foretell.decide.corun.jobs import Capacity, CoJob, JobNeeds
from foretell.errors import NothingUsableError, Option, UsageError, suggest
from foretell.files.text_file import FileKind
from foretell.files.typed import read_typed
from foretell.wording import counted

JOBS_FILE = FileKind("job", "one [job.NAME]", (".toml",))
_STRICT = pydantic.ConfigDict(extra="forbid", frozen=True)
_MOST_JOBS = 200
_GIB = 2.0**30


class JobEntry(pydantic.BaseModel):
    """A job of a job file: its profile, and how many of it there are."""

    model_config = _STRICT

    profile: str
    count: Annotated[int, pydantic.Field(ge=1, le=_MOST_JOBS)] = 1


class JobFile(pydantic.BaseModel):
    """Jobs to group.

    Attributes
    ----------
    job
        Jobs by name.
    apart
        Pairs of jobs that must not run together.
    """

    model_config = _STRICT

    job: Annotated[dict[str, JobEntry], pydantic.Field(min_length=1)]
    apart: list[tuple[str, str]] = pydantic.Field(default=[])


@dataclass(frozen=True)
class PlannedGroup:
    """Jobs that run together.

    Attributes
    ----------
    machine
        The machine, counted from 1.
    start_s, ends_s
        When the group starts, and when each of its jobs ends.
    slowdowns
        How many times longer each takes than alone.
    """

    machine: int
    jobs: tuple[str, ...]
    start_s: float
    ends_s: tuple[float, ...]
    slowdowns: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Grouping:
    """Which jobs to put together, by machine and in the order of time.

    Attributes
    ----------
    last_end_s, mean_end_s
        When the last job ends, and when they end on average.
    in_turn_s
        When the last job ends and when they end on average if no two jobs share a machine.
    """

    groups: tuple[PlannedGroup, ...]
    last_end_s: float
    mean_end_s: float
    in_turn_s: tuple[float, float]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "groups": [
                {
                    "machine": g.machine, "jobs": list(g.jobs), "start_s": g.start_s,
                    "ends_s": list(g.ends_s), "slowdowns": list(g.slowdowns),
                }
                for g in self.groups
            ],
            "last_end_s": self.last_end_s,
            "mean_end_s": self.mean_end_s,
            "in_turn": {"last_end_s": self.in_turn_s[0], "mean_end_s": self.in_turn_s[1]},
            "notes": list(self.notes),
        }  # fmt: skip

    def __str__(self) -> str:
        rows = [("machine", "from", "to", "slowest", "jobs")]
        for group in self.groups:
            rows.append(
                (
                    str(group.machine), time_text(group.start_s), time_text(max(group.ends_s)),
                    f"{max(group.slowdowns):.2f}×", ", ".join(group.jobs),
                )
            )  # fmt: skip
        lines = ["{:>7}{:>10}{:>10}{:>10}   {}".format(*row) for row in rows]
        last, mean = self.in_turn_s
        lines.append(
            f"All is done at {time_text(self.last_end_s)}, jobs end at "
            f"{time_text(self.mean_end_s)} on average; if no two shared a machine: "
            f"{time_text(last)} and {time_text(mean)}."
        )
        return "\n".join(lines)


def group_jobs(
    jobs: Path | str | Mapping[str, Any],
    *,
    machines: int = 1,
    max_slowdown: float | None = None,
    machine: Machine | Path | str | None = None,
) -> Grouping:
    """Choose which jobs to put together on several machines of one kind.

    Parameters
    ----------
    jobs
        A job file, a dict of its shape, or profiles by name.
    machines
        How many machines there are.
    max_slowdown
        How many times longer a job may take than alone; by default any.
    machine
        What was measured of these machines, or its file; by default that of this user.

    >>> group_jobs("jobs.toml", machines=4, max_slowdown=1.3)  # doctest: +SKIP
    """
    if not 1 <= machines <= 10_000:
        raise UsageError(
            f"there must be from 1 to 10,000 machines, not {machines}",
            option=Option("machines", str(machines)),
        )
    limit = math.inf if max_slowdown is None else max_slowdown
    if not limit >= 1:
        raise UsageError(
            f"a job cannot be slowed by less than 1, and {limit:g} is; write 1.3 for 30 %",
            option=Option("max_slowdown", f"{limit:g}"),
        )
    profiles, apart = _profiles(jobs)
    _check_jobs(profiles)
    needs, capacity, notes = on_one_machine(list(profiles.values()), chosen_machine(machine))
    return _grouping(list(profiles), needs, _Ends(needs, capacity, limit, apart), machines, notes)


def _profiles(
    source: Path | str | Mapping[str, Any],
) -> tuple[dict[str, Profile], frozenset[frozenset[str]]]:
    """Return the profile of each job, also of several of one kind, and which to keep apart."""
    if isinstance(source, Mapping) and all(isinstance(v, Profile) for v in source.values()):
        return {n: replace(p, name=n) for n, p in source.items()}, frozenset()
    given = read_typed(source, JobFile, JOBS_FILE)
    home = Path(source).parent if isinstance(source, str | Path) else Path()
    _check_number(sum(entry.count for entry in given.job.values()))
    found: dict[str, Profile] = {}
    kinds: dict[str, list[str]] = {}
    for name, entry in given.job.items():
        profile = read_profile(home / entry.profile)
        kinds[name] = [name, *(f"{name}-{k}" for k in range(2, entry.count + 1))]
        for own in kinds[name]:
            if own in found:
                raise UsageError(
                    f"two jobs are called '{own}': count = {entry.count} of '{name}' numbers its "
                    "jobs; give one of them another name"
                )
            found[own] = replace(profile, name=own)
    apart = set()
    for pair in given.apart:
        for name in pair:
            if name not in kinds:
                raise UsageError(f"apart: there is no job '{name}'. {suggest(name, kinds)}")
        apart |= {frozenset({a, b}) for a in kinds[pair[0]] for b in kinds[pair[1]] if a != b}
    return found, frozenset(apart)


def _check_jobs(profiles: Mapping[str, Profile]) -> None:
    _check_number(len(profiles))
    endless = [name for name, profile in profiles.items() if profile.is_endless]
    if endless:
        raise UsageError(
            f"'{endless[0]}' runs without end, so what comes after it would never start; leave it "
            "out, and group the jobs that end"
        )


def _check_number(n_jobs: int) -> None:
    if n_jobs > _MOST_JOBS:
        raise UsageError(
            f"{n_jobs} jobs are more than the {_MOST_JOBS} that can be grouped at once"
        )


class _Ends:
    """When the jobs of a group end, by the model."""

    def __init__(
        self,
        needs: Sequence[JobNeeds],
        capacity: Capacity,
        limit: float,
        apart: frozenset[frozenset[str]],
    ) -> None:
        self._needs, self._capacity, self._limit, self._apart = needs, capacity, limit, apart

    def __call__(self, group: Group) -> GroupEnds:
        own = [self._needs[k] for k in sorted(group)]
        ends = play_together([CoJob(job) for job in own], self._capacity).ends_s
        memory = sum(job.memory_bytes for job in own)
        names = {job.name for job in own}
        is_allowed = len(own) == 1 or (
            memory <= self._capacity.memory_bytes
            and all(
                e <= self._limit * j.alone_s * (1 + 1e-9) for e, j in zip(ends, own, strict=True)
            )
            and not any(pair <= names for pair in self._apart)
        )
        if len(own) == 1 and memory > self._capacity.memory_bytes:
            raise NothingUsableError(
                f"'{own[0].name}' does not fit into memory: it holds {memory / _GIB:.1f} GiB, and "
                f"a machine has {self._capacity.memory_bytes / _GIB:.1f}; leave it out, or use a "
                "machine with more memory"
            )
        return GroupEnds(ends, is_allowed)


def _grouping(
    names: Sequence[str], needs: Sequence[JobNeeds], ends: _Ends, machines: int, notes: list[str]
) -> Grouping:
    plan = best_plan(len(names), min(machines, len(names)), ends)
    groups = []
    for k, own in enumerate(plan):
        now = 0.0
        for group in own:
            found, order = ends(group), sorted(group)
            groups.append(
                PlannedGroup(
                    k + 1,
                    tuple(names[j] for j in order),
                    now,
                    tuple(now + end for end in found.ends_s),
                    tuple(e / needs[j].alone_s for e, j in zip(found.ends_s, order, strict=True)),
                )
            )
            now += found.length_s
    last, total = score(plan, ends)
    single = placed([frozenset({k}) for k in range(len(names))], min(machines, len(names)), ends)
    turn, turn_total = score(single, ends)
    if not any(len(group.jobs) > 1 for group in groups):
        notes = [*notes, f"no two of {counted(len(names), 'job')} should run together"]
    return Grouping(
        tuple(groups), last, total / len(names), (turn, turn_total / len(names)),
        tuple(dict.fromkeys(notes)),
    )  # fmt: skip
