"""How soon the dispatcher starts the next job, what many waiting jobs cost, and whether sprints
stay within their budget.

    python -m benchmarks.dispatcher [--jobs 300] [--waiting 10000] [--sprints 5]

All figures are *measured*, with real commands and a real journal. *Dispatch* is the time from when
a thread saw the end of a command to when the next was started, with both on disk. *Waiting*: all
jobs are files of a spool folder; the clock runs until all are in the journal, and until a restart
has read them again. *Sprints* empty a budget of 5 s, and what they took is compared with it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from foretell.adapters.dispatcher.dispatcher import Dispatcher
from foretell.adapters.dispatcher.events import Event
from foretell.adapters.dispatcher.store.runs import read_rows

#: What must hold.
DISPATCH_BAR_S, OVERSPENT_BAR_S, MEMORY_BAR_MB = 0.050, 1.0, 200
_SERVICE = {"mean_s": 1.0, "scv": 1.0}
#: Prints its own memory in MB: before, with all jobs taken, and after a restart; and both times.
_WAITING = """
import json, sys, time, psutil
from foretell.adapters.dispatcher.dispatcher import Dispatcher
values = json.loads(sys.argv[1])
memory = lambda: psutil.Process().memory_info().rss / 1e6
n_jobs, job = values.pop("n_jobs"), values.pop("job")
found = {"before_mb": memory()}
for name, n_new in (("taken", n_jobs), ("restart", 0)):
    began = time.perf_counter()
    with Dispatcher(**values) as dispatcher:
        for i in range(n_new):
            dispatcher.submit({**job, "name": f"job {i}"})
        found[f"{name}_s"] = time.perf_counter() - began
        found[f"{name}_mb"] = memory()
        found["n"] = dispatcher.status().n_waiting
print(json.dumps(found))
"""


def queue(**values: object) -> dict[str, object]:
    """Describe a queue of two classes."""
    classes = [{"name": n, "rate_per_s": 1.0, "service": _SERVICE} for n in ("low", "high")]
    return {"class": classes, **values}


def quantile(values: list[float], share: float) -> float:
    """Return the value that this share of values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def measure_dispatch(folder: Path, n_jobs: int) -> list[float]:
    """Return how long each start took after the engine was free."""
    found: list[float] = []

    def tell(event: Event) -> None:
        if event.kind == "started" and event.latency_s is not None:
            found.append(event.latency_s)

    with Dispatcher(queue(), state=folder / "state", spool=None, tell=tell) as dispatcher:
        for i in range(n_jobs):
            dispatcher.submit({"class": ("low", "high")[i % 2], "run": ["true"]})
        dispatcher.run(until_empty=True)
    return found[1:]  # the first did not wait for the engine


def measure_waiting(folder: Path, n_jobs: int) -> dict[str, float]:
    """Let a new process take many jobs, and start again with all of them waiting."""
    job = {"class": "low", "run": ["python", "count.py", "--input", "posts.xml"],
           "arguments": {"top": 1000, "language": "en"}}  # fmt: skip
    values = {"queue": queue(), "state": str(folder / "state"), "spool": None,
              "n_jobs": n_jobs, "job": job}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", _WAITING, json.dumps(values)], capture_output=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    assert found["n"] == n_jobs, found
    return found


def measure_overspent(folder: Path, n_sprints: int, budget_s: float) -> list[float]:
    """Return by how many seconds each sprint was longer than its budget."""
    sprint = {
        "mechanism": "command", "speedup": 2.0, "base_w": 100, "sprint_w": 200,
        "budget_j": 100 * budget_s, "refill_w": 0.0,
        "settings": {"on": ["true"], "off": ["true"]},
    }  # fmt: skip
    described = queue(sprint=sprint)
    for each in described["class"]:  # type: ignore[attr-defined]
        each["sprint_after_s"] = 0.0
    found = []
    for i in range(n_sprints):
        place = folder / f"state-{i}"
        with Dispatcher(described, state=place, spool=None) as dispatcher:
            run = ["sleep", str(budget_s + 0.5)]
            dispatcher.submit({"class": "low", "run": run})
            dispatcher.run(until_empty=True)
        (row,) = read_rows(place / "runs.csv")
        found.append(float(row["sprint_s"]) - budget_s)
    return found


def verdict(is_held: bool) -> str:
    return "holds" if is_held else "FALLS SHORT"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--sprints", type=int, default=5)
    given = parser.parse_args()
    began = time.monotonic()
    cpu_s = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        latencies = measure_dispatch(Path(folder), given.jobs)
    cpu_ms = 1000 * (time.process_time() - cpu_s) / given.jobs
    p50, p99, most = (1000 * quantile(latencies, q) for q in (0.5, 0.99, 1.0))
    bar = 1000 * DISPATCH_BAR_S
    print(f"dispatch after the engine is free, {given.jobs} jobs (measured)")
    print(f"  p50 {p50:.1f} ms   p99 {p99:.1f} ms   most {most:.1f} ms   "
          f"bar {bar:.0f} ms: {verdict(p99 <= bar)}   "
          f"(CPU time {cpu_ms:.1f} ms per job, with taking it)")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        waiting = measure_waiting(Path(folder), given.waiting)
    grown = waiting["taken_mb"] - waiting["before_mb"]
    print(f"{waiting['n']:,.0f} waiting jobs (measured)")
    print(f"  taken in {waiting['taken_s']:.2f} s   read again in {waiting['restart_s']:.2f} s   "
          f"memory +{grown:.0f} MB, then {waiting['restart_mb']:.0f} MB in all   "
          f"bar +{MEMORY_BAR_MB} MB: {verdict(grown <= MEMORY_BAR_MB)}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        overspent = measure_overspent(Path(folder), given.sprints, budget_s=5.0)
    print(f"{given.sprints} sprints with a budget of 5 s (measured)")
    print(f"  longest overspent by {max(overspent):.3f} s   bar {OVERSPENT_BAR_S:.0f} s: "
          f"{verdict(max(overspent) <= OVERSPENT_BAR_S)}")  # fmt: skip
    print(f"took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
