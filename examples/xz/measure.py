"""Time the program ``xz`` on generated files and collect the runs in a CSV file.

Every run compresses one file to /dev/null in a new process, and its wall time becomes one row
``content,size_mib,level,threads,time_s``. Each row is on disk before the next run starts, so an
interrupted measurement continues where it stopped when the same command is given again.

    python measure.py                                  # the whole grid, into runs.csv
    python measure.py --undisturbed                    # the same on a machine with other work
    python measure.py --redo-noisy                     # measure again where the repeats disagree
    python measure.py --configs new.csv --repeats 1 --out other.csv

Needs xz 5.2 or newer and numpy. The script makes its own input: the file of a given content and
size is always the same, byte for byte, as long as numpy keeps its random streams.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import platform
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

MIB = 2**20
BLOCK_MIB = 1  # xz gives each thread whole blocks: small ones let the threads matter at any size
NOISY = 0.25  # --redo-noisy measures a configuration again if its repeats spread by more
OTHER_LOAD = 0.1  # --undisturbed allows other programs this much of one core
TICKS = 0.03  # and as many seconds more, as the kernel counts in steps of 0.01 s
OLDEST_XZ = (5, 2)  # the first version with threads
HERE = Path(__file__).resolve().parent


class Config(NamedTuple):
    """What is varied from run to run."""

    content: str
    size_mib: int
    level: int
    threads: int


CONFIG_COLUMNS = list(Config._fields)
COLUMNS = [*CONFIG_COLUMNS, "time_s"]
Runs = dict[Config, list[float]]
Timer = Callable[[Path, Config], float]


class MeasureError(Exception):
    """Something the user has to settle before anything can be measured."""


# Content: each kind makes one MiB at a time from its own random stream, so that the file of
# 8 MiB is the beginning of the file of 16 MiB.


def make_vocabulary(size: int = 20_000) -> list[str]:
    """Distinct pronounceable words, the short ones first as in most languages."""
    rng = random.Random(1)
    syllables = [c + v for c in "bcdfghklmnprstvw" for v in ("a", "e", "i", "o", "u", "an", "er")]
    words: dict[str, None] = {}
    while len(words) < size:
        longest = 1 + len(words) * 4 // size
        words["".join(rng.choices(syllables, k=rng.randint(1, 1 + longest)))] = None
    return list(words)


VOCABULARY = make_vocabulary()
FREQUENCIES = 1 / (np.arange(len(VOCABULARY)) + 2.7)  # the law of Zipf and Mandelbrot
FREQUENCIES /= FREQUENCIES.sum()


def make_text(rng: np.random.Generator) -> bytes:
    """Prose: words as frequent as in a natural language, with punctuation."""
    count = MIB // 5
    words = rng.choice(len(VOCABULARY), size=count, p=FREQUENCIES)
    gaps = rng.choice([" ", ", ", ". ", ".\n"], size=count, p=[0.86, 0.07, 0.06, 0.01])
    return "".join(f"{VOCABULARY[w]}{g}" for w, g in zip(words, gaps, strict=True)).encode()


def make_log(rng: np.random.Generator) -> bytes:
    """Lines of a web server's log: few patterns, with times, addresses and durations."""
    count = MIB // 40
    clock = 1_700_000_000 + np.cumsum(rng.exponential(0.05, count)) + rng.integers(10**7)
    verbs = rng.choice(["GET", "GET", "GET", "POST", "PUT"], count)
    pages = rng.choice(200, size=count, p=FREQUENCIES[:200] / FREQUENCIES[:200].sum())
    items = rng.integers(1, 5000, count)
    codes = rng.choice([200, 304, 404, 500], size=count, p=[0.85, 0.09, 0.05, 0.01])
    hosts = rng.zipf(1.3, count) % 65536
    millis = rng.lognormal(3, 1, count)
    return "".join(
        f"{c:.3f} 10.0.{h >> 8}.{h & 255} {v} /{VOCABULARY[p + 500]}/{i} {s} {m:.1f}ms\n"
        for c, h, v, p, i, s, m in zip(
            clock, hosts, verbs, pages, items, codes, millis, strict=True
        )
    ).encode()


