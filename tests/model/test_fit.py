"""The model stage as a whole: what each option of a campaign changes, and what comes out."""

import json
import time
import tomllib

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.errors import DatasetError, NothingUsableError, StorageError
from foretell.files.directory import claimed
from foretell.model.techniques import TECHNIQUES

RANDOM = np.random.default_rng(7)


def runs(n=60):
    """Runs of a job whose time is 5 + 3·size/nodes, with a slower machine b."""
    random = np.random.default_rng(7)
    nodes = random.integers(1, 9, n)
    size = random.integers(1, 30, n).astype(float)
    machine = random.choice(["a", "b"], n)
    time_s = (5 + 3 * size / nodes) * np.where(machine == "b", 1.5, 1.0)
    return pd.DataFrame({"nodes": nodes, "size": size, "machine": machine, "time_s": time_s})


def campaign(**sections):
    base = {
        "data": {"target": "time_s"},
        "search": {"splits": {"method": "KFold", "folds": 3}},
        "techniques": {"LRRidge": {"alpha": [0.01, 1]}},
    }
    return {**base, **sections}


def fit(frame=None, *, output=None, **sections):
    frame = runs() if frame is None else frame
    return foretell.fit_model(campaign(**sections), frame, output=output)


def entry(fitted, technique="LRRidge"):
    return next(e for e in fitted.results["leaderboard"] if e["technique"] == technique)


def used(fitted):
    return fitted.results["data"]["columns"]


# Data


def test_rename_alone_renames_and_old_names_still_predict():
    fitted = fit(data={"target": "time_s", "rename": {"nodes": "workers"}})
    assert used(fitted) == ["workers", "size", "machine"]
    old = runs().head(3)
    new = old.rename(columns={"nodes": "workers"})
    assert fitted.predict(old).tolist() == fitted.predict(new).tolist()


def test_target_is_named_after_renaming():
    fitted = fit(data={"target": "seconds", "rename": {"time_s": "seconds"}})
    assert fitted.best.target == "seconds"


def test_use_columns_uses_these_alone():
    assert used(fit(data={"target": "time_s", "use_columns": ["size"]})) == ["size"]


def test_skip_columns_uses_all_others():
    assert used(fit(data={"target": "time_s", "skip_columns": ["size"]})) == ["nodes", "machine"]


def test_a_campaign_uses_an_outcome_with_a_note_unless_it_names_the_column():
    frame = runs().assign(energy_j=100 * runs()["time_s"])
    fitted = fit(frame)
    assert "energy_j" in used(fitted)
    assert any("energy_j" in note and "skip_columns" in note for note in fitted.results.notes)
    for named in ({"use_columns": ["size", "energy_j"]}, {"skip_columns": ["energy_j"]}):
        notes = fit(frame, data={"target": "time_s", **named}).results.notes
        assert not any("energy_j" in note for note in notes)


def test_skip_rows_above_a_bound_leaves_them_out():
    fitted = fit(data={"target": "time_s", "skip_rows_above": {"size": 15}})
    assert fitted.results["data"]["n_rows"] == int((runs()["size"] <= 15).sum())
    assert fitted.best.ranges["size"][1] <= 15


def test_categorical_forces_one_hot_of_a_number():
    fitted = fit(data={"target": "time_s", "categorical": ["nodes"]})
    assert "nodes_class_1" in entry(fitted)["features"]


# Features


def test_right_feature_makes_the_law_exact():
    frame = runs().query("machine == 'a'").drop(columns="machine")
    fitted = fit(
        frame,
        features={"inverse": ["nodes"], "selected_products": ["size inverse_nodes"]},
        techniques={"NNLS": {}},
    )
    assert entry(fitted, "NNLS")["validation"]["mape"]["mean"] < 1e-9
    assert "3·size__inverse_nodes" in fitted.best.formula


