"""How many runs advice needs to choose a cluster, against Bayesian optimization.

    python -m benchmarks.clusters [--seeds 0:12 | --tables FILE…] [--most N] [-o FILE]

Each seed draws a made-up workload: its parallelism, its overheads, and the memory that it needs in
total; a cluster with less is slower by a factor. The clusters are machines of three families and
three sizes, 4 to 48 of them. One run of each has noise; the truth is known. The goal is the fastest
and the cheapest cluster.

With tables, workloads are measured ones: a CSV file each, with a row per cluster and the columns
family, cores, memory_gb, nodes, price_per_hour (of one node) and time_s.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

import foretell
from foretell.decide.advise.first_runs import first_runs
from foretell.decide.advise.next_run import advise
from foretell.decide.advise.options import AdviceOptions

GOAL, OFF = 0.05, 0.10
NOISE = 0.03
#: Bayesian optimization: how many runs it draws first, and how many times it is started.
FIRST, N_STARTS = (3, 5), 5
#: By family: memory in GB and price per hour of each core.
FAMILIES = {"compute": (2.0, 0.050), "general": (4.0, 0.056), "memory": (8.0, 0.070)}
#: By the cores of a machine: how many of them a cluster may have.
NODES = {
    2: (4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48),
    4: (4, 6, 8, 10, 12, 16, 20, 24),
    8: (4, 6, 8, 12),
}
COLUMNS = ["family", "cores", "memory_gb", "nodes"]


@lru_cache(maxsize=1)
def clusters() -> pd.DataFrame:
    """List all clusters, with the price of one node."""
    rows = [
        (family, cores, cores * memory_gb, nodes, cores * price)
        for family, (memory_gb, price) in FAMILIES.items()
        for cores, counts in NODES.items()
        for nodes in counts
    ]
    return pd.DataFrame(rows, columns=[*COLUMNS, "price_per_hour"])


class Workload(Protocol):
    """A job whose time on every cluster is known, and one run of each."""

    @property
    def name(self) -> str: ...

    @property
    def clusters(self) -> pd.DataFrame: ...

    @property
    def true_s(self) -> np.ndarray: ...

    @property
    def shown_s(self) -> np.ndarray: ...


@dataclass(frozen=True)
class Measured:
    """A workload that was measured once on every cluster of a table."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def _table(self) -> pd.DataFrame:
        return pd.read_csv(self.path)

    @property
    def clusters(self) -> pd.DataFrame:
        return self._table[[*COLUMNS, "price_per_hour"]]

    @property
    def true_s(self) -> np.ndarray:
        return self._table["time_s"].to_numpy(dtype=float)

    shown_s = true_s


@dataclass(frozen=True)
class MadeUp:
    """A workload of which only the seed is given; its runs have noise."""

    seed: int

    @property
    def name(self) -> str:
        return str(self.seed)

    @property
    def clusters(self) -> pd.DataFrame:
        return clusters()

    @cached_property
    def true_s(self) -> np.ndarray:
        """The time on each cluster."""
        random = np.random.default_rng([self.seed, 21])
        frame = clusters()
        nodes, total = frame["nodes"], frame["nodes"] * frame["cores"]
        speed = frame["family"].map(
            dict(zip(FAMILIES, random.uniform([1.0, 0.9, 0.85], [1.4, 1.1, 1.1]), strict=True))
        )
        work_s = random.uniform(2_000, 40_000)
        alpha = random.uniform(0.7, 1.0)
        time_s = work_s / (speed * total**alpha)
        usual_s = float(np.median(time_s))
        time_s += usual_s * random.uniform(0, 0.5)  # what is not parallel
        time_s += usual_s * random.uniform(0, 1.0) * 10 / nodes  # disks and network of each node
        time_s += usual_s * 10 ** random.uniform(-3, -1.2) * nodes  # coordination
        if random.random() < 0.8:
            memory_gb = nodes * frame["memory_gb"]
            needed_gb = np.quantile(memory_gb, random.uniform(0.1, 0.7))
            time_s *= np.where(memory_gb < needed_gb, random.uniform(1.5, 6.0), 1.0)
        return time_s.to_numpy()

    @cached_property
    def shown_s(self) -> np.ndarray:
        """What one run on each cluster takes."""
        random = np.random.default_rng([self.seed, 22])
        return self.true_s * np.exp(random.normal(0, NOISE, len(self.true_s)))


