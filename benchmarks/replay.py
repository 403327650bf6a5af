"""What it costs to measure until the plan is right: advice against a random and a fixed order.

    python -m benchmarks.replay [--problems PATTERN] [--seeds N] [--jobs N] [--most N] [-o DIR]

Every configuration of a table is known, and revealed one at a time. After each run the model is
fitted again in automatic mode, and plans. Printed is the sum of the measured times until the plan
is within 5 % of the true optimum and stays there.
"""

from __future__ import annotations

import argparse
import fnmatch
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import foretell
from foretell.decide.advise.belief.informed import inform, informed_planner
from foretell.decide.advise.first_runs import first_runs
from foretell.decide.advise.next_run import advise
from foretell.decide.advise.options import LEAST_CHANCE, AdviceOptions
from foretell.decide.advise.past_runs import PastRuns
from foretell.decide.question.objective import read_request

ROOT = Path(__file__).parents[1]
GOAL = 0.05
#: Beyond so many runs a model is fitted at every second, fourth, eighth run only.
_DENSE, _SPARSE, _SPARSER = 12, 24, 48


@dataclass(frozen=True)
class Table:
    """A table of runs, its settings, and what is minimized."""

    path: str
    settings: tuple[str, ...]
    target: str = "time_s"
    only: str | None = None

    @property
    def runs(self) -> pd.DataFrame:
        frame = pd.read_csv(ROOT / self.path)
        frame = frame.query(self.only) if self.only else frame
        frame = frame[[*self.settings, self.target]]
        return frame.rename(columns={self.target: "time_s"}).reset_index(drop=True)


TABLES = {
    "xz": Table("examples/xz/runs.csv", ("content", "size_mib", "level", "threads")),
    "ray": Table("examples/ray-training/actors.csv",
                 ("model", "num_images", "batch_size", "workers"), "wall_time_s"),
    "vgg": Table("examples/vgg-layers/runs.csv",
                 ("image_size", "batch_size", "input_channels", "output_channels"), "forward_s",
                 only="network == 'vgg16' and layer in [2, 5, 8, 11]"),
    "matrix": Table("benchmarks/data/matrix.csv", ("rows", "inner", "dtype", "threads")),
    "query": Table("benchmarks/data/query.csv", ("rows", "groups", "cache_kib", "index")),
    "reads": Table("benchmarks/data/reads.csv", ("size_kib", "reads", "order")),
}  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """A job that is given, and what is chosen for it: all columns that are not given."""

    table: str
    given: dict[str, Any]
    price: str | None = None
    deadline: float | None = None
    is_held_out: bool = False

    @property
    def name(self) -> str:
        job = ",".join(f"{n}={v}" for n, v in self.given.items())
        what = "time" if self.price is None else f"time*{self.price}"
        late = "" if self.deadline is None else f"<{self.deadline:g}s"
        return f"{self.table}:{job}:{what}{late}".replace(" ", "")

    @property
    def request(self) -> dict[str, Any]:
        asked: dict[str, Any] = {}
        if self.price is not None:
            asked["prices"] = {"price_per_hour": f"3600 * {self.price}", "nodes": 1}
        if self.deadline is not None:
            asked |= {"deadline": self.deadline, "confidence": 0.5}
        return asked


#: The method was made on those not held out.
PROBLEMS = [
    Problem("xz", {"content": "text", "size_mib": 32, "level": 6}, "threads"),
    Problem("xz", {"content": "mixed", "level": 3}, "threads / size_mib"),
    Problem("xz", {"content": "log", "size_mib": 16}, None),
    Problem("ray", {"model": "large", "num_images": 8000}),
    Problem("ray", {"model": "small", "num_images": 4000}, "workers"),
    Problem("matrix", {"rows": 1000, "inner": 1000}),
    Problem("matrix", {"dtype": "float64"}, "1e6 / (rows * rows * inner)"),
    Problem("query", {"rows": 80000, "groups": 1000}),
    Problem("xz", {"content": "log", "size_mib": 32}, "threads", is_held_out=True),
    Problem("xz", {"content": "text"}, "threads**0.5 / size_mib", is_held_out=True),
    Problem("ray", {"model": "small", "num_images": 8000}, is_held_out=True),
    Problem("ray", {"model": "large", "num_images": 8000}, "workers", 8.0, is_held_out=True),
    Problem("vgg", {"input_channels": 256, "output_channels": 512},
            "1e5 / (batch_size * image_size**2)", is_held_out=True),
    Problem("vgg", {"image_size": 224, "input_channels": 512, "output_channels": 512},
            "1 / batch_size", is_held_out=True),
    Problem("query", {"groups": 100}, "1e5 / rows", is_held_out=True),
    Problem("reads", {"order": "random"}, "1e6 / reads", is_held_out=True),
    Problem("matrix", {"dtype": "float32", "inner": 1000}, "threads / rows**2", is_held_out=True),
]  # fmt: skip


