"""The comparison of advice with Bayesian optimization."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.clusters import Measured, Problem, clusters, summary


def test_advice_that_never_reaches_the_goal_is_not_counted_as_good():
    never, soon = math.inf, 3.0
    found = pd.DataFrame(
        {"advice": [never, soon, soon, soon], "bayesian_3": [never, 5.0, 5.0, 2.0],
         "bayesian_5": [never, never, 3.0, 4.0], "n_runs": 6, "stopped": True, "regret": 0.0}
    )  # fmt: skip
    three, five = (line for line in summary(found).splitlines() if "at most as many" in line)
    assert three.endswith(": 50%")
    assert five.endswith(": 75%")


def test_a_measured_workload_is_read_from_its_table(tmp_path):
    path = tmp_path / "sort.csv"
    frame = clusters().assign(time_s=range(1, 1 + len(clusters())))
    frame.to_csv(path, index=False)
    problem = Problem(Measured(path), "cost", most=3)
    assert problem.workload.name == "sort"
    cheapest = (frame["nodes"] * frame["price_per_hour"] * frame["time_s"]).argmin()
    assert problem.regret(cheapest) == 0
    assert problem.regret(cheapest + 1) > 0
