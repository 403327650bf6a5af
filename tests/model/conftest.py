"""A campaign that lasts long enough to be stopped, and what must come out of it in the end."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

CAMPAIGN = """
runs = 2
seed = 3

[data]
path = "runs.csv"
target = "time_s"

[features]
inverse = ["nodes"]
product_max_degree = 2

[search]
method = "tpe"
evaluations = 8
splits = { method = "KFold", folds = 3 }

[validation]
method = "HoldOut"
ratio = 0.2

[techniques.LRRidge]
alpha = "loguniform(0.001,10)"

[techniques.DecisionTree]
max_depth = "uniformint(2,8)"
min_samples_leaf = [1, 4]

[techniques.XGBoost]
n_estimators = "quniform(50,300,50)"
max_depth = "uniformint(2,6)"
"""


def measured_runs(n=120):
    """Runs on some nodes and cores, with repeats and noise."""
    random = np.random.default_rng(0)
    nodes, size = random.integers(1, 17, n), random.choice([10, 20, 40, 80, 160], n)
    cores = random.choice([1, 2, 4], n)
    time_s = 8 + 30 * size / nodes / cores + 0.2 * nodes + random.uniform(0, 1, n)
    return pd.DataFrame({"nodes": nodes, "size_mb": size, "cores": cores, "time_s": time_s})


@pytest.fixture
def runs():
    """A table of runs."""
    return measured_runs()


def _write_campaign(directory):
    measured_runs().to_csv(directory / "runs.csv", index=False)
    (directory / "campaign.toml").write_text(CAMPAIGN)
    return directory


@pytest.fixture
def campaign_directory(tmp_path):
    """A directory with ``campaign.toml`` and its table."""
    return _write_campaign(tmp_path)


@pytest.fixture
def fit_arguments():
    """Return the arguments that run the campaign."""

    def arguments(output, n_jobs):
        return ("fit", "campaign.toml", "-o", output, "-j", n_jobs, "-q")

    return arguments


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory):
    """The output directory of the campaign when nothing interrupts it."""
    directory = _write_campaign(tmp_path_factory.mktemp("uninterrupted"))
    command = [sys.executable, "-m", "foretell", "fit", "campaign.toml", "-o", "out", "-j", "2"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=120)
    return directory / "out"


@pytest.fixture
def expected(uninterrupted, outcome):
    """What the campaign comes to when nothing interrupts it."""
    return outcome(uninterrupted)


@pytest.fixture(scope="session")
def outcome():
    """Read what a directory holds in the end, all that must not depend on how it came about."""

    def read(directory):
        directory = Path(directory)
        results = json.loads((directory / "results.json").read_text())
        del results["times"]
        names = ["leaderboard.csv", "campaign.toml", "results.txt", "runs.csv", "rehearsals.csv"]
        names += sorted(path.name for path in directory.glob("*.foretell*"))
        contents = {name: (directory / name).read_bytes() for name in names}
        place = str(directory.absolute().parent).encode()  # of the table, which is beside it
        contents["campaign.toml"] = contents["campaign.toml"].replace(place, b"")
        return {"results.json": json.dumps(results), **contents}

    return read