@dataclass
class World:
    """All runs of a table: what is true, and what a run shows."""

    table: Table
    seed: int
    configurations: pd.DataFrame = field(init=False)
    true_s: np.ndarray = field(init=False)
    shown_s: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        runs = self.table.runs
        groups = runs.groupby(list(self.table.settings), sort=True)["time_s"]
        means = groups.mean().reset_index()
        self.configurations, self.true_s = (
            means[list(self.table.settings)],
            means["time_s"].to_numpy(),
        )
        rng = np.random.default_rng([self.seed, 7])
        self.shown_s = np.array([rng.choice(values.to_numpy()) for _, values in groups])

    def data(self, order: Sequence[int]) -> pd.DataFrame:
        rows = list(order)
        return (
            self.configurations.iloc[rows].assign(time_s=self.shown_s[rows]).reset_index(drop=True)
        )


@lru_cache(maxsize=4096)
def _fit(table: str, seed: int, order: tuple[int, ...]) -> Any:
    """Fit the runs made so far; None where no model comes of them."""
    try:
        return foretell.fit_model(_world(table, seed).data(order), target="time_s").best
    except foretell.ForetellError:
        return None


@lru_cache(maxsize=64)
def _world(table: str, seed: int) -> World:
    return World(TABLES[table], seed)


@dataclass
class Replay:
    """One problem, one order of the runs, and what is planned after each."""

    problem: Problem
    seed: int
    most: int

    @property
    def world(self) -> World:
        return _world(self.problem.table, self.seed)

    def model(self, order: Sequence[int]) -> Any:
        return _fit(self.problem.table, self.seed, tuple(order))

    def is_job(self) -> np.ndarray:
        frame = self.world.configurations
        found = np.ones(len(frame), dtype=bool)
        for name, value in self.problem.given.items():
            found &= (frame[name] == value).to_numpy()
        assert found.any(), self.problem.name
        return found

    def losses(self) -> np.ndarray:
        """What each configuration of the job truly costs; infinite beyond the deadline."""
        frame, true_s = self.world.configurations, self.world.true_s
        price = 1.0 if self.problem.price is None else frame.eval(self.problem.price).to_numpy()
        found = np.where(self.is_job(), true_s * price, np.inf)
        if self.problem.deadline is not None:
            found = np.where(true_s > self.problem.deadline, np.inf, found)
        return found

    def regret(self, order: Sequence[int]) -> float:
        """How much more the planned configuration costs than the best; infinite without a plan."""
        model = self.model(order)
        if model is None:
            return np.inf
        job = np.flatnonzero(self.is_job())
        candidates = self.world.configurations.iloc[job].reset_index(drop=True)
        asked = read_request({**self.problem.request, "allow_far": True})
        past = PastRuns.of(self.world.data(order), [model])
        informed = inform([model], past, self.seed)
        plan = informed_planner(informed, past, asked, candidates).plan()
        option = plan.chosen or plan.closest
        chosen = (candidates == pd.Series(option.configuration)[candidates.columns]).all(axis=1)
        losses = self.losses()
        return float(losses[job[np.flatnonzero(chosen)[0]]] / losses.min() - 1)

    def given_order(self, order: Sequence[int]) -> pd.DataFrame:
        """Follow an order that does not look at results."""
        order = [int(i) for i in order[: self.most]]
        return self._curve(order, _checkpoints(len(order)))

    def _curve(self, order: list[int], counts: Sequence[int]) -> pd.DataFrame:
        rows = []
        for n in counts:
            cost_s = float(self.world.shown_s[order[:n]].sum())
            rows.append({"n": n, "cost_s": cost_s, "regret": self.regret(order[:n])})
        return pd.DataFrame(rows)

    def advised(self, least_chance: float = LEAST_CHANCE) -> pd.DataFrame:
        """Start with a few runs, then follow advice until there is none."""
        order, counts = self.start(), []
        pool = self.world.configurations
        while len(order) < min(self.most, len(pool)):
            counts.append(len(order))
            step = 1 if len(order) < _DENSE else 2
            found = self.next_runs(order, step, least_chance)
            if not found:
                break
            order = [*order, *found]
        return self._curve(order, [*counts, len(order)] if len(order) not in counts else counts)

    def start(self) -> list[int]:
        frame = self.world.configurations
        values = {name: sorted(frame[name].unique().tolist()) for name in frame.columns}
        runs = first_runs(values, self.problem.given)
        found = [
            np.flatnonzero((frame == pd.Series(run)[frame.columns]).all(axis=1)) for run in runs
        ]
        return [int(rows[0]) for rows in found if len(rows)]

    def next_runs(self, order: list[int], n_runs: int, least_chance: float) -> list[int]:
        model = self.model(order)
        frame = self.world.configurations
        can_differ = set(model.columns)
        pool = np.setdiff1d(np.arange(len(frame)), order)
        for name, value in self.problem.given.items():
            if name not in can_differ:
                pool = pool[(frame[name].iloc[pool] == value).to_numpy()]
        if not len(pool):
            return []
        job = frame[self.is_job()].reset_index(drop=True)
        options = AdviceOptions(n_runs=n_runs, measure=frame.iloc[pool].reset_index(drop=True),
                                least_chance=least_chance)  # fmt: skip
        request = {**self.problem.request, "allow_far": True, "seed": self.seed}
        advice = advise(
            model, request, data=self.world.data(order), candidates=job, options=options
        )
        chosen = [pd.Series(p.configuration)[frame.columns] for p in advice.proposals]
        return [int(np.flatnonzero((frame == row).all(axis=1))[0]) for row in chosen]


