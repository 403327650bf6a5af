"""TabPFN as a technique, with a small network of random weights: real ones are not shipped."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from foretell_tabpfn import WEIGHTS, TabPFNTechnique

import foretell
from foretell.testing import check_technique

torch = pytest.importorskip("torch")
v2 = pytest.importorskip("tabpfn.architectures.tabpfn_v2")


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """A network of two small layers that was never trained."""
    torch.manual_seed(0)
    config = v2.TabPFNV2Config(max_num_classes=0, num_buckets=20, emsize=24, nlayers=2, nhead=2)
    state = v2.get_architecture(config).state_dict()
    state["criterion.borders"] = torch.linspace(-3, 3, 21)
    state["criterion.losses_per_bucket"] = torch.zeros(20)
    path = tmp_path / "tiny.ckpt"
    torch.save(
        {"state_dict": state, "config": asdict(config), "architecture_name": "tabpfn_v2"}, path
    )
    monkeypatch.setenv(WEIGHTS, str(path))
    return path


def test_it_keeps_the_contract(weights):
    check_technique(TabPFNTechnique)


def test_it_votes_in_an_ensemble(weights):
    nodes = [1, 2, 4, 8]
    runs = pd.DataFrame([(n, s) for n in nodes for s in (10, 20, 40)], columns=["nodes", "size"])
    runs["time_s"] = 5 + 3 * runs["size"] / runs["nodes"]
    campaign = {
        "data": {"target": "time_s"},
        "techniques": {"Ensemble": {"members": ["PowerLaw", "TabPFN"]}},
    }
    fit = foretell.fit_model(campaign, runs)
    assert fit.best.hyperparameters["members"] == ["PowerLaw", "TabPFN"]
    assert np.isfinite(fit.predict(runs)).all()


@pytest.mark.parametrize("named", [None, "missing.ckpt"])
def test_without_weights_it_says_what_to_do(named, monkeypatch):
    monkeypatch.delenv(WEIGHTS, raising=False)
    if named:
        monkeypatch.setenv(WEIGHTS, named)
    runs = pd.DataFrame({"nodes": range(1, 13), "time_s": np.arange(12) + 1.0})
    campaign = {"data": {"target": "time_s"}, "techniques": {"TabPFN": {}}}
    with pytest.raises(foretell.ForetellError, match=WEIGHTS):
        foretell.fit_model(campaign, runs)
