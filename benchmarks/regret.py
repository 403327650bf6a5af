"""How much worse than the best a planned configuration is, on tables in which all were measured.

    python -m benchmarks.regret [--share 0.5] [--seeds 3]

A model learns from some of the configurations. For every job of a table, a plan then chooses among
all of them, and what it chose is looked up. Regret is its measured cost over that of the best.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import foretell

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Problem:
    """What is given and what is chosen in a table; every choice was measured for every job."""

    table: str
    target: str
    job: list[str]
    choice: list[str]
    nodes: str | None = None
    prices: dict[str, Any] = field(default_factory=dict)

    def frame(self) -> pd.DataFrame:
        """Read the mean time of each configuration."""
        runs = pd.read_csv(ROOT / self.table)
        if "status" in runs:
            runs = runs[runs["status"] == "ok"]
        means = runs.groupby([*self.job, *self.choice], as_index=False)[self.target].mean()
        n_choices = means[self.choice].drop_duplicates().shape[0]
        sizes = means.groupby(self.job)[self.target].transform("size")
        return means[sizes == n_choices].reset_index(drop=True)

    def cost(self, frame: pd.DataFrame) -> pd.Series:
        """Return what is to be minimal: the time, or the time of all nodes."""
        return frame[self.target] * (frame[self.nodes] if self.nodes else 1)


ACTORS = "examples/ray-training/actors.csv"
TRAINING = ["model", "num_images"], ["batch_size", "workers"]
PROBLEMS = {
    "ray-time": Problem(ACTORS, "training_loop_s", *TRAINING),
    "ray-cost": Problem(ACTORS, "training_loop_s", *TRAINING, "workers"),
    "query-time": Problem("benchmarks/data/query.csv", "time_s", ["rows", "groups"],
                          ["cache_kib", "index"]),
    "matrix-cost": Problem("benchmarks/data/matrix.csv", "time_s", ["rows", "inner"],
                           ["dtype", "threads"], "threads"),
    "matrix-time": Problem("benchmarks/data/matrix.csv", "time_s", ["rows", "inner"],
                           ["dtype", "threads"]),
    "xz-cost": Problem("examples/xz/runs.csv", "time_s", ["content", "size_mib", "level"],
                       ["threads"], "threads"),
}  # fmt: skip


def regrets(problem: Problem, share: float, seed: int) -> Iterator[float]:
    """Fit on a share of the configurations; yield the regret of a plan for each job."""
    frame = problem.frame()
    chosen = np.random.default_rng([seed]).permutation(len(frame))[: int(share * len(frame))]
    model = foretell.fit_model(frame.iloc[chosen], target=problem.target).best
    request: dict[str, Any] = {"allow_far": True, "minimize": "cost" if problem.nodes else "time"}
    if problem.nodes:
        request["prices"] = {"price_per_hour": 1.0, "nodes": problem.nodes}
    for job, rows in frame.groupby(problem.job):
        plan = foretell.make_plan(
            model,
            {**request, "fix": dict(zip(problem.job, _plain(job), strict=True))},
            rows[problem.choice],
        )
        assert plan.chosen is not None
        costs = problem.cost(rows)
        settings = plan.chosen.configuration
        is_it = np.all([rows[name] == settings[name] for name in problem.choice], axis=0)
        yield float(costs[is_it].iloc[0] / costs.min() - 1)


def _plain(key: Any) -> list[Any]:
    return [v.item() if isinstance(v, np.generic) else v for v in key]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    print("mean and largest regret of planned configurations, by problem")
    means = []
    for name, problem in PROBLEMS.items():
        found = [r for seed in range(given.seeds) for r in regrets(problem, given.share, seed)]
        means.append(np.mean(found))
        n_best = found.count(0.0)
        print(
            f"{name:14} {len(found):4} plans   mean {100 * np.mean(found):6.2f} %   "
            f"largest {100 * np.max(found):6.1f} %   best chosen {n_best / len(found):5.0%}",
            flush=True,
        )
    print(f"mean over problems {100 * np.mean(means):.2f} %")


if __name__ == "__main__":
    main()
