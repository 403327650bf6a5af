"""Every technique keeps the contract, and the contract notices when one does not."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from foretell.model.techniques import (
    TECHNIQUES,
    Hyperparameter,
    Regressor,
    State,
    Technique,
    TrainingRows,
)
from foretell.model.techniques._values import real
from foretell.model.techniques.linear._least_squares import LinearRegressor
from foretell.model.techniques.linear.dummy import DummyTechnique
from foretell.testing import check_technique


@pytest.mark.parametrize("name", TECHNIQUES.names())
def test_technique_keeps_the_contract(name):
    technique = TECHNIQUES.get(name)
    assert technique.name == name
    check_technique(technique)


@pytest.mark.parametrize("name", TECHNIQUES.names())
def test_merged_rows_are_used_or_refused_but_never_taken_for_single_runs(name):
    technique = TECHNIQUES.get(name)()
    random = np.random.default_rng(3)
    x = random.uniform(1, 9, size=(12, 2))
    y = random.uniform(1, 9, size=12)
    weight = np.where(np.arange(12) < 6, 40.0, 1.0)
    params = {h.name: h.read(h.default) for h in technique.hyperparameters}
    if technique.merges_repeats(params) or technique.weighs_rows:
        heavy = technique.fit(technique.prepare(TrainingRows(x, y, weight)), params, 0)
        light = technique.fit(technique.prepare(TrainingRows(x, y, np.ones(12))), params, 0)
        between = (x[:-1] + x[1:]) / 2  # full-grown trees know every training row by heart
        assert not np.allclose(heavy.predict(between), light.predict(between))
    else:
        with pytest.raises(ValueError, match="repeats were merged"):
            technique.fit(technique.prepare(TrainingRows(x, y, weight)), params, 0)


def test_importing_all_techniques_loads_no_heavy_library():
    code = (
        "import sys; from foretell.model.techniques import TECHNIQUES;"
        "[TECHNIQUES.get(n) for n in TECHNIQUES.names()];"
        "print(sorted({'sklearn', 'xgboost', 'scipy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class _Unseeded(DummyTechnique):
    def fit(self, prepared, params, seed):
        noise = np.random.default_rng().uniform()
        return LinearRegressor(np.zeros(prepared.x.shape[1]), noise)


class _Scribbling(DummyTechnique):
    def fit(self, prepared, params, seed):
        prepared.y[0] += 1
        return super().fit(prepared, params, seed)


class _Unweighted(DummyTechnique):
    def fit(self, prepared, params, seed):
        return LinearRegressor(np.zeros(prepared.x.shape[1]), float(prepared.y.mean()))


class _Trusting(LinearRegressor):
    @classmethod
    def from_state(cls, state, n_features):
        return cls(state.arrays["coefficients"], state.values["intercept"])


class _TrustingTechnique(DummyTechnique):
    regressor = _Trusting


class _Forgetful(DummyTechnique):
    class _Half(LinearRegressor):
        def to_state(self) -> State:
            return State({"intercept": self.intercept / 2, "notes": []}, super().to_state().arrays)

    def fit(self, prepared, params, seed):
        return self._Half(np.zeros(prepared.x.shape[1]), float(prepared.y.mean()))


class _IllegalGrid(DummyTechnique):
    hyperparameters = (Hyperparameter("alpha", 1, real(above=0), grid=(0,)),)


class _IllegalPrior(DummyTechnique):
    hyperparameters = (Hyperparameter("alpha", 1, real(above=0), prior="uniform(-1,1)"),)


class _FalsePath(DummyTechnique):
    path = "depth"
    hyperparameters = (Hyperparameter("depth", 1, real(above=0)),)

    def fit(self, prepared, params, seed):
        class Same(LinearRegressor):
            def at(self, value) -> Regressor:
                return self

        return Same(np.zeros(prepared.x.shape[1]), params["depth"])


class _Nameless(Technique):
    regressor = LinearRegressor

    def fit(self, prepared, params, seed):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("technique", "message"),
    [
        (_Unseeded, "the same seed must give the same model"),
        (_Scribbling, "must not change the training rows"),
        (_Unweighted, "merged repeats must give the same model"),
        (_TrustingTechnique, "from_state must"),
        (_Forgetful, "rebuilt model must predict the same"),
        (_IllegalGrid, "offered by default, but refused"),
        (_IllegalPrior, "offered by default, but refused"),
        (_FalsePath, r"at\(3\) must equal a fit with depth 3"),
        (_Nameless, "must have a name"),
    ],
)
def test_contract_notices_a_broken_technique(technique, message):
    with pytest.raises(AssertionError, match=message):
        check_technique(technique)