def make_mixed(rng: np.random.Generator) -> bytes:
    """What an archive of a project may hold: text, logs, measured series, packed data."""
    part = MIB // 16
    series = np.cumsum(rng.normal(0, 40, MIB // 16), dtype=float).astype("<i4").tobytes()
    sources = [make_text(rng), make_log(rng), series, rng.bytes(4 * part)]
    pieces = [source[i * part : (i + 1) * part] for source in sources for i in range(4)]
    return b"".join(pieces[i] for i in rng.permutation(len(pieces)))


CONTENTS: dict[str, Callable[[np.random.Generator], bytes]] = {
    "text": make_text,
    "log": make_log,
    "mixed": make_mixed,
}


def make_file(path: Path, content: str, size_mib: int) -> None:
    """Write the file of this content and size; reading it later comes from memory."""
    kind = list(CONTENTS).index(content)
    with path.open("wb") as file:
        for index in range(size_mib):
            chunk = CONTENTS[content](np.random.default_rng([kind, index]))[:MIB]
            assert len(chunk) == MIB, (content, index, len(chunk))
            file.write(chunk)


def make_files(folder: Path, configs: Iterable[Config]) -> dict[tuple[str, int], Path]:
    """The input files that these configurations need."""
    files = {}
    for content, size_mib in sorted({(c.content, c.size_mib) for c in configs}):
        path = folder / f"{content}-{size_mib}"
        make_file(path, content, size_mib)
        files[content, size_mib] = path
    return files


# Measuring.


def time_xz(path: Path, config: Config) -> float:
    """Seconds from starting the process ``xz`` to its end."""
    command = [
        "xz",
        "--stdout",
        "--keep",
        f"-{config.level}",
        f"--threads={config.threads}",
        f"--block-size={BLOCK_MIB}MiB",
        str(path),
    ]
    environment = {k: v for k, v in os.environ.items() if k not in ("XZ_OPT", "XZ_DEFAULTS")}
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, env=environment, check=True)
    return time.perf_counter() - start


def others_cpu() -> float:
    """CPU seconds that all but this script and its xz have used so far (0 if not on Linux)."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _, _, irq, softirq, steal = map(int, stat.read_text().split()[1:9])
    total = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    own = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return total - sum(usage.ru_utime + usage.ru_stime for usage in own)


def time_undisturbed(path: Path, config: Config) -> float:
    """Like time_xz, but runs it again until other programs leave the machine alone.

    What decides is the CPU time that the others used during the run, never how long it took.
    """
    while True:
        before = others_cpu()
        seconds = time_xz(path, config)
        if others_cpu() - before <= OTHER_LOAD * seconds + TICKS:
            return seconds
        print("disturbed:", *config, f"{seconds:.3f}", flush=True)
        while True:  # one quiet second, then the next attempt
            before = others_cpu()
            time.sleep(1)
            if others_cpu() - before <= OTHER_LOAD + TICKS:
                break


def plan(configs: Sequence[Config], repeats: int, done: Runs, seed: int) -> list[Config]:
    """The runs still to do: every configuration once in random order, then all of them again."""
    rng = random.Random(seed)
    runs = []
    for repeat in range(repeats):
        order = sorted(set(configs))
        rng.shuffle(order)
        runs += [c for c in order if len(done.get(c, ())) <= repeat]
    return runs


def measure(out: Path, runs: Sequence[Config], folder: Path, timer: Timer) -> None:
    """Do these runs and append each to the table as it ends."""
    files = make_files(folder, runs)
    first = runs[0]
    time_xz(files[first.content, first.size_mib], first)  # warm-up: loads the program
    start = time.perf_counter()
    with out.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, config in enumerate(runs, 1):
            seconds = timer(files[config.content, config.size_mib], config)
            writer.writerow([*config, f"{seconds:.6f}"])
            file.flush()
            os.fsync(file.fileno())
            if number % 20 == 0 or number == len(runs):
                print(f"{number}/{len(runs)} runs, {time.perf_counter() - start:.0f} s", flush=True)


# The table on disk.


def parse_config(row: dict[str, str]) -> Config:
    """The configuration in a row; its other columns do not matter."""
    if any(row.get(name) is None for name in CONFIG_COLUMNS):
        raise ValueError(f"expected the columns {','.join(CONFIG_COLUMNS)}")
    config = Config(row["content"], *(int(row[name]) for name in CONFIG_COLUMNS[1:]))
    if config.content not in CONTENTS or config.size_mib < 1:
        raise ValueError(f"there is no content {config.content!r} of {config.size_mib} MiB")
    return config


def read_runs(out: Path) -> Runs:
    """The finished runs by configuration; creates the table if there is none yet.

    A last line without its end was cut off by an interruption and is removed. Anything else
    that this script would not have written is refused and left as it is.
    """
    header = ",".join(COLUMNS)
    if not out.exists() or not out.stat().st_size:
        out.write_text(header + "\n")
    text = out.read_text()
    lines = text.splitlines()
    if lines[0] != header or "\n" not in text:
        raise MeasureError(f"{out} has another layout; expected the columns {header}")
    if not text.endswith("\n"):
        lines.pop()
    runs: Runs = defaultdict(list)
    for number, row in enumerate(csv.DictReader(lines), 2):
        try:
            runs[parse_config(row)].append(float(row["time_s"] or ""))
        except ValueError as error:
            raise MeasureError(f"{out}, line {number}: {error}") from error
    if not text.endswith("\n"):
        replace_file(out, "\n".join(lines) + "\n")
    return runs


def replace_file(path: Path, text: str) -> None:
    """Give a file a new text; an interruption leaves the old one or the new one."""
    draft = path.with_name(path.name + ".tmp")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def spread(times: Sequence[float]) -> float:
    """How far the repeats of one configuration lie apart, relative to their median."""
    return float((max(times) - min(times)) / np.median(times))


def drop_noisy(out: Path, done: Runs, configs: Iterable[Config]) -> None:
    """Remove all the repeats of those that are noisy, which then count as not yet run."""
    noisy = [c for c in sorted(set(configs)) if c in done and spread(done[c]) > NOISY]
    for config in noisy:
        print("again:", *config, "took", *(f"{t:.3f}" for t in done.pop(config)))
    if noisy:
        kept = []
        for line in out.read_text().splitlines():
            if not any(line.startswith(",".join(map(str, config)) + ",") for config in noisy):
                kept.append(line)
        replace_file(out, "\n".join(kept) + "\n")


# The machine.


def xz_version() -> str:
    """The version of the xz that will be timed."""
    try:
        answer = subprocess.run(["xz", "--version"], capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise MeasureError("there is no program xz on this machine") from None
    found = re.search(r"(\d+)\.(\d+)\.\d+", answer.stdout)
    if not found or (int(found[1]), int(found[2])) < OLDEST_XZ:
        raise MeasureError(f"xz 5.2 or newer is needed, not: {answer.stdout.splitlines()[:1]}")
    return str(found[0])


def cpu_model() -> str:
    """The processor's name as Linux reports it, with what is known of its model number."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    fields: dict[str, str] = dict(
        re.findall(r"^(model name|cpu family|model)\s*: (.*)$", text, re.MULTILINE)
    )
    name = fields.get("model name", platform.processor() or platform.machine())
    if "model" in fields:
        name += f" (family {fields['cpu family']}, model {fields['model']})"
    return name


