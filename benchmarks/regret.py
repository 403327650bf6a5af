"""How much worse than the best a planned configuration is, on measured tables or made-up laws.

    python -m benchmarks.regret [--share 0.5] [--seeds 3]
    python -m benchmarks.regret --laws 50 [--family cluster]

A model learns from some of the configurations. For every job of a table, a plan then chooses among
all of them, and what it chose is looked up. Regret is its measured cost over that of the best.

With ``--laws``, the jobs are made up, so the best is also known outside the data: a plan chooses
among up to four times as many nodes as were measured. The rule counts as broken when a plan chooses
a configuration outside the data whose pessimistic end is worse than the best that was measured.
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
from benchmarks.synthetic import TARGET, Law, configurations, draw_law
from foretell.predictor import TRUST_FAR, TRUST_INSIDE

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


# --- Made-up laws --------------------------------------------------------------------------------

MOST_RUNS = 240
#: How many times more nodes than were measured may be chosen.
BEYOND = 4
#: Columns that say how large the job is, which is given; the others can be chosen.
SIZES = ("data_gb", "size", "per_node")
COUNTS = ("nodes", "threads")
SETTINGS: dict[str, dict[str, Any]] = {
    "default (cautious)": {},
    "risk=even": {"risk": "even"},
    "risk=bold": {"risk": "bold"},
    "allow_far, risk=cautious": {"allow_far": True, "risk": "cautious"},
    "allow_far": {"allow_far": True},
}


@dataclass(frozen=True)
class MadeUp:
    """A law, runs of at most half of its grid, and the configurations to choose from."""

    law: Law
    runs: pd.DataFrame
    choices: pd.DataFrame

    @classmethod
    def draw(cls, family: str, seed: int) -> MadeUp:
        """Draw a law and its runs; the job to plan is the largest that was measured."""
        law, noise, random = draw_law(family, seed)
        grid = configurations(law)
        n_runs = min(MOST_RUNS, len(grid) // 2)
        runs = grid.iloc[np.sort(random.permutation(len(grid))[:n_runs])].reset_index(drop=True)
        runs[TARGET] = noise.draw(law.truth(runs), random)
        axes: dict[str, Any] = {}
        for column in law.columns:
            measured = runs[column.name]
            if column.name in SIZES:
                axes[column.name] = [measured.max()]
            elif column.name in COUNTS:
                axes[column.name] = range(1, BEYOND * int(measured.max()) + 1)
            else:
                axes[column.name] = sorted(measured.unique())
        choices = pd.MultiIndex.from_product(axes.values(), names=axes).to_frame(index=False)
        return cls(law, runs, choices)

    def outcomes(self, model: Any) -> Iterator[tuple[str, Outcome]]:
        """Plan with each setting, and compare what is chosen with the truth."""
        best_measured = self.runs.merge(self.choices)[TARGET].min()  # NaN if there is none
        trust = model.outlook(self.choices, [0.5]).trust
        for name, settings in SETTINGS.items():
            plan = foretell.make_plan(model, settings, self.choices)
            assert plan.chosen is not None
            chosen = plan.chosen.configuration
            is_it = np.all([self.choices[n] == chosen[n] for n in self.choices], axis=0)
            is_outside = bool(plan.chosen.outside)
            is_worse = bool(plan.chosen.estimates["time"].upper > best_measured)
            yield name, Outcome(self._regret(is_it), is_outside, is_outside and is_worse)
            if "allow_far" not in settings:
                within = self._regret(is_it, trust != TRUST_FAR)
                yield f"{name}, of what is within reach", Outcome(within)
        for name, is_known in (
            ("the true best inside the data", trust == TRUST_INSIDE),
            ("the true best within reach", trust != TRUST_FAR),
        ):
            yield name, Outcome(self._regret(is_known))

    def _regret(self, among: np.ndarray, best_of: np.ndarray | None = None) -> float:
        """Return how much worse than the true optimum, of all or some, the best of choices is."""
        true_s = self.law.truth(self.choices)
        best_s = true_s.min() if best_of is None else true_s[best_of].min()
        return float(true_s[among].min() / best_s - 1)


@dataclass(frozen=True)
class Outcome:
    """How good a plan was, whether it left the data, and whether it broke the rule above."""

    regret: float
    is_outside: bool = False
    breaks_rule: bool = False


def print_laws(family: str, n_laws: int) -> None:
    """Print the regret of plans for made-up laws, by setting."""
    found: dict[str, list[Outcome]] = {}
    for seed in range(n_laws):
        problem = MadeUp.draw(family, seed)
        model = foretell.fit_model(problem.runs, target=TARGET).best
        for name, outcome in problem.outcomes(model):
            found.setdefault(name, []).append(outcome)
    print(f"{n_laws} laws ({family}), a choice of up to {BEYOND} times the nodes measured")
    print(f"{'regret':42} {'mean':>8} {'p95':>8} {'largest':>8}   outside   rule broken")
    for name, outcomes in found.items():
        regret = np.array([o.regret for o in outcomes])
        figures = (regret.mean(), np.quantile(regret, 0.95), regret.max())
        print(
            f"{name:42} {' '.join(f'{100 * f:6.1f} %' for f in figures)}   "
            f"{sum(o.is_outside for o in outcomes):7}   "
            f"{sum(o.breaks_rule for o in outcomes):11}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--laws", type=int, help="plan for so many made-up laws instead")
    parser.add_argument("--family", default="cluster", help="the family of laws")
    given = parser.parse_args()
    if given.laws:
        print_laws(given.family, given.laws)
        return
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
