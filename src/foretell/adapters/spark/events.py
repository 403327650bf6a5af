"""What Spark event logs tell of the jobs of a queue: when each ran, its stages and their tasks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foretell.adapters.spark import driver
from foretell.adapters.spark.event_files import EventLog, find_logs
from foretell.errors import Option, UsageError, listing, suggest
from foretell.queue.observed import Observed, ObservedJob, ObservedStage
from foretell.wording import counted, plain

#: What makes the jobs of one class: the property that our driver sets, the group of the job, or the
#: name of the application, each of which is then one job.
GROUPINGS = ("property", "group", "application")
_GROUP = "spark.jobGroup.id"
_PREFIX = "SparkListener"
#: Versions whose events are known.
_KNOWN = range(2, 5)
_MOST_MS = 4_000_000_000_000  # far in the future; a number above it is no time
_MOST_NAME = 100


def read_events(folder: Path | str, by: str | None = None) -> Observed:
    """Read the event logs in a folder.

    Parameters
    ----------
    by
        What makes a class: ``property`` (of jobs that `foretell queue run` ran), ``group`` (of
        jobs, as ``setJobGroup`` sets it) or ``application`` (its name; each is one job). By
        default the first of them that the logs have.
    """
    if by is not None and by not in GROUPINGS:
        raise UsageError(
            f"unknown grouping '{by}'. {suggest(by, GROUPINGS)}", option=Option("by", by)
        )
    applications, notes = [], []
    for log in find_logs(Path(folder)):
        application = _Application(log)
        notes += application.read()
        if application.version is not None:
            applications.append(application)
    if not applications:
        raise UsageError(f"{folder} has no event log of Spark: {listing(notes)}")
    chosen = by or _grouping(applications)
    jobs = [job for application in applications for job in application.grouped(chosen)]
    if not jobs:
        told = f": {'; '.join(notes)}" if notes else ""
        raise UsageError(f"the event logs in {folder} tell of no job that has ended{told}")
    return Observed(_slots(applications, notes), jobs, notes)


def _grouping(applications: list[_Application]) -> str:
    jobs = [job for application in applications for job in application.jobs.values()]
    if any(job.properties.get(driver.CLASS) for job in jobs):
        return "property"
    return "group" if any(job.properties.get(_GROUP) for job in jobs) else "application"


def _slots(applications: list[_Application], notes: list[str]) -> int:
    """Return how many slots most applications had."""
    found = Counter(a.slots for a in applications if a.slots)
    if not found:
        notes.append("no log tells how many cores there were: slots = 1 is a guess")
        return 1
    if len(found) > 1:
        notes.append(f"applications had {listing(sorted(found))} slots; the most frequent is used")
    return found.most_common(1)[0][0]


@dataclass
class _SparkJob:
    """A job of Spark; one of a queue may have several."""

    started_s: float
    properties: dict[str, str]
    ended_s: float | None = None
    is_done: bool = False
    stages: dict[int, ObservedStage] = field(default_factory=dict)


class _OddEventError(ValueError):
    """An event does not have what events of its name have."""


class _Application:
    """One log, event by event."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self.version: str | None = None
        self.name = ""
        self.started_s: float | None = None
        self.ended_s: float | None = None
        self.slots = 0
        self.jobs: dict[int, _SparkJob] = {}
        self._cores: dict[str, int] = {}
        self._cpus_per_task = 1
        self._job_of_stage: dict[int, _SparkJob] = {}
        self._handlers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "LogStart": self._log_start,
            "ApplicationStart": self._application_start,
            "ApplicationEnd": self._application_end,
            "EnvironmentUpdate": self._environment,
            "ExecutorAdded": self._executor_added,
            "ExecutorRemoved": self._executor_removed,
            "JobStart": self._job_start,
            "JobEnd": self._job_end,
            "TaskEnd": self._task_end,
        }

    def read(self) -> list[str]:
        """Take in the whole log; return remarks on it."""
        names = frozenset(_PREFIX + name for name in self._handlers)
        n_odd = 0
        for event in self._log.events(names):
            if self.version is None and event["Event"] != f"{_PREFIX}LogStart":
                break
            try:
                self._handlers[event["Event"].removeprefix(_PREFIX)](event)
            except _OddEventError:
                n_odd += 1
        return list(self._remarks(n_odd + self._log.n_unread))

    def _remarks(self, n_unread: int) -> list[str]:
        name = self._log.path.name
        if self.version is None:
            if self._log.starts_packed:
                return [f"{name} is cut or damaged: nothing of it can be unpacked"]
            return [f"{name} is no event log of Spark"]
        remarks = []
        major = re.match(r"\d{1,6}", self.version)
        if major is None or int(major[0]) not in _KNOWN:
            remarks.append(
                f"{name} is of Spark {self.version}, whose events are not known here; what has the "
                "names of Spark 4 was read"
            )
        if self._log.is_cut or self.ended_s is None:
            remarks.append(
                f"{name} is cut, or its application did not stop: it has no end; what is whole was "
                "used"
            )
        if n_unread:
            remarks.append(f"{name}: {counted(n_unread, 'line')} could not be read")
        return remarks

    def grouped(self, by: str) -> list[ObservedJob]:
        """Return the jobs of the queue: of a property, a group, or the application as one."""
        if by == "application":
            return self._as_one()
        units: dict[Any, list[_SparkJob]] = {}
        for number, job in self.jobs.items():
            key = job.properties.get(driver.JOB, number) if by == "property" else number
            units.setdefault(key, []).append(job)
        name = driver.CLASS if by == "property" else _GROUP
        ends = self._exact_ends()
        found = [
            _joined(self._class_of(jobs[0], name), jobs, ends.get(key))
            for key, jobs in units.items()
        ]
        if found:
            found[0].is_first = True
        return found

    def _class_of(self, job: _SparkJob, name: str) -> str:
        return job.properties.get(name) or self.name or "all"

    def _exact_ends(self) -> dict[Any, float]:
        """Read when the functions of jobs ended, after what Spark did for them."""
        found = {}
        for job in self.jobs.values():
            key, _, moment = job.properties.get(driver.BEFORE, "").partition(" ")
            if (ended_s := _seconds(moment)) is not None:
                found[key] = ended_s
        return found

    def _as_one(self) -> list[ObservedJob]:
        if self.started_s is None or not self.jobs:
            return []
        whole = _joined(self.name or "all", list(self.jobs.values()), self.ended_s)
        whole.arrived_s = whole.started_s = self.started_s
        whole.is_done = whole.is_done and self.ended_s is not None
        return [whole]

    def _log_start(self, event: Mapping[str, Any]) -> None:
        self.version = plain(event.get("Spark Version") or "of no known version", _MOST_NAME)

    def _application_start(self, event: Mapping[str, Any]) -> None:
        self.name = plain(event.get("App Name") or "", _MOST_NAME)
        self.started_s = _time_s(event, "Timestamp")

    def _application_end(self, event: Mapping[str, Any]) -> None:
        self.ended_s = _time_s(event, "Timestamp")

    def _environment(self, event: Mapping[str, Any]) -> None:
        properties = event.get("Spark Properties")
        if isinstance(properties, Mapping):
            cpus = str(properties.get("spark.task.cpus", "1"))
            self._cpus_per_task = int(cpus) if re.fullmatch(r"[1-9]\d{0,3}", cpus) else 1

    def _executor_added(self, event: Mapping[str, Any]) -> None:
        cores = _whole(_table(event, "Executor Info"), "Total Cores")
        self._cores[str(event.get("Executor ID"))] = cores
        self.slots = max(self.slots, sum(self._cores.values()) // self._cpus_per_task)

    def _executor_removed(self, event: Mapping[str, Any]) -> None:
        self._cores.pop(str(event.get("Executor ID")), None)

    def _job_start(self, event: Mapping[str, Any]) -> None:
        properties = event.get("Properties")
        kept = (_GROUP, driver.JOB, driver.CLASS, driver.DROP, driver.ARRIVED, driver.STARTED,
                driver.BEFORE)  # fmt: skip
        given = properties if isinstance(properties, Mapping) else {}
        job = _SparkJob(
            _time_s(event, "Submission Time"),
            {name: plain(given[name], _MOST_NAME) for name in kept if given.get(name)},
        )
        self.jobs[_whole(event, "Job ID")] = job
        stages = event.get("Stage IDs")
        for stage in stages if isinstance(stages, list) else []:
            if isinstance(stage, int):
                self._job_of_stage[stage] = job

    def _job_end(self, event: Mapping[str, Any]) -> None:
        job = self.jobs.get(_whole(event, "Job ID"))
        if job is None:
            raise _OddEventError
        job.ended_s = _time_s(event, "Completion Time")
        job.is_done = _table(event, "Job Result").get("Result") == "JobSucceeded"

    def _task_end(self, event: Mapping[str, Any]) -> None:
        if _table(event, "Task End Reason").get("Reason") != "Success":
            return
        stage = _whole(event, "Stage ID")
        info = _table(event, "Task Info")
        job = self._job_of_stage.get(stage)
        if job is None:
            raise _OddEventError
        started_s, ended_s = _time_s(info, "Launch Time"), _time_s(info, "Finish Time")
        if ended_s < started_s:
            raise _OddEventError
        tasks = job.stages.setdefault(stage, ObservedStage())
        tasks.add(started_s, ended_s, _read_bytes(event))


def _joined(name: str, jobs: list[_SparkJob], ended_s: float | None) -> ObservedJob:
    """Make one job of a queue of jobs of Spark that ran one after the other."""
    first, last = jobs[0], jobs[-1]
    stages = [stage for job in jobs for stage in job.stages.values()]
    started_s = _seconds(first.properties.get(driver.STARTED, ""))
    arrived_s = _seconds(first.properties.get(driver.ARRIVED, ""))
    drop = _number(first.properties.get(driver.DROP, "")) or 0.0
    begun_s = first.started_s if started_s is None else started_s
    return ObservedJob(
        name,
        begun_s if arrived_s is None else arrived_s,
        begun_s,
        last.ended_s if ended_s is None else ended_s,
        drop if 0 <= drop < 1 else 0.0,
        all(job.is_done for job in jobs),
        stages=sorted(stages, key=lambda stage: stage.first_s),
    )


def _read_bytes(event: Mapping[str, Any]) -> int:
    metrics = event.get("Task Metrics")
    found = metrics.get("Input Metrics") if isinstance(metrics, Mapping) else None
    n_bytes = found.get("Bytes Read") if isinstance(found, Mapping) else None
    return n_bytes if isinstance(n_bytes, int) and 0 <= n_bytes < 1 << 60 else 0


def _table(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = event.get(name)
    if not isinstance(found, Mapping):
        raise _OddEventError
    return found


def _whole(event: Mapping[str, Any], name: str) -> int:
    found = event.get(name)
    if not isinstance(found, int) or not 0 <= found <= _MOST_MS:
        raise _OddEventError
    return found


def _time_s(event: Mapping[str, Any], name: str) -> float:
    return _whole(event, name) / 1000


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _seconds(text: str) -> float | None:
    """Read a moment that our driver wrote."""
    found = _number(text)
    return found if found is not None and 0 < found <= _MOST_MS / 1000 else None
