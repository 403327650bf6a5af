"""Two node types with fitted models of time and energy."""

import numpy as np
import pandas as pd
import pytest

import foretell

#: Seconds and joules per iteration: what the models are to learn.
RATES = {"fast": (0.05, 0.5), "slow": (0.4, 0.2)}
CAMPAIGN = {
    "techniques": {"LRRidge": {"alpha": 1e-6}},
    "search": {"splits": {"method": "KFold", "folds": 3}},
    "validation": {"method": "KFold", "folds": 3},
}


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Return a folder with models of time and energy for each type."""
    folder = tmp_path_factory.mktemp("models")
    random = np.random.default_rng(0)
    iterations = np.repeat(np.arange(100, 1001, 50), 3)
    for name, rates in RATES.items():
        for target, rate in zip(("time_s", "energy_j"), rates, strict=True):
            noise = random.normal(1, 0.02, len(iterations))
            runs = pd.DataFrame({"iterations": iterations, target: iterations * rate * noise})
            campaign = {**CAMPAIGN, "data": {"target": target}}
            foretell.fit_model(campaign, runs, output=folder / name / target)
    return folder


@pytest.fixture
def cluster_file(models, tmp_path):
    """Write a cluster file beside the models; return its path."""
    (tmp_path / "models").symlink_to(models)
    path = tmp_path / "cluster.toml"
    path.write_text(
        "[policy]\nH = 0.5\n"
        + "".join(
            f'[[node_type]]\nname = "{name}"\ncount = 2\n'
            f'capacity = {{ cpu = 4, memory = "4Gi" }}\nmodels = "models/{name}"\n'
            f'time_s = "{time} * iterations"\nenergy_j = "{energy} * iterations"\n'
            "idle_w = 2\nbusy_w = 20\n"
            for name, (time, energy) in RATES.items()
        )
    )
    return path
