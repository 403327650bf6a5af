"""Time whole commands, best of several, and print one table.

    python -m benchmarks [--only NAME] [--repeat N] [--jobs N] [--stereomatch FILE] [--against SRC]

Every case is a campaign run through the command line in a fresh process, everything included:
start-up, reading, search, validation, final fits, writing. Peak memory is that of the largest
process times the number of workers plus one, an upper bound. CPU time is that of all processes;
on a machine that others use as well, it says more than the time on the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import campaigns, tables


@dataclass(frozen=True)
class Case:
    """One campaign to time.

    ``baseline`` is what aMLLibrary needed on such a machine with one process. Where it was measured
    on a real table, it is shown for that table alone.
    """

    name: str
    campaign: Callable[[str], str]
    table: Callable[[Path], Path]
    flags: tuple[str, ...] = ()
    target_s: float | None = None
    baseline: str = "–"
    is_long: bool = False


CASES = [
    Case("stereo", campaigns.stereo, tables.stereo, (), None, "264.7 s, 8.09 %"),
    Case("stereo, racing", campaigns.stereo, tables.stereo, ("--racing",), 10, "264.7 s, 8.09 %"),
    Case(
        "ray table, reduced",
        campaigns.ray_reduced,
        tables.ray,
        (),
        10,
        "150 to 290 s (another table of this shape)",
    ),
    Case("ray table, full", campaigns.ray_full, tables.ray, (), 60, is_long=True),
    Case("32 rows, 720 trees", campaigns.few_rows, tables.few_rows),
    Case("3,648 products", campaigns.products, tables.wide),
    Case("million rows", campaigns.million, tables.million, is_long=True),
]


def main() -> None:
    """Run the cases asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--stereomatch", type=Path, help="the real Stereomatch table, if at hand")
    parser.add_argument(
        "--against",
        type=Path,
        metavar="SRC",
        help="the src/ of another version, which runs each case in turn with this one",
    )
    args = parser.parse_args()
    tables.STEREOMATCH = args.stereomatch
    time_start_up(args.repeat)
    print(
        f"\n{'case':<20} {'best':>8} {'worst':>8} {'CPU':>8} {'target':>8} {'MAPE':>8} "
        f"{'memory':>9}  aMLLibrary"
    )
    for case in CASES:
        if args.only in case.name:
            run(case, args.repeat if not case.is_long else 1, args.jobs, args.against)


def time_start_up(repeat: int) -> None:
    """Time what a user waits for before anything happens."""
    for words in (["-m", "foretell", "--help"], ["-c", "import foretell"], ["-c", "pass"]):
        times = [timed([sys.executable, *words]).wall_s for _ in range(max(repeat, 5))]
        print(f"python {' '.join(words):<24} best {min(times):.3f} s, worst {max(times):.3f} s")


def run(case: Case, repeat: int, jobs: int, against: Path | None) -> None:
    """Time one case and print its line; that of another version before it."""
    versions = [None] if against is None else [against, None]
    costs: dict[Path | None, list[Cost]] = {version: [] for version in versions}
    mape = {}
    with tempfile.TemporaryDirectory() as folder:
        table = case.table(Path(folder))
        campaign = Path(folder) / "campaign.ini"
        campaign.write_text(case.campaign(str(table)))
        for i in range(repeat):
            for version in versions:
                output = Path(folder) / f"out{i}-{versions.index(version)}"
                words = ["fit", campaign, "-o", output, "-j", jobs, "-q", *case.flags]
                costs[version].append(
                    timed([sys.executable, "-m", "foretell", *map(str, words)], version)
                )
                results = json.loads((output / "results.json").read_text())
                mape[version] = results["leaderboard"][0]["validation"]["mape"]["mean"]
    target = f"{case.target_s:g} s" if case.target_s else "–"
    is_comparable = case.table is not tables.stereo or tables.STEREOMATCH is not None
    baseline = case.baseline if is_comparable else "– (made table)"
    for version, taken in costs.items():
        times = [cost.wall_s for cost in taken]
        memory_gib = taken[-1].memory_gib * (jobs + 1)
        print(
            f"{case.name if version is None else '  other version':<20} "
            f"{min(times):>6.1f} s {max(times):>6.1f} s {_cpu_s(taken):>6.1f} s {target:>8} "
            f"{100 * mape[version]:>6.2f} % {memory_gib:>5.1f} GiB  {baseline}",
            flush=True,
        )
    if against is not None:
        ratio = _cpu_s(costs[against]) / _cpu_s(costs[None])
        print(f"  the other version takes {ratio:.2f} times as much CPU time")


@dataclass(frozen=True)
class Cost:
    """What a command took; memory is that of the largest process so far."""

    wall_s: float
    cpu_s: float
    memory_gib: float


def timed(words: list[str], source: Path | None = None) -> Cost:
    """Run a command and return what it took, with the version of foretell in another src/."""
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = str(source.resolve())
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(
        words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(seconds, cpu_s, after.ru_maxrss / 2**20)


def _cpu_s(costs: list[Cost]) -> float:
    return min(cost.cpu_s for cost in costs)


if __name__ == "__main__":
    main()
