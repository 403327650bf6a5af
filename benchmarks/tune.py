"""How much sooner searches end with system settings tuned, on a real Ray Tune (measured).

    python -m benchmarks.tune [--short] [--seeds 0 1 2 3 4] [--workloads LeNet ...]
                              [--schedulers asha hyperband] [--ways v1 ...] [--results FILE]
                              [--trials N] [--max-epochs N] [--busy N] [--summary]

The same search, configurations and seeds, in these ways:

    v1          all cores per trial, default threads: PipeTune's Tune V1, the base of all ratios
    static 1    one core per trial, two trials at a time (Ray then gives Torch one thread)
    static 2x1  all cores per trial, one thread
    v2          all cores per trial, threads drawn as one more hyperparameter: Tune V2
    hook        all cores per trial with the three lines; the store empty, then warm (`--ways`)
    ours        the same with the first lease that foretell chooses; the store empty, then warm
    paper       all cores per trial, PipeTune's algorithm as published; the store empty, then warm

The machine must do nothing else: searches in which other programs used much of it are not compared.
`--busy 1` keeps one core busy in all ways, as other jobs of the same machine do.
By default it takes about 50 minutes. Every finished search is a line in the file of results; a run
that is started again makes only those that are missing on this machine, or were disturbed. A warm
search begins with a copy of the store of its cold one; where that is gone, the cold one is made
again. `--summary` only prints results.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cores_of_others import CoresOfOthers
from benchmarks.tune_table import MOST_OF_OTHERS, WAYS, compare, pairs_of, quiet, search_of
from foretell.measure.running.machine import describe_machine, describe_versions
from foretell.tune.store.store import machine_id

FACTOR, N_CORES = 3, 2
#: PipeTune's table for LeNet on MNIST (published): seconds of tuning.
PUBLISHED = {"v1": 4575, "v2": 4817, "paper": 3415}
BARS = {"ours cold": 0.90, "ours warm": 0.75}
#: The three lines alone are as slow as v1 where two threads are faster than one; on request only.
ON_REQUEST = ("hook cold", "hook warm")
#: The networks, and what is drawn of their width.
WIDTHS = {"LeNet": [6, 12], "perceptron": [64, 256], "bag of words": [50, 300]}


def configurations(workload: str, seed: int, n: int) -> list[dict[str, Any]]:
    """Draw the trials of a search."""
    random = np.random.default_rng([15, seed + 1])
    return [
        {
            "lr": float(10 ** random.uniform(-2.5, -0.7)),
            "batch_size": int(random.choice([16, 32, 64, 128])),
            "width": int(random.choice(WIDTHS[workload])),
            "seed": int(random.integers(1 << 30)),
            "drawn_threads": int(random.choice([1, 2])),
        }
        for _ in range(n)
    ]


def train(config: dict[str, Any], data: Any, workload: str, way: str, store: str) -> None:
    """Train one trial, in the way of a row of the table."""
    import torch
    from ray import tune

    from benchmarks.networks import accuracy, case_of, train_epoch

    params = {name: config[name] for name in ("lr", "batch_size", "width")}
    threads = {"static 2x1": 1, "v2": config["drawn_threads"]}.get(way)
    # Actors are reused: what an earlier trial has set must not last.
    default = int(os.environ.get("OMP_NUM_THREADS") or config["cpus"])
    torch.set_num_threads(threads or default)
    torch.manual_seed(config["seed"])
    case = case_of(workload)
    net = case.build({"width": config["width"], "dropout": 0.0})
    optimizer = case.optimizer(net.parameters(), lr=config["lr"])
    start, checkpoint = 0, tune.get_checkpoint()
    if checkpoint:
        state = torch.load(Path(checkpoint.path) / "state.pt")
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        start = state["epoch"] + 1
    epochs: Any = range(start, config["max_epochs"])
    kind = way.split()[0]
    if kind in ("hook", "ours", "paper"):
        from foretell.tune import pipeline

        mode = "paper" if kind == "paper" else "product"
        knobs = pipeline(workload, {"threads": [1, 2]}, params=params, store=store, mode=mode)
        epochs = knobs.epochs(epochs)
    for epoch in epochs:
        rows = torch.arange(len(data.known))
        train_epoch(net, optimizer, data, rows, config["batch_size"])
        with tempfile.TemporaryDirectory() as folder:
            state = {
                "net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch,
                "random": torch.get_rng_state(),
            }  # fmt: skip
            torch.save(state, Path(folder) / "state.pt")
            tune.report(
                {
                    "accuracy": accuracy(net, data),
                    "threads": torch.get_num_threads(),
                    "default": default,
                },
                checkpoint=tune.Checkpoint.from_directory(folder),
            )


def store_of(folder: Path, workload: str, scheduler: str, way: str, seed: int) -> Path:
    """Return where a search has its store."""
    return folder / f"{workload}-{scheduler}-{way.replace(' ', '-')}-{seed}.sqlite"


def prepared_store(folder: Path, workload: str, scheduler: str, way: str, seed: int) -> Path:
    """Return the store of a search as it is to begin: empty, or as the cold search left it.

    A search that was interrupted may have left something.
    """
    store = store_of(folder, workload, scheduler, way, seed)
    for ending in ("", "-wal", "-shm"):
        store.with_name(store.name + ending).unlink(missing_ok=True)
    if way.endswith("warm"):
        cold = store_of(folder, workload, scheduler, way.replace("warm", "cold"), seed)
        if not cold.exists():
            raise FileNotFoundError(f"{cold}: the store of the cold search; make that search first")
        with (
            contextlib.closing(sqlite3.connect(cold)) as source,
            contextlib.closing(sqlite3.connect(store)) as target,
        ):
            source.backup(target)
    return store


def missing(
    options: argparse.Namespace, path: Path, folder: Path
) -> list[tuple[str, str, str, int]]:
    """List the searches to be made; those that others disturbed are made again."""
    known = {(search_of(run), run["way"]) for run in quiet(read(path))}
    setup = (options.trials, options.max_epochs, options.busy)
    found = []
    for seed, workload, scheduler in itertools.product(
        options.seeds, options.workloads, options.schedulers
    ):
        own = workload, scheduler, seed, machine_id(), setup
        to_do = [way for way in options.ways if (own, way) not in known]
        for way in options.ways:
            has_store = store_of(folder, workload, scheduler, way, seed).exists()
            is_needed = way.endswith("cold") and way.replace("cold", "warm") in to_do
            if way in to_do or (is_needed and not has_store):
                found.append((workload, scheduler, way, seed))
    return found


@dataclass(frozen=True)
class Setup:
    """What is the same in all ways.

    Attributes
    ----------
    n_trials, max_epochs
        How many trials a search has, and how many epochs the longest of them.
    n_busy
        How many cores another program keeps busy meanwhile.
    """

    n_trials: int
    max_epochs: int
    n_busy: int = 0

    @property
    def folder(self) -> str:
        """The name of the folder of its stores: what a cold search left is of no other set-up."""
        return f"searches-{self.n_trials}-{self.max_epochs}-{self.n_busy}"


@contextlib.contextmanager
def busy(n_cores: int) -> Iterator[None]:
    """Keep some cores busy, as far as the scheduler of the system lets them be."""
    endless = [sys.executable, "-c", "while True: pass"]
    programs = [subprocess.Popen(endless) for _ in range(n_cores)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def search(
    workload: str, scheduler: str, way: str, seed: int, *, setup: Setup, folder: Path
) -> dict[str, Any]:
    """Run one search; return its time and its accuracy."""
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler, HyperBandScheduler

    from benchmarks.networks import case_of

    kind = way.split()[0]
    store = prepared_store(folder, workload, scheduler, way, seed)
    if way == "static 1":
        cpus = 1
    elif kind == "ours":
        from foretell.tune.ray import first_lease

        cpus = first_lease(store, workload, cpus=(1, N_CORES))
    else:
        cpus = N_CORES
    trials = configurations(workload, seed, setup.n_trials)
    rules: Any = (
        ASHAScheduler(max_t=setup.max_epochs, grace_period=1, reduction_factor=FACTOR)
        if scheduler == "asha"
        else HyperBandScheduler(max_t=setup.max_epochs, reduction_factor=FACTOR)
    )

    def run(config: dict[str, Any], data: Any) -> None:
        own = {**trials[config["number"]], "cpus": cpus, "max_epochs": setup.max_epochs}
        train(own, data, workload, way, str(store))

    trained = tune.with_parameters(run, data=case_of(workload).data())
    tuner = tune.Tuner(
        tune.with_resources(trained, {"cpu": cpus}),
        param_space={"number": tune.grid_search(list(range(setup.n_trials)))},
        tune_config=tune.TuneConfig(
            metric="accuracy", mode="max", scheduler=rules, reuse_actors=True
        ),
        run_config=tune.RunConfig(
            name=f"{workload}-{way.replace(' ', '-')}-{seed}-{time.time_ns()}",
            storage_path=str(folder), verbose=0,
        ),
    )  # fmt: skip
    begun = time.perf_counter()
    with busy(setup.n_busy), CoresOfOthers() as others:
        results = tuner.fit()
    wall_s = time.perf_counter() - begun
    assert not results.errors, results.errors
    frames = [r.metrics_dataframe for r in results]
    best = max(frames, key=lambda f: f["accuracy"].max())
    return {
        "workload": workload, "scheduler": scheduler, "way": way, "seed": seed, "cpus": cpus,
        "machine": machine_id(),
        "default_threads": int(frames[0]["default"].iloc[0]),
        "epochs_by_threads": {
            str(n): int(sum((f["threads"] == n).sum() for f in frames)) for n in (1, 2)
        },
        "n_trials": setup.n_trials, "max_epochs": setup.max_epochs, "n_busy": setup.n_busy,
        "wall_s": wall_s, "n_epochs": sum(map(len, frames)),
        "cores_of_others": round(others.cores, 2),
        "accuracy": float(best["accuracy"].max()),
        "best_trained_s": float(best["time_total_s"].iloc[-1]), "best_epochs": len(best),
    }  # fmt: skip


def overhead_ms(n_epochs: int = 60) -> dict[str, float]:
    """Time the hook around epochs of nothing, with an empty store and with 500 epochs in it."""
    from foretell.tune import open_store, pipeline
    from foretell.tune.store import EpochRow

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "store.sqlite")
        for name in ("empty", "500 epochs"):
            knobs = pipeline("job", {"threads": [1, 2]}, {"lr": 0.1}, store=store)
            begun = time.perf_counter()
            for _ in knobs.epochs(range(n_epochs)):
                pass
            found[name] = 1000 * (time.perf_counter() - begun) / n_epochs
            rows = [
                EpochRow("job", f"t{i // 5}", i % 5, "steady", {"lr": i / 500},
                         {"threads": 1 + i % 2}, 1.0 + i % 3)
                for i in range(500)
            ]  # fmt: skip
            store.add_epochs(rows)
    return found


def summarize(results: list[dict[str, Any]]) -> list[str]:
    """Return a table of ratios to v1, paired by workload, scheduler and seed, with intervals."""
    kept = quiet(results)
    pairs = pairs_of(kept)
    lines = [
        f"{len(kept)} of {len(results)} searches were made while other programs used at most "
        f"{MOST_OF_OTHERS} cores; only these are compared"
    ]
    for scheduler, setup in sorted({(key[1], key[-1]) for key in pairs}):
        own = [pair for key, pair in pairs.items() if (key[1], key[-1]) == (scheduler, setup)]
        n_trials, max_epochs, n_busy = setup
        lines.append(
            f"{scheduler}, {n_trials} trials of at most {max_epochs} epochs, {n_busy} cores kept "
            f"busy: {len(own)} searches of each way (measured)"
        )
        lines.append(
            "way           wall s   / v1   95 % interval  by epoch  / best static   accuracy   - v1"
        )
        for row in compare(own):
            bar = f"  bar {BARS[row.way]:.2f}" if row.way in BARS else ""
            lines.append(
                f"{row.way:<12} {row.wall_s:7.1f} {row.ratio:6.2f} {row.low:7.2f} – {row.high:.2f} "
                f"{row.per_epoch:9.2f} {row.over_static:14.2f} "
                f"{100 * row.accuracy:8.1f} % {row.points:+6.1f}{bar}"
            )
    ratios = [f"{way} {PUBLISHED[way] / PUBLISHED['v1']:.2f}" for way in ("v2", "paper")]
    lines.append(f"PipeTune on LeNet (published), of v1: {', '.join(ratios)}")
    return lines


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measure(options: argparse.Namespace, path: Path) -> dict[str, Any]:
    """Make the searches that are missing; return what is told of them beside their file."""
    import ray

    setup = Setup(options.trials, options.max_epochs, options.busy)
    folder = path.parent.resolve() / setup.folder
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    os.environ.pop("OMP_NUM_THREADS", None)
    # By default trials give way to other programs, and would be as slow as those are busy.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - it is called so
    ray.init(num_cpus=N_CORES, include_dashboard=False, log_to_driver=False)
    begun = time.monotonic()
    try:
        # The first search of a session is slower: it starts the processes of Ray.
        search("perceptron", "asha", "v1", -1, setup=Setup(2, 3), folder=folder)
        for key in missing(options, path, folder):
            if time.monotonic() - begun > options.most_s:
                break
            found = search(*key, setup=setup, folder=folder)
            with path.open("a") as file:
                file.write(json.dumps(found) + "\n")
            print(*(f"{k}={v}" for k, v in found.items()), flush=True)
    finally:
        ray.shutdown()
    about = {
        "machine": describe_machine(), "versions": describe_versions(),
        "measured_s": sum(r["wall_s"] for r in read(path)), "overhead_ms": overhead_ms(),
        "ended_at": time.strftime("%Y-%m-%dT%H:%M", time.gmtime()),
    }  # fmt: skip
    path.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n")
    return about


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--workloads", nargs="*", choices=list(WIDTHS), default=["LeNet"])
    parser.add_argument("--schedulers", nargs="*", default=["asha", "hyperband"])
    parser.add_argument(
        "--ways", nargs="*", choices=WAYS, default=[w for w in WAYS if w not in ON_REQUEST]
    )
    parser.add_argument("--trials", type=int, default=27)
    parser.add_argument("--max-epochs", type=int, default=27)
    parser.add_argument("--busy", type=int, default=0, help="cores that another program uses")
    parser.add_argument("--most-s", type=float, default=1e9, help="begin no search after this")
    parser.add_argument("--short", action="store_true", help="one seed of ASHA, in six minutes")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/output/tune.jsonl"))
    parser.add_argument("--summary", action="store_true", help="measure nothing")
    options = parser.parse_args()
    if options.short:
        options.seeds, options.schedulers, options.most_s = (
            options.seeds[:1],
            ["asha"],
            min(options.most_s, 300.0),
        )
    options.results.parent.mkdir(parents=True, exist_ok=True)
    if not options.summary:
        about = measure(options, options.results)
        told = ", ".join(f"{ms:.2f} ms ({name})" for name, ms in about["overhead_ms"].items())
        print(f"the hook takes per epoch {told}; bar 5 ms or 1 % (measured)")
    print("\n".join(summarize(read(options.results))))


if __name__ == "__main__":
    main()
