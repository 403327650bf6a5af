"""The model of epoch times: fitted beside the training, and used inside its data."""

import math

import numpy as np
import pytest

from foretell.tune import open_store, pipeline
from foretell.tune.hook.background import EpochModel, ModelKeeper, newest_model, start_fit
from foretell.tune.hook.fitting import fit_epochs
from foretell.tune.store import EpochRow


def filled(path, n=30):
    """A store of a job in which two threads pay for large batches only."""
    store, rng = open_store(path), np.random.default_rng(0)
    rows = []
    for i in range(n):
        batch = int(rng.choice([16, 32, 64, 128]))
        for epoch, threads in enumerate((1, 2)):
            seconds = 100 / batch**0.5 * (1 if threads == 1 else 2 * (32 / batch) ** 0.5)
            seconds *= rng.lognormal(0, 0.02)
            rows.append(EpochRow("job", f"t{i}", epoch, "steady", {"batch": batch},
                                 {"threads": threads}, seconds))  # fmt: skip
    store.add_epochs(rows)
    return store


def load(path):
    from foretell.model.saved.model import load_model

    return EpochModel(load_model(path))


def test_a_fitted_model_compares_settings_inside_its_data_and_nowhere_else(tmp_path):
    store = filled(tmp_path / "store")
    (tmp_path / "store.models").mkdir()
    path = fit_epochs(store.path, "job")
    assert newest_model(store.path, "job") == (60, path)
    model = load(path)
    for batch in (16, 128):
        found = model.ratio({"batch": batch}, {"threads": 2}, {"threads": 1}, is_shared=False)
        middle = math.sqrt(found.low * found.high)
        assert middle == pytest.approx(2 * (32 / batch) ** 0.5, rel=0.15)
        assert found.is_inside
    asked = ({"batch": 4096}, {"threads": 2}, {"threads": 1})
    assert model.ratio(*asked, is_shared=False) is None
    assert model.ratio({}, {"threads": 2}, {"threads": 1}, is_shared=False) is None


def test_a_fitted_model_says_nothing_of_a_knob_that_it_does_not_know(tmp_path):
    store = filled(tmp_path / "store")
    (tmp_path / "store.models").mkdir()
    model = load(fit_epochs(store.path, "job"))
    settings = [{"threads": t, "workers": w} for t, w in ((1, 0), (1, 1), (2, 0))]
    asked = {"hyper": {"batch": 16}, "is_shared": False}
    assert model.ratio(setting=settings[1], than=settings[0], **asked) is None
    assert model.ratio(setting=settings[2], than=settings[1], **asked) is None
    assert model.ratio(setting=settings[2], than=settings[0], **asked).low > 1


def test_only_one_fit_of_a_job_runs_at_a_time_and_its_lock_goes_with_it(tmp_path):
    store = filled(tmp_path / "store", n=4)
    first = start_fit(store.path, "job")
    assert start_fit(store.path, "job") is None
    other = start_fit(store.path, "nothing")
    assert first.wait() == 0
    assert other.wait() == 0
    assert newest_model(store.path, "nothing") is None
    assert not list((tmp_path / "store.models").glob("*.lock"))


def test_the_lock_of_a_fit_that_was_killed_is_taken_over(tmp_path):
    store = filled(tmp_path / "store", n=4)
    first = start_fit(store.path, "job")
    first.kill()
    first.wait()
    second = start_fit(store.path, "job")
    assert second is not None
    second.kill()
    second.wait()


class Noted:
    """A policy that only takes a model."""

    model = None


def test_no_fit_is_begun_after_short_epochs_which_it_would_only_slow_down(tmp_path):
    store = open_store(tmp_path / "store")
    rows = [EpochRow("job", "t", i, "steady", {}, {"threads": 1}, 0.5) for i in range(60)]
    store.add_epochs(rows)
    keeper = ModelKeeper(store, "job")
    keeper.begin()
    keeper.count()
    assert keeper._fit is None


def test_a_fit_is_begun_after_fifty_epochs_and_its_model_reaches_the_policy(tmp_path, monkeypatch):
    store = filled(tmp_path / "store", n=25)
    keeper, policy = ModelKeeper(store, "job"), Noted()
    keeper.begin()
    keeper.count()  # the 51st, of which none was fitted yet
    assert keeper._fit.wait() == 0
    clock = type("Clock", (), {})()
    keeper.look(policy, clock)  # begins to load it
    keeper._thread.join()
    keeper.look(policy, clock)
    asked = ({"batch": 16}, {"threads": 2}, {"threads": 1})
    assert policy.model.ratio(*asked, is_shared=False).low > 1


def test_a_model_that_cannot_be_read_does_no_harm(tmp_path):
    store = filled(tmp_path / "store")
    (tmp_path / "store.models").mkdir()
    path = fit_epochs(store.path, "job")
    path.write_bytes(b"no model")
    knobs = pipeline("job", {"prefetch": [1, 2]}, {"batch": 16}, store=store, strict=True)
    assert list(knobs.epochs(range(3))) == [0, 1, 2]