@dataclass(frozen=True)
class Problem:
    """A workload, what is to be minimal (the time or the cost), and how many runs may be made."""

    workload: Workload
    minimize: str
    most: int

    @cached_property
    def weights(self) -> np.ndarray:
        """By what a time is multiplied in the objective."""
        frame = self.workload.clusters
        if self.minimize == "time":
            return np.ones(len(frame))
        return (frame["nodes"] * frame["price_per_hour"]).to_numpy()

    def regret(self, cluster: int) -> float:
        """How much more a cluster costs than the best."""
        losses = self.workload.true_s * self.weights
        return float(losses[cluster] / losses.min() - 1)

    def advised(self) -> tuple[list[float], list[int], bool]:
        """Follow advice: the regret of the plan after each run, the runs, whether it stopped.

        Until the first runs are made there is no model; then the plan is the best run so far, as it
        always is for Bayesian optimization.
        """
        frame = self.workload.clusters
        order = start(frame)
        regrets = self._of_best_runs(order[:-1])
        request = {"minimize": self.minimize, "allow_far": True, "prices": {"nodes": "nodes"}}
        while True:
            data = frame[COLUMNS].iloc[order].assign(time_s=self.workload.shown_s[order])
            model = fit(data.reset_index(drop=True))
            left = np.setdiff1d(np.arange(len(frame)), order)
            options = AdviceOptions(measure=frame.iloc[left].reset_index(drop=True))
            advice = advise(model, request, data=data, candidates=frame, options=options)
            planned = advice.plan.chosen or advice.plan.closest
            regrets.append(self.regret(position(frame, planned.configuration)))
            if not advice.proposals or len(order) >= self.most:
                return regrets, order, not advice.proposals
            order.append(position(frame, advice.proposals[0].configuration))

    def optimized(self, n_first: int, seed: int) -> list[float]:
        """Follow Bayesian optimization: the regret of the best run so far, after each run."""
        shown = self.workload.shown_s * self.weights
        named = list(self.workload.name.encode())
        order = bayesian(self.workload.clusters, shown, n_first, self.most, [*named, seed])
        return self._of_best_runs(order)

    def _of_best_runs(self, order: Sequence[int]) -> list[float]:
        """Return the regret of the best run so far, after each run."""
        shown = self.workload.shown_s * self.weights
        best = [order[int(np.argmin(shown[order[: n + 1]]))] for n in range(len(order))]
        return [self.regret(cluster) for cluster in best]


def start(frame: pd.DataFrame) -> list[int]:
    """The first runs of advice."""
    values = {name: frame[name].unique().tolist() for name in COLUMNS}
    possible = frame[COLUMNS].to_dict("records")
    return [position(frame, run) for run in first_runs(values, {}, possible)]


def fit(data: pd.DataFrame) -> Any:
    return foretell.fit_model(data, target="time_s").best


def position(frame: pd.DataFrame, configuration: dict[str, Any]) -> int:
    is_it = np.all([frame[name] == configuration[name] for name in COLUMNS], axis=0)
    return int(np.flatnonzero(is_it)[0])


def bayesian(
    frame: pd.DataFrame, shown: np.ndarray, n_first: int, most: int, seed: Sequence[int]
) -> list[int]:
    """Return the order of a Matern process with expected improvement, after some random runs."""
    from scipy.stats import norm
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    numbers = np.log(frame[COLUMNS[1:]].to_numpy(dtype=float))
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    x = np.column_stack([numbers, pd.get_dummies(frame["family"]).to_numpy(dtype=float)])
    random = np.random.default_rng([*seed, 23])
    order = random.permutation(len(x))[:n_first].tolist()
    while len(order) < most:
        y = np.log(shown[order])
        kernel = ConstantKernel(1.0) * Matern(np.ones(x.shape[1]), (0.1, 30), nu=2.5)
        kernel += WhiteKernel(1e-2, (1e-4, 1e-1))
        process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1,
                                           random_state=0)  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            process.fit(x[order], y)
        mean, deviation = process.predict(x, return_std=True)
        z = (y.min() - mean) / deviation
        gain = deviation * (z * norm.cdf(z) + norm.pdf(z))
        gain[order] = -np.inf
        order.append(int(gain.argmax()))
    return order