def test_normalization_changes_a_penalized_fit_and_the_formula_stays_in_units():
    plain = fit(techniques={"LRRidge": {"alpha": 10}})
    scaled = fit(features={"normalization": True}, techniques={"LRRidge": {"alpha": 10}})
    frame = runs().head(5)
    assert not np.allclose(plain.predict(frame), scaled.predict(frame))
    coefficients, intercept = scaled.best.fitted.coefficients()
    x = scaled.best.feature_map.matrix(foretell.Dataset(frame, "runs"))[
        :, scaled.best.fitted.columns
    ]
    floor = scaled.best.fitted.floor
    assert np.maximum(x @ coefficients + intercept, floor) == pytest.approx(scaled.predict(frame))


def test_normalized_model_is_not_moved_by_the_units_of_a_column():
    metric = runs()
    imperial = metric.assign(size=metric["size"] * 1e6)
    options = {"features": {"normalization": True}, "techniques": {"SVR": {"C": 10}}}
    assert fit(metric, **options).predict(metric) == pytest.approx(
        fit(imperial, **options).predict(imperial)
    )


# Selection of features


def test_forward_selection_finds_the_columns_that_matter():
    frame = runs().query("machine == 'a'").drop(columns="machine")
    frame = frame.assign(noise1=RANDOM.random(len(frame)), noise2=RANDOM.random(len(frame)))
    fitted = fit(
        frame,
        features={"inverse": ["nodes"], "selected_products": ["size inverse_nodes"]},
        feature_selection={"method": "SFS", "max_features": 2, "folds": 3},
    )
    assert "size__inverse_nodes" in entry(fitted)["features"]
    assert len(entry(fitted)["features"]) <= 2


def test_min_features_keeps_at_least_so_many():
    selection = {"method": "SFS", "max_features": 3, "min_features": 3, "folds": 3}
    assert len(entry(fit(feature_selection=selection))["features"]) == 3


def test_importance_selection_drops_what_boosting_does_not_split_on():
    frame = runs().assign(constant_noise=1.0)
    fitted = fit(frame, feature_selection={"method": "XGBoost", "tolerance": 0.95})
    assert "constant_noise" not in entry(fitted)["features"]
    assert "size" in entry(fitted)["features"]


def test_max_features_caps_importance_selection():
    selection = {"method": "XGBoost", "tolerance": 1.0, "max_features": 1}
    assert len(entry(fit(feature_selection=selection))["features"]) == 1


# Search and choice


def test_grid_tries_every_combination_in_file_order():
    space = {"max_depth": [2, 4], "min_samples_leaf": [1, 3, 5]}
    fitted = fit(techniques={"DecisionTree": space})
    tried = [
        (t["hyperparameters"]["max_depth"], t["hyperparameters"]["min_samples_leaf"])
        for t in fitted.results["trials"]
    ]
    assert tried == [(2, 1), (2, 3), (2, 5), (4, 1), (4, 3), (4, 5)]


def test_tpe_makes_the_evaluations_asked_for_within_the_prior():
    search = {"method": "tpe", "evaluations": 7, "splits": {"method": "KFold", "folds": 3}}
    fitted = fit(search=search, techniques={"LRRidge": {"alpha": "loguniform(0.001, 0.1)"}})
    alphas = [t["hyperparameters"]["alpha"] for t in fitted.results["trials"]]
    assert len(alphas) == len(set(alphas)) == 7
    assert all(0.001 <= a <= 0.1 for a in alphas)


def test_several_fixed_values_beside_a_prior_make_one_search_each():
    search = {"method": "tpe", "evaluations": 4, "splits": {"method": "KFold", "folds": 3}}
    space = {"C": "loguniform(0.1, 10)", "kernel": ["linear", "rbf"]}
    fitted = fit(search=search, techniques={"SVR": space})
    kernels = [t["hyperparameters"]["kernel"] for t in fitted.results["trials"]]
    assert kernels == ["linear"] * 4 + ["rbf"] * 4


def test_technique_without_a_table_searches_its_default_space():
    fitted = fit(techniques={"LRRidge": {}})
    alphas = {t["hyperparameters"]["alpha"] for t in fitted.results["trials"]}
    assert len(alphas) > 1


def test_winner_has_the_least_selection_error_whatever_validation_says():
    fitted = fit(techniques={"LRRidge": {"alpha": [0.001, 0.1, 10, 1000]}, "Dummy": {}})
    trials = [t for t in fitted.results["trials"] if t["technique"] == "LRRidge"]
    best = min(trials, key=lambda t: t["error"])
    assert entry(fitted)["hyperparameters"] == best["hyperparameters"]
    errors = [e["selection_error"] for e in fitted.results["leaderboard"]]
    assert errors == sorted(errors)


