"""Small real programs and made-up profiles for the tests of co-runs."""

import os
import sys
from contextlib import contextmanager

import numpy as np

from foretell.corun.facts import MachineFacts, machine_facts
from foretell.corun.machine import Machine
from foretell.corun.profile import Profile
from foretell.traces import Trace

#: Keeps a core busy until it has used so much CPU time.
SPIN = "import time\nwhile time.process_time() < {0}: pass"
#: Starts so many children, which all wait until it ends after some seconds.
MANY = """
import os, time
reader, writer = os.pipe()
children = []
for _ in range({0}):
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)               # until the parent closes its end
        os._exit(0)
    children.append(child)
time.sleep({1})
os.close(writer)
for child in children:
    os.waitpid(child, 0)
"""
FACTS = {"cpu": "Test", "n_usable": 2, "memory_bytes": 2**34, "architecture": "x86_64"}


def python(code):
    return (sys.executable, "-c", code)


def many(n_children, seconds):
    return python(MANY.format(n_children, seconds))


def spin(cpu_s):
    return python(SPIN.format(cpu_s))


def made_up(name="a", seconds=10.0, cores=1.0, memory_bytes=1e6, disk=0.0, **more):
    """Return the profile of a job that needs the same all the time."""
    times = np.arange(0.1, seconds + 0.05, 0.1)
    zero = np.zeros_like(times)
    columns = {
        "cpu_time_s": cores * times,
        "wait_time_s": zero,
        "read_bytes": zero,
        "written_bytes": 1e6 * disk * times,
        "memory_bytes": zero + memory_bytes,
        "disk_busy_s": disk * times,
        "disk_bytes": 1e6 * disk * times,
    }
    given = {"facts": FACTS, "compute_rate": None, "is_endless": False, **more}
    given["facts"] = MachineFacts.model_validate(given["facts"])
    return Profile(
        name=name, command=("job",), trace=Trace(times, columns), wall_s=seconds, bandwidth=0.0,
        disturbed=0.0, overhead=0.0, **given,
    )  # fmt: skip


def made_up_elsewhere(name="a", **more):
    """Return the profile of a job that ran on a machine with much more memory."""
    return made_up(name, facts={**FACTS, "memory_bytes": 2**42}, compute_rate=100.0, **more)


def made_up_machine(**more):
    given = {
        "facts": FACTS, "compute_rate": 100.0, "core_speed": 1.0, "thread_power": 1.0,
        "stream_rate": 1e10, "bandwidth": 2e10, "disk": 1.0, "sensitivities": {}, "other_load": 0.0,
    }  # fmt: skip
    return Machine(**{**given, **more})


@contextmanager
def on_last_cpu():
    """Let this process use one CPU alone, whose number is not its position; yield the number."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield max(before)
    finally:
        os.sched_setaffinity(0, before)


def here(profile):
    """Return a profile as if it were of this machine."""
    from dataclasses import replace

    return replace(profile, facts=machine_facts())
