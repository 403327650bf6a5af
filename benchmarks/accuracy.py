"""How far off automatic mode is on runs it has not seen, next to a campaign of usual techniques.

    python -m benchmarks.accuracy [--time-limit S] [--jobs N] [--tasks PATTERN]

Tasks are cut from tables that this project measured: a random fifth of the configurations, levels
left out in the middle, the upper end of a column left out, and training on 30 runs. All goes
through the command line. Peers are techniques of a campaign file fitted on the same rows.
"""

from __future__ import annotations

import argparse
import fnmatch
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
TARGET = "time_s"
_FLOOR = 0.005  # errors below half a percent count as half a percent

#: Table, and the columns that are cut in the middle and at the upper end.
TABLES = {
    "xz": (ROOT / "examples/xz/runs.csv", ["size_mib", "level"]),
    "matrix": (ROOT / "benchmarks/data/matrix.csv", ["rows"]),
    "query": (ROOT / "benchmarks/data/query.csv", ["rows", "groups"]),
    "reads": (ROOT / "benchmarks/data/reads.csv", ["size_kib", "reads"]),
}
_CAMPAIGN = """
score = "mape"
[data]
path = "train.csv"
target = "time_s"
[validation]
method = "HoldOut"
ratio = 0.2
[search.splits]
method = "KFold"
folds = 5
[techniques.LRRidge]
[techniques.XGBoost]
[techniques.RandomForest]
"""


@dataclass(frozen=True)
class Task:
    """Rows to train on and rows to predict."""

    name: str
    kind: str
    train: pd.DataFrame
    test: pd.DataFrame


def tasks() -> Iterator[Task]:
    """Cut every table in every way."""
    for name, (path, columns) in TABLES.items():
        if not path.exists():
            continue
        frame = pd.read_csv(path)
        settings = [c for c in frame.columns if c != TARGET]
        configuration = frame.groupby(settings).ngroup().to_numpy()
        random = np.random.default_rng(5)
        order = random.permutation(configuration.max() + 1)
        held = np.isin(configuration, order[: len(order) // 5])
        yield Task(f"{name}--holdout", "holdout", frame[~held], frame[held])
        for column in columns:
            yield from _cut(name, column, frame)
        few = np.isin(np.arange(len(frame)), random.permutation(len(frame))[:30])
        yield Task(f"{name}--small-30", "small", frame[few], frame[~few])


def _cut(name: str, column: str, frame: pd.DataFrame) -> Iterator[Task]:
    levels = np.unique(frame[column])
    top = frame[column] >= levels[-max(1, len(levels) // 3)]
    yield Task(f"{name}--beyond-{column}", "beyond", frame[~top], frame[top])
    middle = frame[column].isin(levels[2:-1:2] if len(levels) > 4 else levels[1:2])
    yield Task(f"{name}--between-{column}", "between", frame[~middle], frame[middle])


def main() -> None:
    """Run all tasks and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time-limit", type=float, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tasks", default="*")
    given = parser.parse_args()
    chosen = [t for t in tasks() if fnmatch.fnmatch(t.name, given.tasks)]
    names = ["LRRidge", "XGBoost", "RandomForest"]
    print(
        f"{'task':28s} {'automatic':>9s} {'held':>5s} {'width':>6s} {'fit s':>6s}  "
        + "  ".join(names)
    )
    rows = []
    for task in chosen:
        ours = _automatic(task, given.time_limit, given.jobs)
        peers = _campaign(task, given.jobs)
        rows.append((task.kind, ours, min(peers.values())))
        print(
            f"{task.name:28s} {100 * ours.error:8.1f}% {ours.held:5.2f} {ours.width:5.2f}× "
            f"{ours.seconds:6.1f}  "
            + "  ".join(f"{100 * peers[n]:{len(n) - 1}.1f}%" for n in names),
            flush=True,
        )
    _print_summary(rows)


@dataclass(frozen=True)
class Outcome:
    """How automatic mode did on a task.

    ``held`` is the share of measured values within the interval, ``width`` the median ratio of its
    ends.
    """

    error: float
    held: float
    width: float
    seconds: float


def _print_summary(rows: list[tuple[str, Outcome, float]]) -> None:
    for kind in ["all", *dict.fromkeys(r[0] for r in rows)]:
        of_kind = [(ours, peer) for name, ours, peer in rows if kind in ("all", name)]
        ratios = [np.log(max(ours.error, _FLOOR) / max(peer, _FLOOR)) for ours, peer in of_kind]
        wins = sum(ours.error < peer for ours, peer in of_kind)
        held = np.mean([ours.held for ours, _ in of_kind])
        width = np.median([ours.width for ours, _ in of_kind])
        print(
            f"{kind:10s} {np.exp(np.mean(ratios)):5.2f} × the error of the best of the three, "
            f"better on {wins} of {len(of_kind)}; intervals hold {held:.2f} of the runs, "
            f"median width {width:.2f}×"
        )
    print(f"median fit {np.median([ours.seconds for _, ours, _ in rows]):.1f} s")


def _automatic(task: Task, limit_s: float, jobs: int) -> Outcome:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(task, folder)
        started = time.perf_counter()
        _foretell(folder, "fit", "train.csv", "--target", TARGET, "-o", "out",
                  "--time-limit", limit_s, "--jobs", jobs)  # fmt: skip
        seconds = time.perf_counter() - started
        _foretell(folder, "predict", "out", "test.csv", "-o", "predicted.csv")
        predicted = pd.read_csv(folder / "predicted.csv")
    truth = task.test[TARGET].to_numpy()
    error = np.mean(np.abs(predicted["prediction"] - truth) / truth)
    held = np.mean((predicted["lower"] <= truth) & (truth <= predicted["upper"]))
    width = np.median(predicted["upper"] / predicted["lower"])
    return Outcome(float(error), float(held), float(width), seconds)


def _campaign(task: Task, jobs: int) -> dict[str, float]:
    truth = task.test[TARGET].to_numpy()
    errors = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(task, folder)
        (folder / "campaign.toml").write_text(_CAMPAIGN)
        _foretell(folder, "fit", "campaign.toml", "-o", "out", "--jobs", jobs)
        for technique in ("LRRidge", "XGBoost", "RandomForest"):
            model, output = f"out/{technique}.foretell", f"{technique}.csv"
            _foretell(folder, "predict", model, "test.csv", "-o", output)
            predicted = pd.read_csv(folder / output)["prediction"]
            errors[technique] = float(np.mean(np.abs(predicted - truth) / truth))
    return errors


def _write(task: Task, folder: Path) -> None:
    task.train.to_csv(folder / "train.csv", index=False)
    task.test.drop(columns=TARGET).to_csv(folder / "test.csv", index=False)


def _foretell(folder: Path, *words: object) -> None:
    command = [sys.executable, "-m", "foretell", *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} failed: {done.stderr[-1000:]}")


if __name__ == "__main__":
    main()
