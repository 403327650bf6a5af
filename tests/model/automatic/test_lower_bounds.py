"""Runs that were stopped at a time limit, and what they teach."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, t

import foretell
from foretell.dataset import read_dataset
from foretell.model.automatic.lower_bounds import mean_beyond, weight_of_bound
from foretell.model.automatic.members import USUAL

LIMIT_S = 120.0


def truth(frame):
    """Six times slower if the data exceed the memory of all nodes."""
    is_swapping = frame["size"] > frame["nodes"] * frame["memory"]
    return (5 + 2 * frame["size"] / frame["nodes"]) * np.where(is_swapping, 6.0, 1.0)


def measured(seed=0, law=truth, **more):
    """A table as `foretell measure` writes it, with a time limit of two minutes."""
    settings = [
        (nodes, size, memory)
        for nodes in (1, 2, 4, 8)
        for size in (10, 20, 40, 80, 160)
        for memory in (8, 16)
    ]
    frame = pd.DataFrame(settings * 2, columns=["nodes", "size", "memory"])
    time_s = law(frame) * np.random.default_rng(seed).lognormal(0, 0.03, len(frame))
    return frame.assign(
        repeat=1,
        status=np.where(time_s > LIMIT_S, "timed out", "ok"),
        wall_time_s=np.minimum(time_s, LIMIT_S),
        **more,
        n_attempts=1,
        started_at="2026-01-01",
        reason="",
    )


@pytest.fixture(scope="module")
def runs():
    return measured()


@pytest.fixture(scope="module")
def corner(runs):
    """The configurations of which every run was stopped."""
    settings = ["nodes", "size", "memory"]
    is_late = (runs["status"] == "timed out").groupby([runs[s] for s in settings]).all()
    return is_late[is_late].index.to_frame(index=False)


@pytest.fixture(scope="module")
def taught(runs):
    return foretell.fit_model(runs, target="wall_time_s")


@pytest.fixture(scope="module")
def untaught(runs):
    return foretell.fit_model(runs[runs["status"] == "ok"], target="wall_time_s")


def test_predictions_exceed_the_limit_where_every_run_was_stopped(taught, untaught, corner):
    assert (untaught.predict(corner) < LIMIT_S).any()
    assert (taught.predict(corner) > LIMIT_S).all()


def test_predictions_there_are_nearer_to_the_truth(taught, untaught, corner):
    errors = [
        np.abs(np.log(fit.predict(corner) / truth(corner))).mean() for fit in (taught, untaught)
    ]
    assert errors[0] < 0.75 * errors[1]


@pytest.mark.parametrize("seed", range(3))
def test_intervals_hold_where_every_run_was_stopped_and_say_that_it_is_far(seed, tmp_path):
    runs = measured(seed)
    settings = ["nodes", "size", "memory"]
    is_late = (runs["status"] == "timed out").groupby([runs[s] for s in settings]).transform("all")
    fit = foretell.fit_model(runs, target="wall_time_s", output=tmp_path / "out")
    corner = runs.loc[is_late, settings].drop_duplicates()
    model = foretell.load_model(tmp_path / "out" / "best.foretell")
    found = model.forecast(corner)
    assert np.mean(found.upper > truth(corner)) >= 0.85
    assert set(found.trust) == {"far"}
    assert np.isnan(found.expected_error).all()
    assert all("stopped at a time limit" in remark for remark in found.outside)
    ended = fit.forecast(runs[~is_late])
    assert set(ended.trust) == {"inside"}
    assert not model.outlook(corner, [0.9]).is_supported.any()


def test_a_cliff_behind_which_runs_were_stopped_has_no_height():
    settings = [(n, s) for n in (1, 2, 4, 8, 16) for s in (1, 2, 4, 8, 16, 32)]
    frame = pd.DataFrame(settings, columns=["nodes", "size"])
    ratio = frame["size"] / frame["nodes"]
    time_s = (60 * ratio + 4) * np.where(ratio >= 4, 4, 1)
    time_s *= np.random.default_rng(7).lognormal(0, 0.03, len(frame))
    late = np.where(ratio >= 4, "timed out", "ok")
    fit = foretell.fit_model(
        frame.assign(status=late, time_s=np.minimum(time_s, 600)), target="time_s"
    )
    (cliff,) = fit.results["explanation"]["cliffs"]
    assert cliff["factor"] is None
    assert "nearly all runs were stopped at a time limit" in str(fit)


def test_no_prediction_there_falls_by_much(taught, untaught, corner):
    assert (taught.predict(corner) > 0.75 * untaught.predict(corner)).all()


def test_predictions_of_measured_configurations_hardly_change(taught, untaught, runs):
    good = runs[runs["status"] == "ok"]
    change = taught.predict(good) / untaught.predict(good) - 1
    assert np.abs(change).mean() < 0.03


def test_errors_intervals_and_ranges_rest_on_runs_that_went_well():
    runs = measured(law=lambda f: 3 + 0.5 * f["size"] + 2 * f["size"] / f["nodes"])
    good = runs[runs["status"] == "ok"]
    taught, untaught = (foretell.fit_model(f, target="wall_time_s") for f in (runs, good))
    late = runs[runs["status"] == "timed out"]
    assert (taught.predict(late) != untaught.predict(late)).all()
    assert taught.results.data.n_rows == len(good)
    assert taught.best.ranges == untaught.best.ranges
    assert taught.best.scores == untaught.best.scores
    found, expected = (fit.forecast(good) for fit in (taught, untaught))
    for end in ("lower", "upper"):  # as far from the prediction as without the bounds
        np.testing.assert_allclose(
            getattr(found, end) / found.value, getattr(expected, end) / expected.value
        )


def test_a_bound_far_above_all_runs_that_went_well_is_kept():
    """The runs took ten seconds, or more than an hour where the data exceed the memory."""
    settings = [(n, s) for n in (1, 2, 4, 8) for s in (10, 20, 40, 80, 160)]
    frame = pd.DataFrame(settings, columns=["nodes", "size"])
    is_late = frame["size"] / frame["nodes"] > 40
    time_s = 10 * np.random.default_rng(0).lognormal(0, 0.05, len(frame))
    runs = frame.assign(
        repeat=1,
        status=np.where(is_late, "timed out", "ok"),
        wall_time_s=np.where(is_late, 3600.0, time_s),
        n_attempts=1,
        started_at="2026-01-01",
        reason="",
    )
    found = foretell.fit_model(runs, target="wall_time_s").forecast(frame[is_late])
    assert (found.upper > 3600).all()


def test_too_little_time_for_lower_bounds_keeps_the_members_without_them(runs, monkeypatch):
    monkeypatch.setattr("foretell.model.automatic.fit._TAUGHT_SHARE", -1.0)
    cut = foretell.fit_model(runs, target="wall_time_s", time_limit_s=1000)
    assert cut.best.hyperparameters["members"] == list(USUAL)
    assert any("no time to learn from runs that timed out" in n for n in cut.results.notes)


def test_the_summary_says_how_many_runs_are_lower_bounds(taught, untaught, runs):
    n_late = int((runs["status"] == "timed out").sum())
    assert taught.results["data"]["n_lower_bounds"] == n_late
    assert f"{n_late} more runs stopped at a time limit" in str(taught)
    assert not any("left out" in note for note in taught.results.notes)
    assert untaught.results["data"]["n_lower_bounds"] == 0
    assert "lower bound" not in str(untaught)


def test_bounds_that_predictions_exceed_change_nothing():
    runs = measured(law=lambda frame: 2 * frame["size"] ** 1.2 / frame["nodes"] ** 0.8)
    runs = runs[(runs["status"] == "ok") | (runs["size"] > 100)]
    known = foretell.fit_model(runs, target="wall_time_s")
    alone = foretell.fit_model(runs[runs["status"] == "ok"], target="wall_time_s")
    assert known.results["data"]["n_lower_bounds"] > 0
    np.testing.assert_array_equal(known.predict(runs), alone.predict(runs))


def test_a_level_that_never_went_well_is_left_out_and_noted():
    runs = measured(law=lambda frame: 1.0 * frame["size"])
    runs.insert(0, "machine", np.where(runs["status"] == "ok", "fast", "slow"))
    fit = foretell.fit_model(runs, target="wall_time_s", time_limit_s=3)
    n_late = int((runs["status"] == "timed out").sum())
    assert fit.results["data"]["n_lower_bounds"] == 0
    assert any(f"{n_late} runs that timed out" in note for note in fit.results.notes)


@pytest.mark.parametrize(
    ("target", "is_bounded"),
    [
        ("wall_time_s", True),
        ("cpu_time_s", True),
        ("energy_j", True),
        ("peak_memory_bytes", True),
        ("images_per_s", False),
        ("other_load", False),  # a mean, which may fall until the end
        ("size", False),  # a setting
    ],
)
def test_only_what_grows_during_a_run_is_bounded_by_a_time_limit(runs, target, is_bounded):
    more = dict.fromkeys(("cpu_time_s", "energy_j", "peak_memory_bytes", "other_load",
                          "images_per_s"), 1.0)  # fmt: skip
    dataset = read_dataset(measured(**more))
    kept, bounds = dataset.split_timed_out(target)
    n_late = int((runs["status"] == "timed out").sum())
    assert len(bounds.frame) == (n_late if is_bounded else 0)
    assert len(kept.frame) + len(bounds.frame) == len(dataset.frame)


@pytest.mark.parametrize(("word", "is_known"), [("timed out", True), ("TIMEOUT", False)])
def test_a_table_of_ones_own_may_say_which_runs_timed_out(runs, word, is_known):
    own = runs[["nodes", "size", "memory", "status", "wall_time_s"]]
    own = own.rename(columns={"wall_time_s": "run_s"}).replace({"status": {"timed out": word}})
    kept, bounds = read_dataset(own).split_timed_out("run_s")
    assert len(bounds.frame) == (own["status"] == word).sum() * is_known
    assert len(kept.frame) + len(bounds.frame) == len(own)


def test_runs_without_a_bound_are_left_out_as_before(runs):
    unknown = runs.assign(
        wall_time_s=runs["wall_time_s"].where(runs["status"] == "ok"),
    )
    fit = foretell.fit_model(unknown, target="wall_time_s", time_limit_s=3)
    n_late = int((runs["status"] == "timed out").sum())
    assert any(f"{n_late} timed out" in note for note in fit.results.notes)


def test_a_table_in_which_no_run_went_well_is_refused(runs):
    late = runs[runs["status"] == "timed out"]
    with pytest.raises(foretell.DatasetError, match="no run that went well"):
        foretell.fit_model(late, target="wall_time_s")


@pytest.mark.parametrize("bound", [-3.0, 0.0, 2.0, 8.0])
def test_the_mean_beyond_a_bound_is_that_of_draws(bound):
    draws = t(3).ppf(np.linspace(t(3).cdf(bound), 1, 2_000_002)[1:-1])
    assert mean_beyond(np.array([bound]))[0] == pytest.approx(draws.mean(), rel=0.01, abs=0.01)


@pytest.mark.parametrize("bound", [-2.0, 0.0, 1.5])
def test_a_bound_weighs_as_much_as_its_likelihood_is_curved(bound):
    # The second derivative of log P(value > bound) by the mean; a run has a curvature of 1.
    step = 1e-3
    left, mid, right = (norm(mean, 1).logsf(bound) for mean in (-step, 0.0, step))
    curvature = -(left - 2 * mid + right) / step**2
    assert weight_of_bound(np.array([bound]))[0] == pytest.approx(curvature, rel=1e-3)