def _checkpoints(n: int) -> list[int]:
    """After how many runs to look at the plan."""
    return [i for i in range(3, n + 1) if i <= _DENSE or (i <= _SPARSE and i % 2 == 0)
            or (i <= _SPARSER and i % 4 == 0) or i % 8 == 0 or i == n]  # fmt: skip


def random_order(replay: Replay) -> np.ndarray:
    """All runs of the table, in any order."""
    return np.random.default_rng([replay.seed, 11]).permutation(len(replay.world.configurations))


def random_job_order(replay: Replay) -> np.ndarray:
    """The runs of the job alone, in any order."""
    job = np.flatnonzero(replay.is_job())
    return np.random.default_rng([replay.seed, 11]).permutation(job)


def grid_order(replay: Replay) -> np.ndarray:
    """All runs of the table, each as far as can be from those before it; where to start varies."""
    return _spread(replay.world.configurations, replay.seed)


def _spread(frame: pd.DataFrame, seed: int) -> np.ndarray:
    ranks = np.column_stack([
        pd.factorize(frame[name], sort=True)[0] / max(frame[name].nunique() - 1, 1)
        for name in frame.columns
    ])  # fmt: skip
    first = int(np.random.default_rng([seed, 13]).integers(len(frame)))
    order, nearest = [first], np.full(len(frame), np.inf)
    for _ in range(len(frame) - 1):
        nearest = np.minimum(nearest, np.abs(ranks - ranks[order[-1]]).sum(axis=1))
        nearest[order] = -1
        order.append(int(nearest.argmax()))
    return np.array(order)


ORDERS: dict[str, Callable[[Replay], pd.DataFrame]] = {
    "advise": Replay.advised,
    "random": lambda r: r.given_order(random_order(r)),
    "grid": lambda r: r.given_order(grid_order(r)),
    "random, job only": lambda r: r.given_order(random_job_order(r)),
}


def cost_to_goal(curve: pd.DataFrame) -> tuple[float, bool]:
    """Return the cost from which on the plan stays within the goal, and whether it ever does."""
    is_good = (curve["regret"] <= GOAL).to_numpy()
    if not is_good[-1]:
        return float(curve["cost_s"].iloc[-1]), False
    first = len(is_good) - int(np.argmin(is_good[::-1])) if not is_good.all() else 0
    return float(curve["cost_s"].iloc[first]), True


