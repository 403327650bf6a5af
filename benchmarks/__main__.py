"""Time whole commands, best of several, and print one table.

    python -m benchmarks [--only NAME] [--repeat N] [--jobs N] [--stereomatch FILE]

Every case is a campaign run through the command line in a fresh process, everything included:
start-up, reading, search, validation, final fits, writing. Peak memory is that of the largest
process times the number of workers plus one, an upper bound.
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
    args = parser.parse_args()
    tables.STEREOMATCH = args.stereomatch
    time_start_up(args.repeat)
    print(
        f"\n{'case':<20} {'best':>8} {'worst':>8} {'target':>8} {'MAPE':>8} {'memory':>9}"
        "  aMLLibrary"
    )
    for case in CASES:
        if args.only in case.name:
            run(case, args.repeat if not case.is_long else 1, args.jobs)


def time_start_up(repeat: int) -> None:
    """Time what a user waits for before anything happens."""
    for words in (["-m", "foretell", "--help"], ["-c", "import foretell"], ["-c", "pass"]):
        times = [timed([sys.executable, *words])[0] for _ in range(max(repeat, 5))]
        print(f"python {' '.join(words):<24} best {min(times):.3f} s, worst {max(times):.3f} s")


def run(case: Case, repeat: int, jobs: int) -> None:
    """Time one case and print its line."""
    with tempfile.TemporaryDirectory() as folder:
        table = case.table(Path(folder))
        campaign = Path(folder) / "campaign.ini"
        campaign.write_text(case.campaign(str(table)))
        times = []
        for i in range(repeat):
            output = Path(folder) / f"out{i}"
            words = ["fit", campaign, "-o", output, "-j", jobs, "-q", *case.flags]
            seconds, memory_gib = timed([sys.executable, "-m", "foretell", *map(str, words)])
            times.append(seconds)
        results = json.loads((output / "results.json").read_text())
        mape = results["leaderboard"][0]["validation"]["mape"]["mean"]
    target = f"{case.target_s:g} s" if case.target_s else "–"
    is_comparable = case.table is not tables.stereo or tables.STEREOMATCH is not None
    baseline = case.baseline if is_comparable else "– (made table)"
    print(
        f"{case.name:<20} {min(times):>6.1f} s {max(times):>6.1f} s {target:>8} "
        f"{100 * mape:>6.2f} % {memory_gib * (jobs + 1):>5.1f} GiB  {baseline}",
        flush=True,
    )


def timed(words: list[str]) -> tuple[float, float]:
    """Run a command; return its wall time and the largest process it has had, in GiB."""
    started = time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
