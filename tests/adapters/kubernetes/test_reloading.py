"""Models of a live scheduler that change while it runs."""

import os
import threading

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.adapters.kubernetes.reloading import ModelFiles
from foretell.cluster.models import open_estimates
from foretell.decide.placement.cluster import read_cluster
from foretell.decide.placement.tasks import read_task

TASK = read_task("iterations=500")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two model files: one of 0.1 s per iteration, one of 0.2 s."""
    folder, found = tmp_path_factory.mktemp("models"), []
    iterations = np.repeat(np.arange(100, 1001, 50), 3)
    campaign = {
        "data": {"target": "time_s"},
        "techniques": {"LRRidge": {"alpha": 1e-6}},
        "search": {"splits": {"method": "KFold", "folds": 3}},
    }
    for rate in (0.1, 0.2):
        runs = pd.DataFrame({"iterations": iterations, "time_s": iterations * rate})
        foretell.fit_model(campaign, runs, output=folder / str(rate))
        found.append((folder / str(rate) / "best.foretell").read_bytes())
    return found


@pytest.fixture
def watched(models, tmp_path):
    """A cluster with the first model, what predicts with it, and what watches its file."""
    file = tmp_path / "time.foretell"
    file.write_bytes(models[0])
    path = tmp_path / "cluster.toml"
    path.write_text(
        '[[node_type]]\nname = "one"\nselector = { a = "b" }\n'
        'capacity = { cpu = 4 }\nmodels = "time.foretell"\n'
    )
    cluster = read_cluster(path)
    estimates, _ = open_estimates(cluster)
    failures = []
    files = ModelFiles(cluster, estimates, threading.RLock(), lambda: failures.append(1))
    return file, estimates, files, failures


def replace(file, content, age_s=0):
    """Replace a file as a whole, as a careful writer does."""
    new = file.with_suffix(".new")
    new.write_bytes(content)
    moment = new.stat().st_mtime - age_s
    os.utime(new, (moment, moment))
    new.replace(file)


def test_a_changed_model_is_used_and_an_unchanged_one_is_not_loaded_again(watched, models):
    file, estimates, files, failures = watched
    assert estimates.of(TASK).time_s[0] == pytest.approx(50, rel=1e-3)
    assert not files.check()
    replace(file, models[1], age_s=3600)  # an older file is a change as well
    assert files.check()
    assert estimates.of(TASK).time_s[0] == pytest.approx(100, rel=1e-3)
    assert not failures
    assert files.changed_s["one"] == pytest.approx(file.stat().st_mtime)


@pytest.mark.parametrize("way", ["cut", "garbage", "gone"])
def test_a_model_that_cannot_be_used_leaves_the_old_one_in_use(watched, models, way):
    file, estimates, files, failures = watched
    before, written = estimates.of(TASK), dict(files.changed_s)
    if way == "gone":
        file.unlink()
    else:
        replace(file, models[1][: len(models[1]) // 2] if way == "cut" else b"nothing")
    assert not files.check()
    assert failures == [1]
    assert estimates.of(TASK) is before
    assert files.changed_s == written
    assert not files.check()  # it is tried once
    assert failures == [1]
    replace(file, models[1])
    assert files.check()
    assert estimates.of(TASK).time_s[0] == pytest.approx(100, rel=1e-3)
