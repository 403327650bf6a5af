"""What must hold of co-runs: speed of the model, cost of sampling, size of files, and its errors.

    python -m benchmarks.corun

Errors are those of the measured co-runs in examples/corun/; times are measured here. The exit code
is 1 if anything does not hold.
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import sys
import time
from pathlib import Path

from foretell.corun.machine import read_machine
from foretell.corun.models.score import score_co_runs
from foretell.corun.models.validation import mape
from foretell.corun.running.together import JobOrder, run_together
from foretell.decide.corun.fluid import play_together
from foretell.decide.corun.jobs import BANDWIDTH, CPU, DISK, Capacity, CoJob, JobNeeds, Phase

MEASURED = Path(__file__).parents[1] / "examples" / "corun" / "measured"
SPIN = "import time\nwhile time.process_time() < 3: pass"
MANY = """
import os, time
reader, writer = os.pipe()
children = []
for _ in range({0}):
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    children.append(child)
time.sleep(9)
os.close(writer)
for child in children:
    os.waitpid(child, 0)
"""
#: The bars: of pairs that were seen, and of everything else.
BARS = {"pairs, seen": 0.08}
OTHER_BAR = 0.15


def speed() -> tuple[str, bool]:
    """Time ten jobs of sixteen phases that contend for everything."""
    draw = random.Random(0)
    jobs = [
        CoJob(
            JobNeeds(
                str(k),
                tuple(
                    Phase(
                        draw.uniform(1, 9),
                        {
                            CPU: draw.uniform(0, 4),
                            BANDWIDTH: draw.uniform(0, 9),
                            DISK: draw.random(),
                        },
                        draw.uniform(1, 6),
                    )
                    for _ in range(16)
                ),
            ),
            draw.uniform(0, 20),
        )
        for k in range(10)
    ]
    times = []
    for _ in range(9):
        began = time.process_time()
        play_together(jobs, Capacity(8, bandwidth=20.0, disk=1.0))
        times.append(time.process_time() - began)
    median = statistics.median(times)
    return f"ten jobs of 16 phases: {1e3 * median:.1f} ms of CPU time (bar: 50 ms)", median < 0.05


def overhead() -> tuple[str, bool]:
    """Compare CPU time of the watcher with the time of the job."""
    is_root = os.geteuid() == 0
    done = run_together([JobOrder("spin", (sys.executable, "-c", SPIN))], priority=is_root)
    share = done.overhead
    return f"sampling a job of 3 s: {100 * share:.2f} % of a core (bar: 2 %)", share <= 0.02


def many_processes() -> tuple[str, bool]:
    """Sample a tree of 10,000 processes."""
    n = 10_000
    limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    n = n if limit == resource.RLIM_INFINITY else min(n, limit // 2)
    done = run_together([JobOrder("many", (sys.executable, "-c", MANY.format(n)))])
    job = done.jobs[0]
    seen = int(job.trace.columns["n_processes"].max())
    text = (
        f"a tree of {n:,} processes, {seen:,} of them seen at once: {len(job.trace)} samples, "
        f"{100 * done.overhead:.1f} % of a core, {job.failure or 'no failure'}"
    )
    return text, not job.failure and seen >= n // 2


def accuracy() -> list[tuple[str, bool]]:
    """Judge the models on the measured co-runs."""
    scores = score_co_runs(MEASURED, machine=read_machine(MEASURED / "this.machine"))
    print(scores)
    found = []
    for question, predictions in scores.used.items():
        error = mape(predictions)
        bar = BARS.get(question, OTHER_BAR)
        found.append((f"{question}: {100 * error:.1f} % (bar: {100 * bar:.0f} %)", error <= bar))
    for question, (gain, low, _) in scores.gains().items():
        best = scores.best_baselines[question]
        text = f"{question}: {100 * gain:.0f} % below {best}, 95 % above "
        found.append((f"{text}{100 * low:.0f} % (bar: 25 %, above 0)", gain >= 0.25 and low > 0))
    for question, share in scores.coverage().items():
        text = f"{question}: 90 % intervals cover {100 * share:.0f} % (bar: 85 to 95 %)"
        found.append((text, 0.85 <= share <= 0.95))
    return found


def main() -> int:
    rows = [speed(), overhead(), many_processes()]
    sizes = [p.stat().st_size for p in (MEASURED / "profiles").glob("*.profile")]
    rows.append((f"profiles of two seconds: {max(sizes):,} bytes at most", max(sizes) < 20_000))
    rows += accuracy()
    return report(rows)


def report(rows: list[tuple[str, bool]]) -> int:
    """Print what holds and what fails; return the exit code."""
    for text, is_held in rows:
        print(f"{'holds' if is_held else 'FAILS'}   {text}")
    return 0 if all(is_held for _, is_held in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
