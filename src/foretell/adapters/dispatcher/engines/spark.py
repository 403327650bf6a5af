"""The engine that runs functions in a Spark session that stays from job to job.

A job is cut short by canceling what it runs on Spark; the session stays. If its function does not
end then, the whole driver is killed and started again, as when it dies by itself.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pydantic

from foretell.adapters.dispatcher.engines._base import (
    Engine,
    EngineLostError,
    Outcome,
    Running,
    Setting,
)  # fmt: skip
from foretell.adapters.dispatcher.jobs import Job
from foretell.adapters.dispatcher.processes import JOB_MARK, end_all, marked
from foretell.adapters.spark import driver
from foretell.adapters.spark.driver_process import DriverOptions, DriverProcess
from foretell.adapters.spark.installation import check_spark
from foretell.errors import UsageError
from foretell.files.typed import validated

_RUN = re.compile(r"(?P<file>.+\.py):(?P<function>[^\W\d]\w*)")
#: A session starts in 5 to 40 s; on a busy machine it takes longer.
_START_S = 300.0
#: How long a function may take to end once its jobs on Spark are canceled.
_GRACE_S = 10.0

_PROPERTIES = {
    "spark.app.name": "foretell queue",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": driver.DAEMON,
}


class Options(pydantic.BaseModel):
    """What [run.settings] may say about Spark.

    Attributes
    ----------
    master
        Where tasks run; by default on this machine, on as many cores as there are slots.
    events
        The folder for event logs, from which `foretell queue learn` learns; by default, none.
    conf
        Properties of Spark.
    environment
        Variables to add to the environment of the driver.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    master: str | None = None
    events: str | None = None
    conf: dict[str, str | bool | int | float] = {}
    environment: dict[str, str] = {}


