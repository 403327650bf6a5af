"""How long a search takes to reach an accuracy: epochs and data growing together, or one of them.

    python -m benchmarks.tune_budgets [--seeds 5] [--trials 40] [--only WORD] [--data] [--large]
                                      [--anew] [--output FILE]

Times are measured: the CPU time of one process with one thread, so that other programs hardly
count. For each network, seed and budget there is one search, which ends with the first trial that
reaches the target. The targets are 80 %, that of the published study, and one that few settings
reach (`benchmarks.networks`). Ratios are of times of the same seed; intervals are from a paired
bootstrap over the seeds. About five minutes; `--data` adds the budget of data alone, and `--large`
takes the networks with ten times as many examples, for half an hour. Other networks in the file of
results are kept.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.networks import CASES, LARGE_CASES, Case
from foretell import tune

PUBLISHED_TARGET = 0.8
BAR = 0.8


@dataclass(frozen=True)
class Reached:
    """One search: its CPU seconds until a trial reached the target, or until its end."""

    network: str
    target: float
    budget: str
    seed: int
    is_reached: bool
    search_s: float
    trained_s: float
    n_trials: int
    accuracy: float | None


def reach(case: Case, target: float, budget: tune.Budgets, seed: int, trials: int) -> Reached:
    """Search until a trial reaches the target."""
    started = time.process_time()
    found = tune.search(
        case.train,
        case.hyper,
        accuracy=target,
        budget=budget,
        trials=trials,
        stop_after=1,
        seed=seed,
    )
    return Reached(
        network=case.name,
        target=target,
        budget=budget.kind,
        seed=seed,
        is_reached=found.best is not None,
        search_s=time.process_time() - started,
        trained_s=sum(trial.train_s for trial in found.trials),
        n_trials=len(found.trials),
        accuracy=None if found.best is None else found.best.accuracy,
    )


def interval(logs: np.ndarray, n: int = 10_000) -> tuple[float, float]:
    """Return the 95 % interval of the geometric mean ratio, by drawing seeds again."""
    random = np.random.default_rng(0)
    means = random.choice(logs, size=(n, len(logs))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(np.exp(low)), float(np.exp(high))


def compare(runs: Sequence[Reached], budget: str) -> str:
    """Write how long searches with a budget take, against those with the budget of epochs."""
    by_key = {(r.network, r.target, r.seed, r.budget): r for r in runs}
    pairs = [(r, by_key[r.network, r.target, r.seed, "epochs"]) for r in runs if r.budget == budget]
    logs = np.array([math.log(a.search_s / b.search_s) for a, b in pairs])
    low, high = interval(logs)
    times = [sorted(r.search_s for r in side) for side in zip(*pairs, strict=True)]
    medians = [float(np.median(side)) for side in times]
    n_reached = [sum(r.is_reached for r in side) for side in zip(*pairs, strict=True)]
    ratio = float(np.exp(logs.mean()))
    return (
        f"{ratio:5.2f} ({low:.2f} to {high:.2f})   median {medians[0]:5.1f} s against "
        f"{medians[1]:5.1f} s   reached {n_reached[0]} and {n_reached[1]} of {len(pairs)}"
    )


def summarize(runs: Sequence[Reached], kinds: Sequence[str]) -> None:
    """Print ratios of all networks, by how hard the target is."""
    parts = {
        "80 %": [r for r in runs if r.target == PUBLISHED_TARGET],
        "few settings reach it": [r for r in runs if r.target != PUBLISHED_TARGET],
    }
    for kind in kinds:
        for name, own in parts.items():
            print(f"{name:25} {kind:5} {compare(own, kind)}   (bar {BAR})")


def kept(path: Path | None, names: set[str]) -> list[dict[str, Any]]:
    """Return the results of other networks in a file."""
    if path is None or not path.exists():
        return []
    return [row for row in json.loads(path.read_text()) if row["network"] not in names]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--only", default="")
    parser.add_argument("--data", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--anew", action="store_true", help="train anew at each rung, as published")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    kinds = ["multi", "epochs", *(["data"] if options.data else [])]
    cases = [
        case for case in (LARGE_CASES if options.large else CASES) if options.only in case.name
    ]
    others = kept(options.output, {case.name for case in cases})
    runs: list[Reached] = []
    for case in cases:
        reach(case, 0.01, tune.Budgets("multi"), seed=0, trials=1)  # imports, and reads the data
        for target in (PUBLISHED_TARGET, case.target):
            for seed in range(options.seeds):
                # The order changes, so that none is always the one after the other.
                for kind in kinds if seed % 2 == 0 else kinds[::-1]:
                    budget = tune.Budgets(kind, is_anew=options.anew)
                    runs.append(reach(case, target, budget, seed, options.trials))
                    if options.output is not None:
                        rows = [*others, *map(asdict, runs)]
                        options.output.write_text(json.dumps(rows, indent=1) + "\n")
            own = [r for r in runs if (r.network, r.target) == (case.name, target)]
            for kind in kinds:
                if kind != "epochs":
                    print(f"{case.name:20} {target:.0%}  {kind:5} {compare(own, kind)}", flush=True)
    summarize(runs, kinds[:1] + kinds[2:])


if __name__ == "__main__":
    main()
