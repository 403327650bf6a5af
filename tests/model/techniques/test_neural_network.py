from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.neural_network import MLPRegressor

from foretell.model.techniques import TrainingRows, _base, complete
from foretell.model.techniques.neural_network import NeuralNetworkTechnique


def data(n=80):
    random = np.random.default_rng(0)
    x = random.uniform(1, 10, size=(n, 3)) * [1, 1e9, 1e-6]
    return x, 5000 + 300 * x[:, 0] - 1e-6 * x[:, 1] + random.normal(size=n)


def fit(x, y, seed=2, **options):
    technique = NeuralNetworkTechnique()
    rows = TrainingRows(x, y, np.ones(len(y)))
    return technique.fit(technique.prepare(rows), complete(technique, options), seed)


def reference(x, y, **settings):
    """Train scikit-learn's network on standardized data, and predict in natural units."""
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    model = MLPRegressor(
        hidden_layer_sizes=(7, 4),
        alpha=0,
        batch_size=16,
        learning_rate_init=0.01,
        max_iter=6,
        n_iter_no_change=6,
        random_state=2,
        **settings,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(scaled, (y - y.mean()) / y.std())
    return model.predict(scaled) * y.std() + y.mean()


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"activation": "relu"}, {"activation": "relu"}),
        ({"activation": "tanh"}, {"activation": "tanh"}),
        ({"activation": "sigmoid"}, {"activation": "logistic"}),
        ({"activation": "linear"}, {"activation": "identity"}),
        ({"optimizer": "sgd"}, {"solver": "sgd", "momentum": 0}),
        ({"optimizer": "lbfgs"}, {"solver": "lbfgs"}),
    ],
)
def test_saved_form_predicts_as_scikit_learn_on_standardized_data(options, settings):
    x, y = data()
    fitted = fit(x, y, n_features=[7, 4], batch_size=16, learning_rate=0.01, epochs=6, **options)
    rebuilt = NeuralNetworkTechnique.regressor.from_state(fitted.to_state(), 3)
    np.testing.assert_allclose(rebuilt.predict(x), reference(x, y, **settings), rtol=1e-9)


@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
def test_features_of_very_different_sizes_are_learned(optimizer):
    x, y = data()
    fitted = fit(x, y, optimizer=optimizer, epochs=150, learning_rate=0.01)
    error = np.abs(fitted.predict(x) - y).mean()
    assert error < 0.05 * np.abs(y - y.mean()).mean()


def test_all_epochs_are_run_though_nothing_improves():
    x, y = data()
    some, more = (fit(x, np.full(len(y), 3.0), epochs=n) for n in (40, 41))
    assert some.layers[0][0].tolist() != more.layers[0][0].tolist()


def test_constant_feature_and_constant_target_are_no_obstacle():
    x, y = data()
    x[:, 1] = 0.1 + 1e7
    assert np.isfinite(fit(x, np.full(len(y), 3.0)).predict(x)).all()


def test_batch_larger_than_the_data_is_the_data():
    x, y = data(8)
    assert (
        fit(x, y, batch_size=500).predict(x).tolist() == fit(x, y, batch_size=8).predict(x).tolist()
    )


def test_options_without_effect_leave_a_note():
    x, y = data()
    plain, other = fit(x, y), fit(x, y, dropouts=[0.2, 0.2], optimizer="RMSprop")
    assert plain.notes() == []
    assert len(other.notes()) == 2
    assert "dropouts have no effect" in other.notes()[0]
    assert "trained with adam" in other.notes()[1]
    assert other.predict(x).tolist() == plain.predict(x).tolist()


def test_seeds_give_different_networks():
    x, y = data()
    assert fit(x, y, seed=1).predict(x).tolist() != fit(x, y, seed=2).predict(x).tolist()


def test_divergence_is_an_error_and_no_warning():
    x, y = data()
    with pytest.raises(ValueError, match="non-finite"):
        fit(x, y, optimizer="sgd", learning_rate=1e6, epochs=50)


def test_prediction_in_blocks_is_the_same(monkeypatch):
    x, y = data()
    fitted = fit(x, y)
    at_once = fitted.predict(x)
    monkeypatch.setattr(_base, "_BLOCK_VALUES", 100)
    np.testing.assert_allclose(fitted.predict(x), at_once, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loss", "mae"),
        ("n_features", []),
        ("n_features", [0]),
        ("dropouts", [0.2, 1.0]),
        ("optimizer", "magic"),
        ("activation", "step"),
    ],
)
def test_illegal_options_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}: must"):
        complete(NeuralNetworkTechnique, {name: value})


def test_zero_scale_in_a_file_is_refused():
    x, y = data()
    state = fit(x, y).to_state()
    state.arrays["x_scale"] = np.zeros(3)
    with pytest.raises(ValueError, match="x_scale"):
        NeuralNetworkTechnique.regressor.from_state(state, 3)
