"""Sweeps in a folder of their own, with a job that leaves traces."""

from __future__ import annotations

import sys
import textwrap

import pandas as pd
import pytest

from foretell.measure.measure import measure_sweep

#: A function that a sweep can call: it notes each call in a file.
JOBS = """
    import os, sys, time, subprocess

    def quick(n, watch):
        with open("calls.txt", "a") as file:
            file.write(f"{n}\\n")
        with watch.stage("work"):
            sum(range(1000 * n))
        return {"result": 2 * n}

    def picky(n):
        if n == 2:
            raise ValueError("two is too many\\nsecond line")
        if n == 3:
            os._exit(7)
        if n == 4:
            raise MemoryError
        return {"result": n}

    def flaky(n):
        with open("calls.txt", "a") as file:
            file.write(f"{n}\\n")
        if len(open("calls.txt").readlines()) < 3:
            raise RuntimeError("not yet")

    def wordy(n):
        return [n]

    def odd(n):
        return {"result": object()}

    def stubborn(n):
        child = subprocess.Popen(["sleep", "345.3"])
        import re
        re.match("(a+)+$", "a" * 60 + "b")  # holds the interpreter's lock for ages

    def greedy(n):
        block = bytearray(n * 2**20)
        time.sleep(60)
        return {"length": len(block)}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.py").write_text(textwrap.dedent(JOBS))
    return tmp_path


@pytest.fixture
def measured(folder):
    """Return a function that measures a sweep and returns its table."""

    def measure(workload, parameters, **rest):
        sweep = {"workload": workload, "parameters": parameters, "meters": [], **rest}
        measure_sweep(sweep, folder / "runs.csv")
        return pd.read_csv(folder / "runs.csv", keep_default_na=False)

    return measure


def python(call):
    return {"use": "python", "call": f"jobs:{call}"}


def command(*words, **options):
    return {"use": "command", "run": list(words), **options}


def script(text):
    """Return the words that run some Python."""
    return [sys.executable, "-c", textwrap.dedent(text)]
