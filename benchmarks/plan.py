"""How long a plan over a million configurations takes, and how much memory: the whole command.

python -m benchmarks.plan [--repeats 3]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FORETELL = [sys.executable, "-m", "foretell"]
#: 1,008,000 combinations, all inside the measured range.
SPACE = ["--vary", "size_mib=1..32:0.001291720", "--vary", "level=0..6", "--vary", "threads=1,2",
         "--vary", "content=log,mixed,text"]  # fmt: skip
PRICES = 'nodes = "threads"\nprice_per_hour = 0.2\npower_w = 30\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = ROOT / "examples/xz/runs.csv"
        fit = [*FORETELL, "fit", str(table), "--target", "time_s", "-o", str(folder / "xz"), "-q"]
        subprocess.run(fit, check=True, stdout=subprocess.DEVNULL)
        (folder / "prices.toml").write_text(PRICES)
        command = [*FORETELL, "plan", str(folder / "xz"), *SPACE, "--prices",
                   str(folder / "prices.toml"), "--deadline", "8s", "--budget", "1"]  # fmt: skip
        for _ in range(given.repeats):
            started_s = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            told = process.stdout.read().splitlines()
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - started_s
            print(
                f"{seconds:5.1f} s   {usage.ru_maxrss / 1024:.0f} MiB   exit {status}   {told[0]}"
            )


if __name__ == "__main__":
    main()
