from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVR

from foretell.model.techniques import TrainingRows, _base, complete, svr
from foretell.model.techniques.svr import SupportVectors, SVRTechnique


def data(n=60):
    random = np.random.default_rng(0)
    x = random.normal(size=(n, 3))
    return x, x[:, 0] - 2 * x[:, 1] + np.sin(3 * x[:, 2])


def fit(x, y, **options):
    technique = SVRTechnique()
    params = complete(technique, options)
    return technique.fit(technique.prepare(TrainingRows(x, y, np.ones(len(y)))), params, seed=0)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
@pytest.mark.parametrize("gamma", ["scale", "auto", 0.03])
def test_saved_form_predicts_as_scikit_learn(kernel, gamma):
    x, y = data()
    options = {"kernel": kernel, "gamma": gamma, "C": 2.0, "epsilon": 0.1, "degree": 3}
    reference = SVR(**options, tol=1e-7).fit(x, y)
    fitted = fit(x, y, **options)
    rebuilt = SVRTechnique.regressor.from_state(fitted.to_state(), 3)
    new = np.random.default_rng(1).normal(size=(40, 3))
    np.testing.assert_allclose(rebuilt.predict(new), reference.predict(new), rtol=2e-3, atol=2e-3)


def test_linear_kernel_gives_coefficients_and_others_none():
    x, y = data()
    reference = SVR(kernel="linear", C=1.0, epsilon=0.05, tol=1e-7).fit(x, y)
    slopes, intercept = fit(x, y, C=1.0).coefficients()
    np.testing.assert_allclose(slopes, reference.coef_[0], rtol=2e-3)
    assert intercept == pytest.approx(reference.intercept_[0], rel=2e-3)
    assert fit(x, y, kernel="rbf", gamma="scale").coefficients() is None


def test_radial_kernel_is_sound_far_from_the_origin():
    x = np.round(data()[0], 3)
    near = SupportVectors(x, np.ones(len(x)), 0.0, kernel="rbf", gamma=0.5, degree=1)
    far = SupportVectors(x + 1e8, np.ones(len(x)), 0.0, kernel="rbf", gamma=0.5, degree=1)
    np.testing.assert_allclose(far.predict(x + 1e8), near.predict(x), rtol=1e-6)


def test_prediction_in_blocks_is_the_same(monkeypatch):
    x, y = data()
    fitted = fit(x, y, kernel="rbf", gamma="scale", C=1.0)
    at_once = fitted.predict(x)
    monkeypatch.setattr(_base, "_BLOCK_VALUES", 100)
    np.testing.assert_allclose(fitted.predict(x), at_once, rtol=1e-12)


def test_stopped_solver_leaves_a_note_and_no_warning(monkeypatch):
    monkeypatch.setattr(svr, "_MOST_STEPS", 1000)
    x, y = data(200)
    fitted = fit(1e4 * x, y, C=1e6)
    assert fitted.notes() == ["did not converge within 1000 steps"]
    assert fit(x, y).notes() == []


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_target_within_epsilon_is_constant(kernel):
    x, y = data()
    fitted = fit(x, np.full(len(y), 4.0), kernel=kernel, gamma="scale", epsilon=0.1)
    predicted = SVRTechnique.regressor.from_state(fitted.to_state(), 3).predict(x)
    np.testing.assert_allclose(predicted, 4.0, atol=0.1)
    assert np.ptp(predicted) == 0


@pytest.mark.parametrize(
    ("name", "value"), [("gamma", 0), ("gamma", "wide"), ("kernel", "cubic"), ("C", 0)]
)
def test_illegal_options_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}: must be"):
        complete(SVRTechnique, {name: value})


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("seed", range(5))
def test_last_bits_of_the_columns_change_nothing(kernel, seed):
    x, y = data()
    random = np.random.default_rng(seed)
    noisy = x * (1 + random.choice([-2e-16, 0.0, 2e-16], x.shape))
    options = {"kernel": kernel, "C": 10.0, "gamma": "scale"}
    np.testing.assert_allclose(
        fit(noisy, y, **options).predict(x), fit(x, y, **options).predict(x), rtol=1e-9
    )
