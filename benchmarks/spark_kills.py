"""Kills of the dispatcher and of the driver of Spark: nothing is lost, and nothing runs twice.

    python -m benchmarks.spark_kills [--kills 20] [--seed 0]

`foretell queue run` runs small jobs on a real Spark. Every second kill is of the dispatcher, which
is started again; the others are of the driver, which the dispatcher starts again. In the end every
job must be done once, and none may have started again after it was done.
"""

from __future__ import annotations

import argparse
import csv
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

N_JOBS = 250
CLASSES = """
slots = 2
[[class]]
name = "jobs"
rate_per_s = 0.1
service = { mean_s = 1, scv = 0 }
[run]
engine = "spark"
retries = 100
"""
FUNCTION = """
import os, time

def work(spark, log):
    job = os.environ["FORETELL_JOB"]
    with open(log, "a") as file:
        file.write(f"{job} {time.time()!r}\\n")
    return spark.sparkContext.parallelize(range(4), 4).map(lambda x: time.sleep(0.1) or x).sum()
"""


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "foretell", "queue", "run", "classes.toml", "--until-empty"]
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)


def submit_all(folder: Path) -> None:
    from foretell.adapters.dispatcher.spool import write_job

    (folder / "jobs").mkdir()
    job = {"class": "jobs", "run": "work.py:work", "arguments": {"log": str(folder / "starts.txt")}}
    for _ in range(N_JOBS):
        write_job(folder / "jobs", job)


def drivers(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        children = psutil.Process(process.pid).children()
        return [c for c in children if "foretell.adapters.spark.driver" in c.cmdline()]
    except psutil.Error:
        return []


def check(folder: Path) -> str:
    """Return what went wrong; empty if nothing did."""
    with (folder / "state" / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    done = {row["id"]: float(row["ended_at"]) for row in rows if row["status"] == "ok"}
    starts = [line.split() for line in (folder / "starts.txt").read_text().splitlines()]
    twice = [job for job, n in Counter(row["id"] for row in rows).items() if n > 1]
    again = [job for job, at in starts if float(at) > done.get(job, float("inf"))]
    lost = N_JOBS - len(done)
    return f"{lost} lost, {twice} twice, {again} again" if lost or twice or again else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    with tempfile.TemporaryDirectory(prefix="foretell-bench-kills-") as name:
        folder = Path(name)
        (folder / "classes.toml").write_text(CLASSES)
        (folder / "work.py").write_text(FUNCTION)
        submit_all(folder)
        process = start(folder)
        n_kills = 0
        for number in range(args.kills):
            # From the start of a session to several jobs later.
            time.sleep(chance.uniform(0, 20))
            if process.poll() is not None:  # all jobs are done
                break
            n_kills += 1
            found = drivers(process)
            if number % 2 and found:
                found[0].send_signal(signal.SIGKILL)
            else:
                process.kill()
                process.wait()
                process = start(folder)
        process.wait()
        n_starts = len((folder / "starts.txt").read_text().splitlines())
        wrong = check(folder)
        print(f"{n_kills} kills, {N_JOBS} jobs, {n_starts} starts: {wrong or 'all done once'}")
        if wrong:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
