"""What must hold of co-runs: speed, cost of sampling, size of files, errors, and groups.

    python -m benchmarks.corun

Errors are those of the measured co-runs in examples/corun/; times are measured here. The exit code
is 1 if anything does not hold.
"""

from __future__ import annotations

import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from itertools import combinations
from pathlib import Path

import numpy as np

from foretell.corun.calibration import PAIR, SHIFTED
from foretell.corun.machine import read_machine
from foretell.corun.models.cases import Case, Measurement, read_measurement
from foretell.corun.models.gru.train import GruOptions, train_network
from foretell.corun.models.score import score_co_runs
from foretell.corun.models.validation import mape
from foretell.corun.predict import predict_together
from foretell.corun.profile import read_profile
from foretell.corun.running.child import COLUMNS, MOST_SAMPLES
from foretell.corun.running.together import JobOrder, run_together
from foretell.decide.corun.fluid import play_together
from foretell.decide.corun.grouping import GroupEnds, best_plan
from foretell.decide.corun.jobs import BANDWIDTH, CPU, DISK, Capacity, CoJob, JobNeeds, Phase
from foretell.traces import Trace

EXAMPLES = Path(__file__).parents[1] / "examples" / "corun"
#: Two measurements: with other programs beside, before which jobs ran; and on an idle machine.
MEASURED, IDLE = EXAMPLES / "measured", EXAMPLES / "measured-idle"
_WRITERS = frozenset({"tar", "write"})
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
    median = _cpu_s(lambda: play_together(jobs, Capacity(8, bandwidth=20.0, disk=1.0)))
    return f"ten jobs of 16 phases: {1e3 * median:.1f} ms of CPU time (bar: 50 ms)", median < 0.05


def whole_speed() -> tuple[str, bool]:
    """Time a prediction of ten profiles as a user has it: phases, ends, intervals and notes."""
    machine = read_machine(MEASURED / "this.machine")
    files = sorted((MEASURED / "profiles").glob("*.profile"))[:10]
    profiles = [read_profile(file) for file in files]
    median = _cpu_s(lambda: predict_together(profiles, machine=machine))
    return f"ten measured profiles: {1e3 * median:.1f} ms of CPU time (bar: 50 ms)", median < 0.05


def _cpu_s(work: Callable[[], object]) -> float:
    times = []
    for _ in range(9):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return statistics.median(times)


def overhead() -> list[tuple[str, bool]]:
    """Compare a job with and without samples, in turns, and CPU time of the watcher with both."""
    words = (sys.executable, "-c", SPIN)
    shares, slower = [], []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run(words, check=True)
        plain_s = time.perf_counter() - began
        done = run_together([JobOrder("spin", words)])
        shares.append(done.overhead)
        slower.append(done.jobs[0].wall_s / plain_s - 1)
    share, longer = statistics.median(shares), statistics.median(slower)
    return [
        (f"sampling a job of 3 s: {100 * share:.2f} % of a core (bar: 2 %)", share <= 0.02),
        (f"the job takes {100 * longer:+.2f} % longer for it (bar: 2 %)", longer <= 0.02),
    ]


def training() -> tuple[str, bool]:
    """Time the training of the sequence-to-sequence model on all measured pairs."""
    cases = read_measurement(MEASURED, MEASURED / "this.machine").cases
    began = time.perf_counter()
    train_network([case for case in cases if case.kind == PAIR], GruOptions())
    took_s = time.perf_counter() - began
    return f"training the GRU: {took_s:.0f} s (bar: 300 s)", took_s <= 300


def hour() -> tuple[str, bool]:
    """Write the samples of an hour: as many as there may be, with all their columns."""
    draw = np.random.default_rng(0)
    times = np.sort(draw.uniform(0, 3600, MOST_SAMPLES))
    trace = Trace(times, {name: draw.random(MOST_SAMPLES).cumsum() for name in COLUMNS})
    n_bytes = len(trace.to_bytes())
    return f"a trace of an hour: {n_bytes / 1e6:.2f} MB (bar: 1 MB)", n_bytes <= 1e6


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