def test_error_of_a_trial_is_the_mean_mape_of_its_folds():
    trial = fit().results["trials"][0]
    assert len(trial["folds"]) == 3
    assert trial["error"] == pytest.approx(np.mean([f["mape"] for f in trial["folds"]]))


def test_rmse_as_the_score_ranks_by_it_and_allows_negative_targets():
    frame = runs().assign(time_s=lambda f: f["time_s"] - 20)
    fitted = fit(frame, score="rmse")
    trial = fitted.results["trials"][0]
    assert trial["error"] == pytest.approx(np.mean([f["rmse"] for f in trial["folds"]]))
    assert (fitted.predict(frame) < 0).any()


def test_final_hyperparameters_are_decided_on_all_rows_when_outer_splits_disagree():
    fitted = fit(
        runs(24),
        validation={"method": "KFold", "folds": 6},
        techniques={"DecisionTree": {"max_depth": [1, 2, 3, 5], "min_samples_leaf": [1, 2, 4]}},
    )
    winners = [s["hyperparameters"] for s in entry(fitted, "DecisionTree")["splits"]]
    assert len({json.dumps(w) for w in winners}) > 1, "the case under test did not arise"
    assert entry(fitted, "DecisionTree")["hyperparameters"] in winners


# Validation


@pytest.mark.parametrize(
    ("validation", "n_splits"),
    [
        ({"method": "All"}, 1),
        ({"method": "HoldOut", "ratio": 0.3}, 1),
        ({"method": "KFold", "folds": 4}, 4),
        ({"method": "Interpolation", "columns": {"nodes": 3}}, 1),
        ({"method": "Interpolation", "columns": {"nodes": [2, 5]}}, 1),
        ({"method": "Extrapolation", "columns": {"size": 20}}, 1),
    ],
    ids=lambda v: v["method"] if isinstance(v, dict) else "",
)
@pytest.mark.parametrize(
    "selection",
    [
        {"method": "All"},
        {"method": "HoldOut", "ratio": 0.3},
        {"method": "KFold", "folds": 3},
        {"method": "Interpolation", "columns": {"size": 2}},
        {"method": "Extrapolation", "columns": {"size": 12}},
    ],
    ids=lambda v: v["method"],
)
def test_every_selection_goes_with_every_validation(validation, n_splits, selection):
    fitted = fit(validation=validation, search={"splits": selection})
    splits = entry(fitted)["splits"]
    assert len(splits) == n_splits
    assert all(s["validation"]["mape"] >= 0 for s in splits)


def test_runs_repeat_with_mean_and_spread():
    fitted = fit(runs=3)
    mapes = [s["validation"]["mape"] for s in entry(fitted)["splits"]]
    assert [s["run"] for s in entry(fitted)["splits"]] == [0, 1, 2]
    reported = entry(fitted)["validation"]["mape"]
    assert reported["mean"] == pytest.approx(np.mean(mapes))
    assert reported["spread"] == pytest.approx(np.std(mapes, ddof=1))


def test_final_model_is_fitted_on_all_rows():
    fitted = fit(techniques={"DecisionTree": {"max_depth": "none", "min_samples_leaf": 1,
                                              "min_samples_split": 2}})  # fmt: skip
    frame = runs().drop_duplicates(["nodes", "size", "machine"])
    assert fitted.predict(frame) == pytest.approx(
        runs().groupby(["nodes", "size", "machine"], sort=False)["time_s"].mean().to_numpy()
    )


def test_predictions_of_a_time_are_positive_even_where_a_line_goes_below_zero():
    frame = pd.DataFrame({"n": [1.0, 2, 3, 4, 5, 6], "time_s": [60.0, 50, 40, 30, 20, 10]})
    fitted = fit(frame, techniques={"LRRidge": {"alpha": 1e-6}})
    assert fitted.predict(pd.DataFrame({"n": [100.0]}))[0] == pytest.approx(0.01)


# What comes out


