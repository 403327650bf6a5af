"""Jobs on a standalone cluster of Spark: a master and two workers, in processes of their own."""

import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import psutil
import pytest

from foretell.adapters.spark.events import read_events

from .conftest import QUICK_JAVA

pytestmark = pytest.mark.slow

PATIENCE_S = 120


def spark_class(folder, name, *arguments):
    """Start a part of Spark in a process group of its own; return it and its log."""
    import pyspark

    home = Path(pyspark.__file__).parent
    log = folder / f"{name.rpartition('.')[2]}-{len(list(folder.iterdir()))}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            env={**os.environ, **QUICK_JAVA, "SPARK_LOCAL_IP": "127.0.0.1",
                 "SPARK_WORKER_DIR": str(folder), "SPARK_DAEMON_MEMORY": "256m"},
        )  # fmt: skip
    return process, log


def said(process, log, pattern):
    """Wait until a log says something; return that."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := re.search(pattern, log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return found[1]


@pytest.fixture(scope="module")
def master(new_desk, tmp_path_factory):
    folder = tmp_path_factory.mktemp("standalone")
    processes = []
    try:
        ports = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        processes.append(spark_class(folder, "master.Master", *ports))
        url = said(*processes[0], r"Starting Spark master at (spark://\S+)")
        each = [*ports, "--cores", "1", "--memory", "1g", url]
        processes += [spark_class(folder, "worker.Worker", *each) for _ in range(2)]
        for worker in processes[1:]:
            said(*worker, r"(Successfully registered with master)")
        yield url
    finally:
        for process, _ in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def desk(new_desk, master):
    conf = {
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m", "spark.executor.cores": 1,
        "spark.scheduler.minRegisteredResourcesRatio": 1.0,
        "spark.executor.extraJavaOptions": QUICK_JAVA["JAVA_TOOL_OPTIONS"],
    }  # fmt: skip
    return new_desk(master=master, events="events", conf=conf)


def test_job_runs_on_both_workers_with_a_part_of_its_partitions(desk):
    outcome, result = desk.run("functions.py:estimated", drop=0.2, n=5)
    assert outcome.is_done, outcome
    assert (result["value"], result["n_kept"]) == (50, 4)
    observed = read_events(desk.folder / "events")
    assert observed.slots == 2
    assert [stage.n_tasks for stage in observed.jobs[-1].stages] == [4]


def test_executor_that_is_killed_costs_no_job(desk, tmp_path):
    outcomes = []
    _, running = desk.start("functions.py:outlive_an_executor", mark=str(tmp_path))
    waiting = threading.Thread(target=lambda: outcomes.append(running.wait(PATIENCE_S)))
    waiting.start()
    deadline = time.monotonic() + PATIENCE_S
    while not (marks := list(tmp_path.iterdir())):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(java_above(int(marks[0].name)), signal.SIGKILL)
    (tmp_path / "go").touch()
    waiting.join(PATIENCE_S)
    assert outcomes[0].is_done, outcomes


def java_above(pid):
    """Return the executor that a worker in Python works for."""
    return next(p.pid for p in psutil.Process(pid).parents() if p.name() == "java")