def uncontended_noise(data: Measurement) -> float:
    """Return how far times are from those alone, in pairs that want no more than there is.

    What is left there is mostly the speed of the machine, which changes: no model can know it.
    Programs that write to the disk are left out.
    """
    off = [
        abs(case.walls_s[k] / case.alone_s(k) - 1)
        for case in data.cases
        if case.kind in {PAIR, SHIFTED} and not _WRITERS & set(case.programs)
        for k, job in enumerate(case.jobs)
        if case.fluid.ends_s[k] - job.start_s <= 1.001 * case.alone_s(k)
    ]
    return statistics.mean(off)


def grouped(data: Measurement) -> tuple[list[float], list[float]]:
    """Return how many times longer six programs take in the groups that the model chooses.

    Against the best groups in the measured matrix: in chosen groups, and one after the other.
    """
    pairs = {frozenset(case.programs): case for case in data.cases if case.kind == PAIR}
    names = sorted(data.profiles)
    alone = {name: profile.wall_s for name, profile in data.profiles.items()}
    draw = np.random.default_rng(0)
    ratios, in_turn = [], []
    for _ in range(40):
        some = sorted(draw.choice(names, 6, replace=False))
        if not any(frozenset(p) in pairs for p in combinations(some, 2)):
            continue
        measured, modelled = (_ends(some, pairs, alone, kind) for kind in ("walls", "fluid"))
        best_s = _length(best_plan(6, 1, measured), measured)
        ratios.append(_length(best_plan(6, 1, modelled), measured) / best_s)
        in_turn.append(sum(alone[n] for n in some) / best_s)
    return ratios, in_turn


def _ends(
    some: list[str], pairs: dict[frozenset[str], Case], alone: dict[str, float], kind: str
) -> Callable[[frozenset[int]], GroupEnds]:
    def ends(group: frozenset[int]) -> GroupEnds:
        own = [some[k] for k in sorted(group)]
        if len(own) == 1:
            return GroupEnds((alone[own[0]],), True)
        if len(own) > 2 or frozenset(own) not in pairs:  # what was not measured is not chosen
            return GroupEnds((1e9,) * len(own), False)
        case = pairs[frozenset(own)]
        times = case.walls_s if kind == "walls" else case.fluid.ends_s
        by_name = dict(zip(case.programs, times, strict=True))
        return GroupEnds(tuple(by_name[n] for n in own), True)

    return ends


def _length(plan: Iterable[Iterable[frozenset[int]]], ends: Callable[..., GroupEnds]) -> float:
    return sum(ends(group).length_s for own in plan for group in own)


def groups(folder: Path) -> tuple[str, bool]:
    """Judge groups by the measured matrix."""
    ratios, _ = grouped(read_measurement(folder, folder / "this.machine"))
    longer = statistics.mean(ratios) - 1
    text = f"groups take {100 * longer:.1f} % longer than the best on average, "
    return f"{text}{100 * (max(ratios) - 1):.1f} % at most (bar: 5 % on average)", longer <= 0.05


def accuracy(folder: Path) -> list[tuple[str, bool]]:
    """Judge the models on the measured co-runs."""
    scores = score_co_runs(folder, machine=read_machine(folder / "this.machine"))
    print(f"{folder.name}:\n{scores}")
    data = scores.measurement
    floor = f"{100 * data.noise:.1f} % alone, {100 * uncontended_noise(data):.1f} % in pairs"
    found = [(f"{folder.name}: noise floor {floor} that do not contend", True)]
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
    rows = [speed(), whole_speed(), *overhead(), many_processes(), hour(), training()]
    for folder in (MEASURED, IDLE):
        rows += [*accuracy(folder), groups(folder)]
    return report(rows)


def report(rows: list[tuple[str, bool]]) -> int:
    """Print what holds and what fails; return the exit code."""
    for text, is_held in rows:
        print(f"{'holds' if is_held else 'FAILS'}   {text}")
    return 0 if all(is_held for _, is_held in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