def test_outputs_are_all_there_and_say_the_same(tmp_path):
    fitted = fit(output=tmp_path / "out", techniques={"LRRidge": {}, "DecisionTree": {}})
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert names == {
        "results.json", "results.txt", "leaderboard.csv", "campaign.toml", "journal", "log.txt",
        "lock", "LRRidge.foretell", "DecisionTree.foretell", "best.foretell", "runs.csv",
        "rehearsals.csv",
    }  # fmt: skip
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results == fitted.results.to_json()
    board = pd.read_csv(tmp_path / "out" / "leaderboard.csv")
    assert board["technique"].tolist() == [e["technique"] for e in results["leaderboard"]]
    best = (tmp_path / "out" / "best.foretell").read_bytes()
    assert best == (tmp_path / "out" / f"{results['best']}.foretell").read_bytes()


def test_resolved_campaign_file_runs_the_same_campaign_again(tmp_path):
    first = fit(output=tmp_path / "first")
    written = tomllib.loads((tmp_path / "first" / "campaign.toml").read_text())
    again = foretell.fit_model(written, runs())
    assert again.results["leaderboard"] == first.results["leaderboard"]


def test_training_models_are_saved_on_request(tmp_path):
    fit(output=tmp_path / "out", save_training_models=True, features={"normalization": True})
    model = foretell.load_model(tmp_path / "out" / "LRRidge-training.foretell")
    assert model.predict(runs()) == pytest.approx(runs()["time_s"].to_numpy(), rel=1.5)
    final = foretell.load_model(tmp_path / "out" / "LRRidge.foretell")
    assert not np.allclose(model.predict(runs()), final.predict(runs()))


def test_linear_models_print_their_formula_and_every_model_what_matters(tmp_path):
    fit(output=tmp_path / "out", techniques={"LRRidge": {}, "DecisionTree": {}, "XGBoost": {
        "n_estimators": 20, "max_depth": 3}})  # fmt: skip
    text = (tmp_path / "out" / "results.txt").read_text()
    assert "time_s = " in text
    assert text.count("what matters: ") == 3


def test_repr_of_a_fit_is_the_leaderboard():
    text = repr(fit(techniques={"LRRidge": {}, "Dummy": {}}))
    assert "LRRidge" in text
    assert "Dummy" in text
    assert "← best" in text


