"""Tables of runs with a known truth."""

import itertools

import numpy as np
import pandas as pd

EFFECTS = {"cores": {1: 1.0, 2: 0.6, 4: 0.4}, "depth": {2: 1.0, 4: 1.3}, "zip": {"on": 1, "off": 1}}


def table(n_repeats=3, noise=0.02, seed=0, workloads=(("small", 1.0), ("large", 20.0))):
    """A full grid: cores and depth matter, zip does not."""
    random = np.random.default_rng(seed)
    rows = []
    for (workload, scale), cores, depth, pack in itertools.product(workloads, *EFFECTS.values()):
        for _ in range(n_repeats):
            time = scale * EFFECTS["cores"][cores] * EFFECTS["depth"][depth]
            rows.append(
                {
                    "workload": workload, "cores": cores, "depth": depth, "zip": pack,
                    "time_s": time * np.exp(random.normal(0, noise)),
                    "accuracy": 0.8 + 0.02 * depth + random.normal(0, noise / 50),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def half_drawn_table(n=60, seed=0):
    """One workload is a full grid with repeats; in the other, nearly all values differ."""
    random = np.random.default_rng(seed)
    drawn = pd.DataFrame(
        {
            "workload": "drawn",
            "cores": random.uniform(1, 4, n),
            "depth": random.uniform(2, 4, n),
            "zip": random.choice(["on", "off"], n),
        }
    )
    logs = np.log(20) - 0.6 * np.log(drawn["cores"]) + 0.4 * np.log(drawn["depth"])
    drawn["time_s"] = np.exp(logs + random.normal(0, 0.02, n))
    grid = table(workloads=(("grid", 1.0),)).drop(columns="accuracy")
    return pd.concat([grid, drawn], ignore_index=True)


def drawn_table(n, seed, noise=0.1, effect=0.0):
    """Runs of a search: a rate that is drawn anew for each run, beside discrete settings."""
    random = np.random.default_rng([seed, n])
    frame = pd.DataFrame(
        {
            "rate": 10 ** random.uniform(-4, -1, n),
            "batch": random.choice([16, 32, 64, 128], n),
            "filters": random.choice([8, 16, 32], n),
        }
    )
    logs = effect * np.log10(frame["rate"]) + random.normal(0, noise, n)
    frame["time_s"] = 10 * (frame["batch"] / 16) ** -0.5 * frame["filters"] ** 0.3 * np.exp(logs)
    return frame