def _run(job: tuple[str, int, int, tuple[str, ...]]) -> pd.DataFrame:
    """Replay all problems of a table, which share the fits of orders that look at no results."""
    names, seed, most, orders = job[0].split("|"), job[1], job[2], job[3]
    parts = []
    for problem in (p for p in PROBLEMS if p.name in names):
        for order in orders:
            curve = ORDERS[order](Replay(problem, seed, most))
            if len(curve):
                about = {"problem": problem.name, "seed": seed, "order": order}
                parts.append(curve.assign(**about, is_held_out=problem.is_held_out))
                cost_s, is_reached = cost_to_goal(curve)
                word = "" if is_reached else " not reached"
                print(f"{problem.name} seed {seed} {order}: {cost_s:.3g} s{word}", flush=True)
    return pd.concat(parts, ignore_index=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", default="*", help="a pattern of names")
    parser.add_argument("--orders", default=";".join(ORDERS))
    parser.add_argument("--part", choices=["made on", "held out"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--most", type=int, default=40, help="runs of an order")
    parser.add_argument("-o", "--output", type=Path, help="directory for replay.csv and replay.svg")
    asked = parser.parse_args(arguments)
    chosen = [
        p for p in PROBLEMS
        if fnmatch.fnmatch(p.name, asked.problems)
        and asked.part in {None, "held out" if p.is_held_out else "made on"}
    ]  # fmt: skip
    orders = tuple(asked.orders.split(";"))
    tables = dict.fromkeys(p.table for p in chosen)
    jobs = [
        ("|".join(p.name for p in chosen if p.table == table), seed, asked.most, orders)
        for seed in range(asked.seeds)
        for table in tables
    ]
    with ProcessPoolExecutor(asked.jobs) as executor:
        curves = pd.concat(executor.map(_run, jobs), ignore_index=True)
    if asked.output is not None:
        asked.output.mkdir(parents=True, exist_ok=True)
        curves.to_csv(asked.output / "replay.csv", index=False)
        draw(curves, asked.output / "replay.svg")
    report(curves)


def goals(curves: pd.DataFrame) -> pd.DataFrame:
    """Return what each replay cost until its plan was right for good."""
    keys = ["is_held_out", "problem", "seed", "order"]
    rows = []
    for key, curve in curves.groupby(keys, sort=False):
        cost_s, is_reached = cost_to_goal(curve)
        rows.append({**dict(zip(keys, key, strict=True)), "cost_s": cost_s, "reached": is_reached})
    return pd.DataFrame(rows)


def report(curves: pd.DataFrame) -> None:
    """Print the cost per problem, the ratios, and the curves."""
    found = goals(curves)
    orders = list(dict.fromkeys(found["order"]))
    for is_held_out, part in found.groupby("is_held_out"):
        print(f"\n{'held out' if is_held_out else 'made on these'}: cost in s until the plan stays "
              f"within {GOAL:.0%} (median of seeds; * not reached by all)")  # fmt: skip
        print(f"{'':62}" + "".join(f"{o:>18}" for o in orders))
        for problem, rows in part.groupby("problem", sort=False):
            cells = []
            for order in orders:
                own = rows[rows["order"] == order]
                mark = "" if own["reached"].all() else "*"
                cells.append(f"{own['cost_s'].median():.3g}{mark}" if len(own) else "–")
            print(f"{problem:62}" + "".join(f"{c:>18}" for c in cells))
        _print_ratios(part, orders)
        print(_curves_text(curves[curves["is_held_out"] == is_held_out], orders))


def _print_ratios(part: pd.DataFrame, orders: Sequence[str]) -> None:
    """Print what advice costs next to each order: counting what was spent, reached or not."""
    index = ["problem", "seed"]
    costs = part.pivot_table(index=index, columns="order", values="cost_s")
    reached = part.pivot(index=index, columns="order", values="reached") == True  # noqa: E712
    for order in orders:
        print(f"{order}: reached by {reached[order].sum()} of {costs[order].notna().sum()}")
        if order != "advise" and "advise" in costs:
            logs = np.log(costs["advise"] / costs[order]).dropna()
            both = logs[reached["advise"] & reached[order]]
            print(f"  advise costs {np.exp(logs.mean()):.2f} of it (mean of {len(logs)}), "
                  f"{np.exp(both.mean()):.2f} where both reach it ({len(both)})")  # fmt: skip


SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)


def regret_at(curves: pd.DataFrame, shares: Sequence[float] = SHARES) -> pd.DataFrame:
    """Return the median regret once a share of the cost of all runs is spent."""
    rows = []
    for (problem, seed, order), curve in curves.groupby(["problem", "seed", "order"], sort=False):
        table = next(p.table for p in PROBLEMS if p.name == problem)
        total_s = _world(table, seed).shown_s.sum()
        for share in shares:
            seen = curve[curve["cost_s"] <= share * total_s]
            regret = float(seen["regret"].iloc[-1]) if len(seen) else np.inf
            rows.append({"order": order, "share": share, "regret": regret})
    found = pd.DataFrame(rows)
    return found.pivot_table(index="order", columns="share", values="regret", aggfunc="median")


def _curves_text(curves: pd.DataFrame, orders: Sequence[str]) -> str:
    found = regret_at(curves)
    lines = ["median regret when a share of the cost of all runs is spent (– no plan yet)"]
    lines.append(f"{'':18}" + "".join(f"{share:>9.0%}" for share in found.columns))
    for order in orders:
        cells = (f"{v:.1%}" if np.isfinite(v) else "–" for v in found.loc[order])
        lines.append(f"{order:18}" + "".join(f"{c:>9}" for c in cells))
    return "\n".join(lines)


def draw(curves: pd.DataFrame, path: Path) -> None:
    """Draw the median regret against the share of the cost."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    shares = np.geomspace(0.005, 0.6, 40)
    found = regret_at(curves, shares)
    figure, axes = plt.subplots(figsize=(6, 3.6))
    styles = itertools.cycle(["-", "--", ":", "-."])
    for order, row in found.iterrows():
        axes.plot(100 * row.index, 100 * row.replace(np.inf, np.nan), next(styles), label=order)
    axes.axhline(100 * GOAL, color="gray", linewidth=0.5)
    axes.set(xscale="log", xlabel="cost spent, % of measuring everything",
             ylabel="median regret, %", ylim=(0, None))  # fmt: skip
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