def describe_machine() -> dict[str, str | int | float]:
    """What the times depend on besides the configuration."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count() or 1,
        "memory_gib": round(memory / 2**30, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "xz": xz_version(),
        "block_mib": BLOCK_MIB,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def record_machine(path: Path) -> None:
    """Write the machine's description, or check that the one on disk is of this machine."""
    machine = describe_machine()
    if not path.exists():
        replace_file(path, json.dumps(machine, indent=2) + "\n")
        return
    known = json.loads(path.read_text())
    other = [k for k, v in machine.items() if k != "date" and known.get(k) != v]
    if other:
        raise MeasureError(
            f"{path} describes another machine ({', '.join(other)} differ); "
            "write to another folder with --out"
        )


# The command line.


def positive(text: str) -> int:
    """A whole number above zero."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--out", type=Path, default=HERE / "runs.csv", help="table to start or to continue")
    add("--content", nargs="+", choices=list(CONTENTS), default=list(CONTENTS))
    add("--size-mib", nargs="+", type=positive, default=[1, 2, 4, 8, 16, 32])
    add("--level", nargs="+", type=int, choices=range(10), default=[0, 1, 3, 6])
    add("--threads", nargs="+", type=positive, default=[1, 2])
    add("--configs", type=Path, help="CSV file with the configurations, instead of the grid")
    add("--repeats", type=positive, default=3, help="runs of each configuration")
    add("--seed", type=int, default=0, help="of the order of the runs")
    add(
        "--undisturbed",
        action="store_true",
        help="repeat a run if other programs used the processor during it",
    )
    add(
        "--redo-noisy",
        action="store_true",
        help=f"first drop the configurations whose repeats spread by more than {NOISY:.0%}%",
    )
    return parser.parse_args(arguments)


def wanted(options: argparse.Namespace) -> list[Config]:
    """The configurations that the options ask for."""
    if options.configs is None:
        grid = product(options.content, options.size_mib, options.level, options.threads)
        return [Config(*point) for point in grid]
    try:
        with options.configs.open(newline="") as file:
            return [parse_config(row) for row in csv.DictReader(file)]
    except (ValueError, OSError) as error:
        raise MeasureError(f"{options.configs}: {error}") from error


def summarize(done: Runs) -> None:
    """Print how many runs there are and how well the repeats agree."""
    print(f"{sum(map(len, done.values()))} runs of {len(done)} configurations")
    spreads = [spread(times) for times in done.values() if len(times) > 1]
    if spreads:
        middle, high = np.quantile(spreads, [0.5, 0.9])
        noisy = sum(s > NOISY for s in spreads)
        print(
            f"spread of the repeats: median {middle:.1%}, 90th percentile {high:.1%}, "
            f"largest {max(spreads):.1%}; {noisy} above {NOISY:.0%}"
        )


def main() -> int:
    """Measure what is still missing."""
    options = parse_arguments()
    memory = Path("/dev/shm")
    try:
        configs = wanted(options)
        done = read_runs(options.out)
        record_machine(options.out.with_name("machine.json"))
        if options.redo_noisy:
            drop_noisy(options.out, done, configs)
        runs = plan(configs, options.repeats, done, options.seed)
        if runs:
            with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
                timer = time_undisturbed if options.undisturbed else time_xz
                measure(options.out, runs, Path(folder), timer)
        summarize(read_runs(options.out))
    except MeasureError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command continues", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
