"""Members of several kinds, each heard by what it was worth."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from foretell.model.automatic.bench import Bench, EnsembleTechnique, FitTask, answer, fit_member
from foretell.model.automatic.ensemble import EnsembleRegressor
from foretell.model.automatic.members import LAWS, MEMBERS, USUAL, votes_of
from foretell.model.techniques import State, TrainingRows

FEW = ["LogGP", "ScalingLaw", "PowerLaw"]


def rows(n_repeats=1, noise=0.02, factor=1.0):
    """Runs of a law on a grid of sizes and nodes."""
    grid = np.array([(s, n) for s in (10.0, 20, 40, 80) for n in (1.0, 2, 4, 8)])
    x = np.repeat(grid, n_repeats, axis=0)
    y = factor * time_of(x) * np.random.default_rng(0).lognormal(0, noise, len(x))
    return TrainingRows(x, y, np.ones(len(y)))


def time_of(x):
    return 5 + 3 * x[:, 0] / x[:, 1]


def fit(data, members=FEW, seed=0):
    technique = EnsembleTechnique()
    return technique.fit(technique.prepare(data), {"members": list(members)}, seed)


@pytest.fixture(scope="module")
def fitted():
    return fit(rows())


def test_the_law_behind_the_runs_goes_on_outside_them(fitted):
    new = np.array([[160.0, 8], [80, 16], [160, 16], [30, 3]])
    assert fitted.predict(new) == pytest.approx(time_of(new), rel=0.08)


def test_a_prediction_lies_among_those_of_the_members(fitted):
    x = np.random.default_rng(1).uniform(1, 200, (50, 2))
    votes = np.column_stack([m.regressor.predict(x) for m in fitted.members])
    predicted = fitted.predict(x) / np.exp(fitted.shift)
    assert (predicted >= votes.min(axis=1) * (1 - 1e-9)).all()
    assert (predicted <= votes.max(axis=1) * (1 + 1e-9)).all()


def test_chosen_members_are_those_who_vote(fitted):
    assert [m.name for m in fitted.members] == FEW
    assert fitted.notes() == ["members: LogGP, ScalingLaw, PowerLaw"]


def test_any_technique_may_be_a_member():
    model = fit(rows(), ["Dummy", "LightTrees", "TrendTrees"])
    assert [m.technique for m in model.members] == ["Dummy", "LightTrees", "Hybrid"]
    assert (model.predict(rows().x) > 0).all()


def test_a_useless_member_does_little_harm():
    truth = time_of(rows().x)
    with_dummy = fit(rows(), [*FEW, "Dummy"]).predict(rows().x)
    assert np.mean(np.abs(with_dummy / truth - 1)) < 0.05


def test_from_very_few_runs_laws_and_one_process_are_asked():
    data = rows()
    few = TrainingRows(data.x[:6], data.y[:6], np.ones(6))
    assert Bench.of(few, USUAL, 0).voters == (*LAWS, "LogGP")
    assert Bench.of(data, USUAL, 0).voters == USUAL
    assert Bench.of(few, FEW, 0).voters == tuple(FEW)  # who was asked for by name stays


def test_members_that_are_alike_share_a_vote_and_some_have_none():
    inside, beyond = (dict(zip(USUAL, votes, strict=True)) for votes in votes_of(USUAL))
    assert inside["LogGP"] + inside["SparseGP"] == inside["LightTrees"]
    assert inside["FlatGP"] == beyond["PowerLaw"] == 0
    assert beyond["LightTrees"] == beyond["ScalingLaw"] > beyond["LogGP"]
    for few in ((*LAWS, "LogGP"), ("PowerLaw",), ("FlatGP", "ScalingLaw")):
        assert votes_of(few) == ([1.0] * len(few), [1.0] * len(few))
    assert votes_of(["LogGP", "FlatGP"]) == ([1.0, 0.0], [1.0, 1.0])


@pytest.mark.parametrize("missing", USUAL)
def test_members_keep_their_votes_if_one_of_them_failed_or_another_joined(missing):
    voters = [*(name for name in USUAL if name != missing), "XGBoost"]
    usual, changed = (
        [dict(zip(names, votes, strict=True)) for votes in votes_of(names)]
        for names in (USUAL, voters)
    )
    for before, after in zip(usual, changed, strict=True):
        assert after == {**{n: v for n, v in before.items() if n != missing}, "XGBoost": 1.0}


def test_members_have_their_votes_in_a_fitted_ensemble():
    model = fit(rows(), USUAL)
    names = [member.name for member in model.members]
    inside, beyond = model.vote.weights(np.array([[40.0, 4.0], [1000.0, 4.0]]))
    assert inside[names.index("FlatGP")] < 1e-12 > beyond[names.index("PowerLaw")]
    assert beyond[names.index("FlatGP")] > 1e-12 < inside[names.index("PowerLaw")]


def test_unit_of_the_target_does_not_matter():
    x = rows().x
    milliseconds = fit(rows(factor=1000)).predict(x)
    assert milliseconds == pytest.approx(1000 * fit(rows()).predict(x), rel=1e-3)


def test_doubt_beyond_the_data_holds_what_equally_good_laws_predict():
    """With one member, only the laws that it cannot tell apart may disagree."""
    model = fit(rows(noise=0.1), ["ScalingLaw"])
    x = np.array([[2000.0, 1], [80, 256]])
    values, shares = model.members[0].regressor.alternatives(x)
    assert len(shares) > 1
    doubt = model.with_doubt(x, (0.0001, 0.9999))
    off = np.log(values / model.predict(x)[:, None])[:, shares > 0.001]
    assert doubt[:, 1] == pytest.approx(off.min(axis=1), abs=1e-6)
    assert doubt[:, 2] == pytest.approx(off.max(axis=1), abs=1e-6)
    assert (doubt[:, 2] - doubt[:, 1] > 0.01).all()


def test_unit_of_the_target_does_not_matter_to_the_doubt_beyond_the_data():
    """PowerLaw has no vote there, so nothing may rest on what stands in its place."""
    x = np.array([[40.0, 10], [120.0, 4], [160.0, 16]])
    hours, milliseconds = (
        fit(rows(factor=f), USUAL).with_doubt(x, (0.05, 0.95)) for f in (1 / 3600, 1000)
    )
    assert hours[:, 1:] == pytest.approx(milliseconds[:, 1:], rel=1e-2, abs=1e-3)


def test_repeats_weigh_and_every_run_is_rehearsed():
    data = rows(n_repeats=3)
    bench = Bench.of(data, ["PowerLaw"], 0)
    assert len(bench.points) == 16
    position, _, log_y = bench.runs(np.array([0, 5]))
    assert position.tolist() == [0, 0, 0, 1, 1, 1]
    assert log_y == pytest.approx(np.log(data.y[[0, 1, 2, 15, 16, 17]]))


def test_a_fold_counts_only_when_all_have_answered():
    bench = Bench.of(rows(), ["PowerLaw", "ScalingLaw"], 0)
    fits = {name: fit_member(bench, FitTask(name)) for name in bench.voters}
    answers = {i: {} for i in range(len(bench.folds))}
    for task in bench.rehearsals(fits):
        answers[task.fold][task.member] = answer(bench, task)
    whole = bench.assemble(fits, answers)
    assert len(whole.folds) == len(bench.folds)
    del answers[0]["PowerLaw"]
    assert len(bench.assemble(fits, answers).folds) == len(bench.folds) - 1
    assert bench.assemble(fits, {}).regressor.predict(rows().x).min() > 0


def test_members_are_judged_by_runs_that_a_smooth_process_cannot_explain_too():
    bench = Bench.of(rows(), ["PowerLaw", "ScalingLaw"], 0)
    fits = {name: fit_member(bench, FitTask(name)) for name in bench.voters}
    odd = bench.points.x[:, 0] == 80
    log_y = bench.points.log_y
    answers = {
        i: {"PowerLaw": log_y[f.test] + 0.01, "ScalingLaw": log_y[f.test] + 0.5 * odd[f.test]}
        for i, f in enumerate(bench.folds)
    }
    ignored = replace(bench.points, weight=np.where(odd, 1e-6, 1.0))
    regressor = replace(bench, points=ignored).assemble(fits, answers).regressor
    law, scaling = regressor.vote.inside
    assert law < scaling


def test_members_that_can_follow_jumps_do_not_rely_on_the_weights_of_a_smooth_process():
    bench = Bench.of(rows(n_repeats=3), USUAL, 0)
    ignored = replace(bench.points, weight=np.full(len(bench.points), 1e-6))
    seen = replace(bench, points=ignored).points_for
    assert seen(MEMBERS["LogGP"]).weight == pytest.approx(1e-6)
    assert seen(MEMBERS["SparseGP"]).weight == pytest.approx(0.3)  # a tenth of three runs
    assert (seen(MEMBERS["LightTrees"]).weight > 0.3).all()


def test_rehearsals_take_turns_so_that_a_cut_leaves_all_kinds():
    bench = Bench.of(rows(), ["PowerLaw"], 0)
    fits = {"PowerLaw": fit_member(bench, FitTask("PowerLaw"))}
    order = [bench.folds[job.fold].kind for job in bench.rehearsals(fits)]
    assert len(order) == len(bench.folds)
    assert set(order[: len(order) // 3]) == {"inside", "between", "beyond"}


# Choosing members


def read(value):
    (members,) = EnsembleTechnique.hyperparameters
    return members.read(value)


def test_members_are_read_once_each_and_one_may_be_alone():
    assert read(["LogGP", "PowerLaw", "LogGP"]) == ["LogGP", "PowerLaw"]
    assert read("LightTrees") == ["LightTrees"]
    assert read(list(MEMBERS)) == list(MEMBERS)


@pytest.mark.parametrize("value", [["LogGPP"], ["LogGP", 3], [], ["Ensemble"], "nobody"], ids=str)
def test_bad_members_are_refused(value):
    with pytest.raises(ValueError, match="member"):
        read(value)


# Saving


def saved(regressor):
    state = regressor.to_state()
    return State(json.loads(json.dumps(state.values)), dict(state.arrays))


def test_a_saved_ensemble_predicts_exactly_the_same(fitted):
    rebuilt = EnsembleRegressor.from_state(saved(fitted), 2)
    x = np.random.default_rng(1).uniform(1, 200, (50, 2))
    assert np.array_equal(rebuilt.predict(x), fitted.predict(x))


@pytest.mark.parametrize(
    "changes",
    [
        {"members": []},
        {"members": "LogGP"},
        {"members": [["LogGP"]]},
        {"members": [["a", "Ensemble"], ["b", "ScalingLaw"], ["c", "PowerLaw"]]},
        {"members": [["a", "os.system"], ["b", "ScalingLaw"], ["c", "PowerLaw"]]},
        {"members": [["a", "PowerLaw"], ["b", "ScalingLaw"], ["c", "PowerLaw"]]},
        {"low": 9.0, "high": 1.0},
        {"high": 1e9},
        {"vote": []},
    ],
    ids=str,
)
def test_a_state_that_makes_no_sense_is_refused(fitted, changes):
    state = saved(fitted)
    with pytest.raises(ValueError):
        EnsembleRegressor.from_state(State({**state.values, **changes}, state.arrays), 2)


@pytest.mark.parametrize("numeric", [[0, 2], [-1, 0]], ids=str)
def test_numeric_columns_that_are_no_features_are_refused(fitted, numeric):
    state = saved(fitted)
    with pytest.raises(ValueError):
        EnsembleRegressor.from_state(
            State(state.values, {**state.arrays, "numeric": np.array(numeric)}), 2
        )