def runs_needed(regrets: Sequence[float]) -> float:
    """Return from which number of runs on the plan stays within the goal; infinite if never.

    >>> runs_needed([0.5, 0.01, 0.2, 0.0, 0.04])
    4.0
    >>> runs_needed([0.0, 0.2])
    inf
    """
    is_good = np.asarray(regrets) <= GOAL
    if not is_good[-1]:
        return np.inf
    return float(len(is_good) - np.argmin(is_good[::-1]) + 1 if not is_good.all() else 1)


def compare(workloads: Sequence[Workload], most: int) -> Iterator[dict[str, Any]]:
    """Replay each problem both ways."""
    for workload in workloads:
        for minimize in ("time", "cost"):
            problem = Problem(workload, minimize, most)
            regrets, order, stopped = problem.advised()
            others = {
                f"bayesian_{n}": float(np.median([
                    runs_needed(problem.optimized(n, i)) for i in range(N_STARTS)
                ]))
                for n in FIRST
            }  # fmt: skip
            yield {
                "problem": f"{workload.name}:{minimize}",
                "advice": runs_needed(regrets),
                **others,
                "n_runs": len(order),
                "stopped": stopped,
                "regret": regrets[-1],
                "order": " ".join(map(str, order)),
                "regrets": " ".join(f"{r:.2f}" for r in regrets),
            }


def summary(found: pd.DataFrame) -> str:
    """Say how often advice is as good, and how often it ends badly."""
    is_off, ended = found["regret"] > OFF, found[found["stopped"]]
    lines = [f"{len(found)} problems", _runs_text("advice", found["advice"])]
    for n in FIRST:
        other = found[f"bayesian_{n}"]
        is_as_good = np.isfinite(found["advice"]) & (found["advice"] <= other)
        text = _runs_text(f"Bayesian optimization after {n} random runs", other)
        lines.append(f"{text}; advice needs at most as many: {is_as_good.mean():.0%}")
    return "\n".join([
        *lines,
        f"stopped: {len(ended) / len(found):.0%}, after {ended['n_runs'].median():g} runs; with a "
        f"plan more than {OFF:.0%} off: {(is_off & found['stopped']).mean():.0%}",
        f"not stopped, with such a plan: {(is_off & ~found['stopped']).mean():.0%}",
    ])  # fmt: skip


def _runs_text(name: str, runs: pd.Series) -> str:
    return f"{name}: {runs.median():g} runs (median), {runs.quantile(0.9, 'higher'):g} (90th %)"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0:12", help="from:to")
    parser.add_argument("--tables", type=Path, nargs="*", help="measured clusters, a CSV file each")
    parser.add_argument("--most", type=int, default=25, help="runs of a problem")
    parser.add_argument("-o", "--output", type=Path, help="a CSV file with a row per problem")
    asked = parser.parse_args(arguments)
    seeds = range(*map(int, asked.seeds.split(":")))
    workloads = [Measured(path) for path in asked.tables or ()] or [MadeUp(s) for s in seeds]
    rows = []
    for row in compare(workloads, asked.most):
        rows.append(row)
        others = ", ".join(f"{row[f'bayesian_{n}']:g}" for n in FIRST)
        print(
            f"{row['problem']:30} advice {row['advice']:4g}   Bayesian {others:10}   "
            f"{'stopped' if row['stopped'] else 'went on'} after {row['n_runs']}, "
            f"plan {row['regret']:.1%} off", flush=True,
        )  # fmt: skip
        if asked.output is not None:
            pd.DataFrame(rows).to_csv(asked.output, index=False)
    print(summary(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
