"""Plans on tables in which every configuration was measured: how much worse than the best."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import foretell

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("table", "target", "job", "choice"),
    [
        ("examples/ray-training/actors.csv", "training_loop_s", ["model", "num_images"],
         ["batch_size", "workers"]),
        ("benchmarks/data/query.csv", "time_s", ["rows", "groups"], ["cache_kib", "index"]),
    ],
    ids=["training", "query"],
)  # fmt: skip
def test_planned_configurations_cost_at_most_five_percent_more_than_the_best(
    table, target, job, choice
):
    runs = pd.read_csv(ROOT / table)
    means = runs.groupby([*job, *choice], as_index=False)[target].mean()
    seen = means.sample(frac=0.5, random_state=3)
    model = foretell.fit_model(seen, target=target).best
    regrets = []
    for key, rows in means.groupby(job):
        fixed = {n: v.item() if isinstance(v, np.generic) else v
                 for n, v in zip(job, key, strict=True)}  # fmt: skip
        plan = foretell.make_plan(model, {"fix": fixed, "allow_far": True}, rows[choice])
        is_it = np.all([rows[n] == plan.chosen.configuration[n] for n in choice], axis=0)
        regrets.append(rows.loc[is_it, target].iloc[0] / rows[target].min() - 1)
    assert len(regrets) >= 10
    assert np.mean(regrets) <= 0.05