class SparkEngine(Engine):
    """Runs jobs whose ``run`` is a function: ``file.py:function(spark, **arguments)``."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._options = validated(Options, setting.options, "run", "settings")
        check_spark()
        self._driver: DriverProcess | None = None
        self._is_ready, self._launched_s = False, 0.0
        self._changing = threading.RLock()

    def check(self, run: list[str] | str) -> None:
        """Raise a UsageError if this is no function in a file that is there."""
        found = None if isinstance(run, list) else _RUN.fullmatch(run)
        if found is None:
            raise UsageError(
                f"run: must be 'file.py:function', as the engine is 'spark', not {run!r}"
            )
        if not self._file(found["file"]).is_file():
            raise UsageError(f"run: there is no file '{self._file(found['file'])}'")

    def is_ready(self) -> bool:
        """Whether the driver has a session; if there is no driver, one is started."""
        with self._changing:
            return self._has_session(0.0)

    def start(self, job: Job, drop: float, seed: int) -> Running:
        """Tell the driver to run the function; wait for the driver if it is not ready yet."""
        self.setting.result(job).unlink(missing_ok=True)
        process = self._ready_driver()
        process.run(self._order(job, drop, seed))
        return _Function(self, process)

    def recover(self, jobs: Sequence[Job]) -> dict[str, Outcome]:
        """End a driver that was left behind, read how its last job ended, and start another."""
        self.close()
        end_all(self.setting.marks)
        self._launch()
        ended = {job.id: _read_outcome(self.setting.outcome(job)) for job in jobs}
        return {name: outcome for name, outcome in ended.items() if outcome is not None}

    def close(self) -> None:
        """End the driver, and all of Spark that it started."""
        with self._changing:
            if self._driver is not None:
                self._driver.close()
                self._driver = None
                end_all(self.setting.marks)

    def replace(self, process: DriverProcess) -> None:
        """Start another driver in the place of one that is of no use, unless that was done."""
        with self._changing:
            if self._driver is process:
                process.kill()
                self.close()
                self._launch()

    def _launch(self) -> None:
        self._is_ready, self._launched_s = False, time.monotonic()
        self._driver = DriverProcess(
            DriverOptions(
                self._properties(),
                log=self.setting.jobs.with_name("spark.log"),
                folder=self.setting.folder,
                environment={**self._options.environment, **self.setting.marks},
            )
        )

    def _properties(self) -> dict[str, str]:
        options = self._options
        master = options.master or f"local[{self.setting.slots}]"
        events = {}
        if options.events is not None:
            folder = (self.setting.folder / options.events).absolute()
            folder.mkdir(parents=True, exist_ok=True)
            events = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": folder.as_uri()}
        given = {name: _written(value) for name, value in options.conf.items()}
        local = _LOCAL if master.startswith("local") else {}
        return {**_PROPERTIES, **local, **events, "spark.master": master, **given}

    def _ready_driver(self) -> DriverProcess:
        """Return the driver once it has a session; an EngineLostError says why it has none."""
        while not self._has_session(_START_S):
            continue
        assert self._driver is not None
        return self._driver

    def _has_session(self, wait_s: float) -> bool:
        """Whether the driver is ready, at the latest after some seconds."""
        if self._driver is None:
            self._launch()
        assert self._driver is not None
        if self._is_ready:
            return True
        try:
            said = self._driver.hear(wait_s)
        except EOFError as error:
            said = {"event": "unready", "reason": str(error)}
        if said is None and time.monotonic() < self._launched_s + _START_S:
            return False
        if said is None or said["event"] != "ready":
            self.close()
            reason = f"no session within {_START_S:g} s" if said is None else said["reason"]
            raise EngineLostError(f"Spark does not start: {reason}")
        self._is_ready = True
        return True

    def _order(self, job: Job, drop: float, seed: int) -> dict[str, Any]:
        found = _RUN.fullmatch(str(job.run))
        assert found is not None
        setting = self.setting
        return {
            "file": str(self._file(found["file"])),
            "function": found["function"],
            "arguments": job.arguments,
            "output": str(setting.output(job)),
            "result": str(setting.result(job)),
            "outcome": str(setting.outcome(job)),
            "environment": {
                JOB_MARK: job.id,
                "FORETELL_CLASS": job.class_name,
                "FORETELL_DROP": repr(drop),
                "FORETELL_SEED": str(seed),
                "FORETELL_RESULT": str(setting.result(job)),
                "FORETELL_ARGUMENTS": json.dumps(job.arguments),
            },
            "properties": {
                driver.JOB: job.id,
                driver.CLASS: job.class_name,
                driver.DROP: repr(drop),
                driver.ARRIVED: repr(job.arrived_at),
            },
        }

    def _file(self, name: str) -> Path:
        return (self.setting.folder / name).absolute()


class _Function(Running):
    """A function that the driver runs."""

    def __init__(self, engine: SparkEngine, process: DriverProcess) -> None:
        self._engine, self._process = engine, process
        self._listening = threading.Lock()
        self._outcome: Outcome | None = None
        self._was_cut = False

    @property
    def pids(self) -> list[int]:
        return [p.pid for p in marked(self._engine.setting.marks)]

    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        self._listen(timeout_s)
        return self._outcome

    def kill(self) -> Outcome | None:
        self._process.cancel()
        if not self._listen(_GRACE_S):
            self._engine.replace(self._process)
            return None
        return None if self._was_cut else self._outcome

    def _listen(self, timeout_s: float | None) -> bool:
        """Wait for the end, in one thread at a time; say whether it came."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        if not self._listening.acquire(timeout=-1 if timeout_s is None else timeout_s):
            return False
        try:
            if self._outcome is None:
                left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
                self._hear(left_s)
            return self._outcome is not None
        finally:
            self._listening.release()

    def _hear(self, timeout_s: float | None) -> None:
        try:
            said = self._process.hear(timeout_s)
        except EOFError as error:
            said = {"is_done": False, "reason": str(error), "is_alive": False, "was_cut": False}
        if said is None:
            return
        if not said["is_alive"]:
            self._engine.replace(self._process)
        self._was_cut = said["was_cut"]
        self._outcome = Outcome(said["is_done"], said["reason"])


def _written(value: str | bool | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_outcome(file: Path) -> Outcome | None:
    """Read what the driver wrote down; None if the job was cut short."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        ended = json.loads(file.read_text(encoding="utf-8"))
        return Outcome(bool(ended["is_done"]), str(ended["reason"]), file.stat().st_mtime)
    return None
