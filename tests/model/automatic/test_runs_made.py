"""Runs that were made: predictions of measured configurations know them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.model.automatic.bench import Bench, FitTask, answer, fit_member
from foretell.model.automatic.ensemble import EnsembleRegressor
from foretell.model.automatic.runs_made import RunsMade
from foretell.model.techniques import State, TrainingRows

#: A configuration that takes three times as long as the law of all others says.
ODD = (40.0, 4.0)


def rows(n_odd, noise=0.02, seed=0):
    """Runs of a law on a grid, one each, and the runs of a configuration that breaks it."""
    random = np.random.default_rng(seed)
    grid = np.array([(s, n) for s in (10.0, 20, 40, 80, 160) for n in (1.0, 2, 4, 8)])
    x = np.concatenate([grid[(grid != ODD).any(axis=1)], np.repeat([ODD], n_odd, axis=0)])
    y = time_of(x) * random.lognormal(0, noise, len(x))
    y[len(x) - n_odd :] *= 3.0
    return TrainingRows(x, y, np.ones(len(y)))


def time_of(x):
    return 5 + 3 * x[:, 0] / x[:, 1]


def fit(data, members=("PowerLaw", "ScalingLaw")):
    bench = Bench.of(data, members, 0)
    fits = {name: fit_member(bench, FitTask(name)) for name in bench.voters}
    answers = {i: {} for i in range(len(bench.folds))}
    for task in bench.rehearsals(fits):
        answers[task.fold][task.member] = answer(bench, task)
    return bench.assemble(fits, answers)


def without_runs(model):
    return replace(model, runs=RunsMade.none(2))


@pytest.mark.parametrize("n_runs", [2, 5])
def test_a_prediction_does_not_contradict_repeated_runs_by_more_than_their_noise(n_runs):
    data = rows(n_runs)
    own = np.log(data.y[-n_runs:])
    model = fit(data).regressor
    (vote,) = np.log(without_runs(model).predict(np.array([ODD])))
    (predicted,) = np.log(model.predict(np.array([ODD])))
    noise = max(float(own.std(ddof=1)), 1e-6)
    assert own.mean() - vote > 0.5  # all others contradict them
    assert abs(predicted - np.median(own)) <= noise


def test_runs_that_scatter_widely_are_believed_less_than_runs_that_agree():
    data = rows(5)
    model = fit(data).regressor
    scattered = data.y.copy()
    scattered[-5:] *= [0.2, 0.5, 1.0, 2.0, 5.0]
    doubted = fit(replace(data, y=scattered)).regressor
    middle = np.log(np.median(scattered[-5:]))
    off = [abs(float(np.log(m.predict(np.array([ODD]))[0])) - middle) for m in (model, doubted)]
    assert off[1] > 3 * off[0]


def test_errors_at_points_of_many_runs_show_the_error_of_the_vote():
    merged = Bench.of(rows(1), ["PowerLaw"], 0).merged
    merged = replace(merged, points=replace(merged.points, noise=0.1))
    errors = np.random.default_rng(0).normal(0, 0.1, 1000)
    few, many = (RunsMade.of(merged, errors, np.full(1000, n), 0) for n in (1.0, 25.0))
    assert few.vote_variance < 0.001  # all of it is noise
    assert many.vote_variance == pytest.approx(0.1**2 * (1 - 1 / 25), rel=0.15)


def test_the_error_of_the_vote_does_not_hide_in_the_noise_of_one_run():
    """The vote is off by 5 % everywhere, in turns; four runs of each configuration show it."""
    random = np.random.default_rng(0)
    x = np.array([(s, n) for s in (10.0, 20, 40, 80, 160) for n in (1.0, 2, 4, 8)])
    y = time_of(x) * np.exp(0.05 * random.choice([-1, 1], len(x)))
    x, y = np.repeat(x, 4, axis=0), np.repeat(y, 4) * random.lognormal(0, 0.15, 4 * len(x))
    model = fit(TrainingRows(x, y, np.ones(len(y)))).regressor
    assert 0.02**2 < model.runs.vote_variance < 0.1**2


def test_a_single_odd_run_is_taken_for_a_disturbance():
    data = rows(1)
    model = fit(data).regressor
    (vote,) = without_runs(model).predict(np.array([ODD]))
    (predicted,) = model.predict(np.array([ODD]))
    assert vote <= predicted < 1.1 * vote  # though the run took about three times as long


def test_single_runs_pull_predictions_part_of_the_way():
    data = rows(1, noise=0.1)
    model = fit(data).regressor
    usual = slice(0, len(data.y) - 1)
    vote, predicted = (np.log(m.predict(data.x[usual])) for m in (without_runs(model), model))
    pull = (predicted - vote) / (np.log(data.y[usual]) - vote)
    assert ((pull > 0) & (pull < 1)).all()


def test_other_configurations_are_left_to_the_vote():
    model = fit(rows(5)).regressor
    x = np.random.default_rng(1).uniform(1, 200, (200, 2))
    x[0] = ODD[0], np.nextafter(ODD[1], 9) + 1e-9
    assert np.array_equal(model.predict(x), without_runs(model).predict(x))


def test_the_order_of_rows_does_not_matter():
    data = rows(5)
    order = np.random.default_rng(3).permutation(len(data.y))
    shuffled = TrainingRows(data.x[order], data.y[order], data.weight)
    runs = [Bench.of(d, ("PowerLaw",), 0) for d in (data, shuffled)]
    made = [RunsMade.of(b.merged, np.array([-0.1, 0.1]), np.ones(2), 0) for b in runs]
    votes = np.zeros(len(data.y))
    assert made[1].combined(data.x, votes) == pytest.approx(made[0].combined(data.x, votes))
    asked = made[0].combined(data.x[order], votes)
    assert np.array_equal(asked, made[0].combined(data.x, votes)[order])


def test_the_last_digits_and_the_sign_of_zero_do_not_hide_a_configuration():
    x = np.array([[0.0, 0.1 + 0.2], [7.0, 1e9]])
    made = RunsMade(x, np.ones(2), np.full(2, 1e-6), np.ones(2, dtype=np.int64), 1.0, x[:0])
    asked = np.array([[-0.0, 0.3], [7.0, 1e9 + 1e-6], [7.0, 1e9 + 1]])
    assert made.combined(asked, np.zeros(3)) == pytest.approx([1, 1, 0], abs=1e-5)


def test_among_very_many_rows_exactly_the_measured_ones_are_found():
    random = np.random.default_rng(0)
    x = random.integers(0, 30, (100_000, 4)).astype(float)
    measured = np.unique(x[:3000], axis=0)
    made = RunsMade(measured, np.ones(len(measured)), np.full(len(measured), 1e-6),
                    np.ones(len(measured), dtype=np.int64), 1.0, x[:0])  # fmt: skip
    known = set(map(tuple, measured.tolist()))
    expected = np.array([tuple(row) in known for row in x.tolist()])
    assert np.array_equal(made.combined(x, np.zeros(len(x))) > 0.5, expected)


def test_rehearsals_do_not_know_the_runs_they_ask_about():
    assembled = fit(rows(5))
    odd = [
        (fold, float(table[fold.test.tolist().index(at), 0]))
        for fold, table in zip(assembled.folds, assembled.answers, strict=True)
        for at in np.flatnonzero((Bench.of(rows(5), ("PowerLaw",), 0).points.x == ODD).all(axis=1))
        if fold.kind == "inside" and at in fold.test
    ]
    assert odd
    for _, log_y in odd:
        assert log_y < np.log(2 * time_of(np.array([ODD]))[0])


# Through the whole of automatic mode


@pytest.fixture(scope="module")
def odd_runs():
    data = rows(5)
    return pd.DataFrame({"size": data.x[:, 0], "nodes": data.x[:, 1], "time_s": data.y})


@pytest.fixture(scope="module")
def fitted(odd_runs):
    return foretell.fit_model(odd_runs, target="time_s").best


def test_automatic_mode_and_its_plans_know_repeated_runs(fitted, odd_runs, tmp_path):
    asked = pd.DataFrame({"size": [ODD[0]], "nodes": [ODD[1]]})
    own = np.log(odd_runs["time_s"].to_numpy()[-5:])
    noise = own.std(ddof=1)
    assert abs(float(np.log(fitted.predict(asked)[0])) - np.median(own)) <= noise
    plan = foretell.make_plan(fitted, {"vary": {"nodes": [2, 4]}, "fix": {"size": ODD[0]}})
    assert plan.chosen.configuration["nodes"] == 2  # 65 s; the law says 35 s for 4 nodes
    fitted.save(tmp_path / "model.foretell")
    loaded = foretell.load_model(tmp_path / "model.foretell")
    assert np.array_equal(loaded.predict(odd_runs), fitted.predict(odd_runs))


def test_intervals_at_measured_configurations_are_not_wider(fitted):
    frame = pd.DataFrame({"size": [ODD[0], 41.0], "nodes": [ODD[1], ODD[1]]})
    found = fitted.forecast(frame)
    measured, other = np.log(found.upper / found.lower)
    assert measured <= other * (1 + 1e-9)


# Saving


@pytest.fixture(scope="module")
def state():
    state = fit(rows(5)).regressor.to_state()
    return State(json.loads(json.dumps(state.values)), dict(state.arrays))


def test_a_saved_ensemble_knows_the_runs(state):
    rebuilt = EnsembleRegressor.from_state(state, 2)
    assert np.array_equal(rebuilt.predict(rows(5).x), fit(rows(5)).regressor.predict(rows(5).x))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("x", lambda a: a[:, :1]),
        ("x", lambda a: np.full_like(a, np.nan)),
        ("log_y", lambda a: a[:-1]),
        ("log_y", lambda a: a + 1e300),
        ("variance", lambda a: -a),
        ("variance", lambda a: a * 0),
        ("n_runs", lambda a: a.astype(float)),
        ("n_runs", lambda a: a - 1),
    ],
)
def test_arrays_that_make_no_sense_are_refused(state, name, change):
    arrays = {**state.arrays, f"runs/{name}": change(state.arrays[f"runs/{name}"])}
    with pytest.raises(ValueError):
        EnsembleRegressor.from_state(State(state.values, arrays), 2)


@pytest.mark.parametrize("value", [-1.0, float("nan"), 1e300, "1", None])
def test_a_variance_that_makes_no_sense_is_refused(state, value):
    values = {**state.values, "runs": {"vote_variance": value}}
    with pytest.raises(ValueError):
        EnsembleRegressor.from_state(State(values, state.arrays), 2)


def test_a_file_with_very_many_configurations_is_refused(state):
    n = 5_001
    large = {"x": np.zeros((n, 2)), "log_y": np.zeros(n), "variance": np.ones(n),
             "n_runs": np.ones(n, dtype=np.int64)}  # fmt: skip
    arrays = {**state.arrays, **{f"runs/{name}": array for name, array in large.items()}}
    with pytest.raises(ValueError, match="5000"):
        EnsembleRegressor.from_state(State(state.values, arrays), 2)