def test_jobs_do_not_change_the_result(tmp_path):
    spec = campaign(techniques={"LRRidge": {}, "XGBoost": {"n_estimators": [5, 10]}}, runs=2)
    one = foretell.fit_model(spec, runs(), output=tmp_path / "one", n_jobs=1)
    two = foretell.fit_model(spec, runs(), output=tmp_path / "two", n_jobs=2)
    times = one.results.times
    assert one.results == two.results.model_copy(update={"times": times})
    for name in ("best.foretell", "LRRidge.foretell", "XGBoost.foretell", "leaderboard.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_campaign_in_which_everything_fails_says_so_and_why(tmp_path):
    frame = runs().assign(time_s=lambda f: f["time_s"] * 1e300)
    with pytest.raises(NothingUsableError, match="no technique gave a model"):
        fit(
            frame,
            output=tmp_path / "out",
            techniques={
                "NeuralNetwork": {"epochs": 1},
            },
        )
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["best"] is None
    assert all(t["reason"] for t in results["trials"])


def test_campaign_is_not_changed_by_running_it():
    spec = campaign()
    before = json.dumps(spec)
    foretell.fit_model(spec, runs())
    assert json.dumps(spec) == before


def test_frame_is_not_changed_and_its_index_does_not_matter():
    frame = runs()
    shuffled = frame.set_index(np.arange(len(frame))[::-1] * 10)
    before = shuffled.copy()
    assert fit(shuffled).predict(frame).tolist() == fit(frame).predict(frame).tolist()
    pd.testing.assert_frame_equal(shuffled, before)


def test_amllibrary_dict_with_a_frame_runs():
    spec = {
        "General": {"techniques": ["LRRidge"], "y": "time_s", "hp_selection": "KFold", "folds": 3,
                    "validation": "HoldOut", "hold_out_ratio": 0.25},
        "DataPreparation": {"input_path": runs(), "inverse": ["nodes"]},
        "LRRidge": {"alpha": [0.1, 1.0]},
    }  # fmt: skip
    assert foretell.fit_model(spec).results["data"]["n_rows"] == 60


def test_column_of_mostly_words_is_a_category_even_with_a_number_among_them():
    frame = runs().assign(machine=["0"] + ["a", "b"] * 29 + ["a"])
    assert "machine_class_0" in entry(fit(frame))["features"]


def test_draws_that_a_hyperparameter_refuses_are_drawn_again():
    search = {"method": "tpe", "evaluations": 12, "splits": {"method": "KFold", "folds": 3}}
    fitted = fit(search=search, techniques={"LRRidge": {"alpha": "normal(0.2, 1)"}})
    alphas = [t["hyperparameters"]["alpha"] for t in fitted.results["trials"]]
    assert len(alphas) == 12
    assert min(alphas) >= 0


def test_saved_campaign_runs_again_from_anywhere(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    runs().to_csv(tmp_path / "here" / "runs.csv", index=False)
    monkeypatch.chdir(tmp_path / "here")
    spec = campaign(data={"target": "time_s", "path": "runs.csv"})
    first = foretell.fit_model(spec, output=tmp_path / "out")
    monkeypatch.chdir(tmp_path / "there")
    again = foretell.fit_model(tmp_path / "out" / "campaign.toml")
    assert again.results["leaderboard"] == first.results["leaderboard"]


def test_merging_repeats_changes_nothing_under_normalization(monkeypatch):
    random = np.random.default_rng(3)
    frame = pd.concat([runs(20)] * 6, ignore_index=True)
    frame["time_s"] *= random.lognormal(0, 0.3, len(frame))
    options = {
        "features": {"normalization": True},
        "techniques": {"XGBoost": {"gamma": 1, "alpha": 0.5, "n_estimators": 20, "max_depth": 4}},
    }
    merged = fit(frame, **options).predict(frame)
    technique = TECHNIQUES.get("XGBoost")
    monkeypatch.setattr(technique, "merges_repeats", lambda self, params: False)
    assert merged == pytest.approx(fit(frame, **options).predict(frame), rel=1e-4)


def test_the_time_of_a_target_does_not_include_that_of_the_one_before(monkeypatch):
    ended = []

    def fit_one(_, __, options, **___):
        assert all(options.started >= before for before in ended)
        ended.append(time.monotonic())

    monkeypatch.setattr("foretell.model.fit.run_automatic", fit_one)
    foretell.fit_model(runs().assign(energy_j=1.0), target=["time_s", "energy_j"])
    assert len(ended) == 2


def test_two_threads_of_one_process_cannot_share_a_directory(tmp_path):
    with claimed(tmp_path / "out"), pytest.raises(StorageError, match="another foretell"):
        fit(output=tmp_path / "out")
    assert fit(output=tmp_path / "out").results["best"] == "LRRidge"


def test_failure_for_want_of_memory_gets_another_chance_later(tmp_path, monkeypatch):
    technique = TECHNIQUES.get("LRRidge")
    options = {"techniques": {"LRRidge": {"alpha": 1}, "Dummy": {}}, "output": tmp_path / "out"}

    def out_of_memory(*_):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(technique, "fit", out_of_memory)
        first = fit(**options)
    assert entry(first)["status"] == "failed"
    assert first.results["best"] == "Dummy"
    assert entry(fit(**options))["status"] == "ok"


def test_technique_that_the_time_limit_kept_out_is_untried_not_failed():
    spec = campaign(techniques={"Dummy": {}, "LRRidge": {}})
    fitted = foretell.fit_model(spec, runs(), time_limit_s=1e-3)
    assert {e["technique"]: e["status"] for e in fitted.results["leaderboard"]} == {
        "Dummy": "ok",
        "LRRidge": "untried",
    }


@pytest.mark.parametrize("table", [{"nodes": [1]}, [[1, 2]], pd.Series([1.0])])
def test_what_is_no_table_is_refused_with_a_remedy(table):
    with pytest.raises(DatasetError, match=r"with pandas\.DataFrame"):
        fit().predict(table)
