"""Validation data never chooses, folds never see their test rows, and failures never win."""

import json
import os

import numpy as np
import pandas as pd
import pytest

from foretell import fit_model, load_model, read_dataset
from foretell.errors import NothingUsableError
from foretell.files.journal import decode
from foretell.model.campaigns.schema import read_campaign
from foretell.model.campaigns.validation.splits import make_splits, split_campaign
from foretell.model.fitter import Fitter
from foretell.model.table import prepare_table
from foretell.model.techniques import TECHNIQUES, Hyperparameter
from foretell.model.techniques.linear.dummy import DummyTechnique

SELECTIONS = {
    "no selection": {},
    "normalized": {"features": {"normalization": True, "inverse": ["nodes"]}},
    "SFS": {"feature_selection": {"method": "SFS", "max_features": 2, "folds": 2}},
    "XGBoost": {
        "features": {"product_max_degree": 2},
        "feature_selection": {"method": "XGBoost", "tolerance": 0.7},
    },
}
TECHNIQUE_SPACES = {
    "LRRidge": {"alpha": [0.001, 1, 1000]},
    "DecisionTree": {"max_depth": [1, 3, 6]},
    "XGBoost": {"n_estimators": [5, 20], "max_depth": [2, 4]},
}


def campaign(**sections):
    base = {
        "data": {"target": "time_s"},
        "search": {"splits": {"method": "KFold", "folds": 3}},
        "validation": {"method": "HoldOut", "ratio": 0.25},
        "techniques": TECHNIQUE_SPACES,
    }
    return {**base, **sections}


def planned(source, runs):
    """Return the table of a campaign and its splits."""
    checked = read_campaign(source)
    table = prepare_table(checked, read_dataset(runs))
    return checked, table, split_campaign(checked, table)


def entries(fitted):
    return {entry["technique"]: entry for entry in fitted.results["leaderboard"]}


# Validation rows


@pytest.mark.parametrize("sections", SELECTIONS.values(), ids=SELECTIONS)
def test_targets_of_validation_rows_choose_nothing(sections, runs, tmp_path):
    source = campaign(**sections, save_training_models=True, seed=4)
    _, _, plan = planned(source, runs)
    held = plan.splits["0.0"].test
    other = runs.copy()
    other.loc[held, "time_s"] = np.random.default_rng(1).uniform(1e-3, 1e6, len(held))

    found = fit_model(source, runs, output=tmp_path / "a")
    again = fit_model(source, other, output=tmp_path / "b")
    assert found.results["trials"] == again.results["trials"]
    assert list(entries(found)) == list(entries(again))  # the ranking
    for technique, entry in entries(found).items():
        same = entries(again)[technique]
        for part in ("hyperparameters", "selection_error", "training"):
            assert entry[part] == same[part], (technique, part)
        assert entry["validation"] != same["validation"]
        one, two = (load_model(tmp_path / d / f"{technique}-training.foretell") for d in ("a", "b"))
        assert one.used_features == two.used_features
        assert one.predict(runs).tolist() == two.predict(runs).tolist()


def test_targets_of_training_rows_do_matter(runs):
    """Show that the test above could fail."""
    _, _, plan = planned(campaign(), runs)
    other = runs.copy()
    other.loc[plan.splits["0.0"].train, "time_s"] **= 2
    assert (
        fit_model(campaign(), runs).results["trials"]
        != (fit_model(campaign(), other).results["trials"])
    )


# Test rows of a fold


def fitters(source, runs, rows_of):
    """Return a fitter, and one whose rows on one side of a fold are something else."""
    checked, table, plan = planned(source, runs)
    parts = (table.x, table.y, table.configuration)
    random = np.random.default_rng(2)
    changed = [part.copy() for part in parts]
    rows = getattr(plan.splits[FOLD], rows_of)
    changed[0][rows] = random.uniform(-50, 50, size=changed[0][rows].shape)
    changed[1][rows] = random.uniform(1, 1e5, size=len(rows))
    changed[2][rows] = random.permutation(changed[2][rows])
    return [Fitter(checked, *p, plan.splits, table.feature_map) for p in (parts, changed)]


FOLD = "0.0/1"


@pytest.mark.parametrize("technique", TECHNIQUES.names())
@pytest.mark.parametrize("sections", SELECTIONS.values(), ids=SELECTIONS)
def test_fold_is_fitted_on_its_training_rows_alone(sections, technique, runs):
    space = {h.name: h.read(h.default) for h in TECHNIQUES.get(technique).hyperparameters}
    space |= {"n_estimators": 5} if "n_estimators" in space else {}
    # Every member has its own case here; of an ensemble, what it does with any two is enough.
    space |= {"members": ["Dummy", "PowerLaw"]} if "members" in space else {}
    given, changed = fitters(campaign(**sections), runs.head(60), "test")
    (one,), (two,) = (fitter.fit(technique, [space], FOLD) for fitter in (given, changed))
    assert one.columns.tolist() == two.columns.tolist()
    assert one.floor == two.floor
    assert (one.scaling is None) == (two.scaling is None)
    if one.scaling is not None:
        assert one.scaling.x_mean.tolist() == two.scaling.x_mean.tolist()
        assert one.scaling.x_deviation.tolist() == two.scaling.x_deviation.tolist()
        assert (one.scaling.y_mean, one.scaling.y_deviation) == (
            two.scaling.y_mean,
            two.scaling.y_deviation,
        )
    assert one.predict(given.x).tolist() == two.predict(given.x).tolist()


@pytest.mark.parametrize("sections", SELECTIONS.values(), ids=SELECTIONS)
def test_training_rows_of_a_fold_do_matter(sections, runs):
    """Show that the test above could fail."""
    given, changed = fitters(campaign(**sections), runs, "train")
    (one,), (two,) = (fitter.fit("LRRidge", [{"alpha": 0.1}], FOLD) for fitter in (given, changed))
    assert one.predict(given.x).tolist() != two.predict(given.x).tolist()


def test_level_that_only_test_rows_have_is_no_column_of_the_fold():
    runs = pd.DataFrame({"size": np.arange(1.0, 41), "machine": ["a", "b"] * 20})
    runs["time_s"] = runs["size"] * 3 + (runs["machine"] == "b")
    source = campaign(techniques={"LRRidge": {}})
    _, _, plan = planned(source, runs)
    runs["machine"] = runs["machine"].mask(np.isin(np.arange(40), plan.splits[FOLD].test[:2]), "c")
    checked, table, plan = planned(source, runs)
    fitter = Fitter(checked, table.x, table.y, table.configuration, plan.splits, table.feature_map)
    (fitted,) = fitter.fit("LRRidge", [{"alpha": 0.1}], FOLD)
    used = [table.feature_map.names[i] for i in fitted.columns]
    unused = set(table.feature_map.names) - set(used)
    assert len(unused) == 1
    assert "c" in unused.pop()


# Splits


class Witness(DummyTechnique):
    """Notes which rows it was trained on."""

    name = "Witness"
    seen: tuple = ()

    def merges_repeats(self, params):
        return False

    def fit(self, prepared, params, seed):
        type(self).seen += (tuple(prepared.x[:, 0].astype(int)),)
        return super().fit(prepared, params, seed)


class OtherWitness(Witness):
    name = "OtherWitness"


@pytest.fixture
def register(monkeypatch):
    """Add techniques for the duration of a test."""

    def add(*techniques):
        added = {t.name: f"{t.__module__}:{t.__name__}" for t in techniques}
        monkeypatch.setattr(TECHNIQUES, "_table", {**TECHNIQUES._table, **added})

    return add


def test_all_techniques_share_the_splits_and_those_are_the_planned_ones(register):
    Witness.seen = OtherWitness.seen = ()
    register(Witness, OtherWitness)
    runs = pd.DataFrame({"row": np.arange(30), "time_s": np.linspace(1, 5, 30)})
    source = campaign(techniques={"Witness": {}, "OtherWitness": {}}, runs=2)
    _, _, plan = planned(source, runs)
    fit_model(source, runs)
    assert sorted(Witness.seen) == sorted(OtherWitness.seen)
    # The selection splits of all rows are for intervals: 12 validation rows are too few for them.
    assert sorted(Witness.seen) == sorted(tuple(split.train) for split in plan.splits.values())


@pytest.mark.parametrize("method", ["HoldOut", "KFold"])
def test_selection_splits_lie_inside_the_training_rows(method):
    share = {"HoldOut": {"ratio": 0.5}, "KFold": {"folds": 2}}[method]
    splits = {"method": method, **share}
    runs = pd.DataFrame({"row": np.arange(400), "time_s": np.linspace(1, 5, 400)})
    source = campaign(search={"splits": splits}, validation=splits, runs=2)
    _, _, plan = planned(source, runs)
    for outer in plan.outer:
        split = plan.splits[outer.key]
        assert not set(split.train) & set(split.test)
        for key in outer.selection_keys:
            inner = plan.splits[key]
            assert set(inner.train) | set(inner.test) == set(split.train)
            assert not set(inner.train) & set(inner.test)


def test_no_two_splits_are_drawn_with_the_same_random_numbers(runs, monkeypatch):
    states = []

    def spy(*args, random, **options):
        states.append(random.bit_generator.state["state"]["state"])
        return make_splits(*args, random=random, **options)

    monkeypatch.setattr("foretell.model.campaigns.validation.splits.make_splits", spy)
    planned(campaign(runs=3, validation={"method": "KFold", "folds": 3}, seed=5), runs)
    assert len(states) == 3 + 3 * 3 + 1
    assert len(set(states)) == len(states)


def test_same_seed_gives_the_same_and_another_seed_another_split(runs):
    plans = [planned(campaign(seed=seed), runs)[2].splits for seed in (1, 1, 2)]
    same, again, other = ({key: s.test.tolist() for key, s in p.items()} for p in plans)
    assert same == again
    assert all(same[key] != other[key] for key in same if key != "all")

    def results(seed):
        found = fit_model(campaign(), runs, seed=seed).results.to_json()
        return {key: value for key, value in found.items() if key != "times"}

    assert results(1) == results(1)
    assert results(1)["leaderboard"] != results(2)["leaderboard"]


def test_runs_have_splits_of_their_own(runs):
    _, _, plan = planned(campaign(runs=3), runs)
    assert len({tuple(plan.splits[outer.key].test) for outer in plan.outer}) == 3


@pytest.mark.parametrize("n_repeats", [1, 4])
def test_repeats_on_both_sides_of_a_split_are_noted(n_repeats, tmp_path):
    nodes = np.repeat(np.arange(1, 31), n_repeats)
    runs = pd.DataFrame({"nodes": nodes, "time_s": 5 + 100 / nodes})
    source = campaign(techniques={"LRRidge": {}})
    fitted = fit_model(source, runs, output=tmp_path / "out")
    notes = [note for note in fitted.results["notes"] if "on both sides" in note]
    assert len(notes) == (n_repeats > 1)
    assert ("on both sides" in (tmp_path / "out" / "results.txt").read_text()) == bool(notes)


def test_repeats_that_a_split_by_their_column_keeps_together_are_not_noted():
    nodes = np.repeat(np.arange(1, 31), 4)
    runs = pd.DataFrame({"nodes": nodes, "time_s": 5 + 100 / nodes})
    source = campaign(
        search={"splits": {"method": "Extrapolation", "columns": {"nodes": 15}}},
        validation={"method": "Extrapolation", "columns": {"nodes": 20}},
        techniques={"LRRidge": {}},
    )
    assert not [n for n in fit_model(source, runs).results["notes"] if "on both sides" in n]


def test_equal_trials_are_run_once(runs, tmp_path):
    source = campaign(techniques={"LRRidge": {"alpha": [1, 2, 1.0, 2, 1]}}, runs=2)
    fitted = fit_model(source, runs, output=tmp_path / "out")
    records, _ = decode((tmp_path / "out" / "journal").read_bytes())
    trials = [r["trial"] for r in records if r["kind"] == "trial" and r["trial"]["outer"] != "all"]
    assert sorted((t["outer"], t["params"]["alpha"]) for t in trials) == [
        ("0.0", 1),
        ("0.0", 2),
        ("1.0", 1),
        ("1.0", 2),
    ]
    listed = [t for t in fitted.results["trials"] if t["split"] == "0.0"]
    assert [t["hyperparameters"]["alpha"] for t in listed] == [1, 2, 1, 2, 1]
    assert listed[0]["error"] == listed[2]["error"]


# Failures


class Fragile(DummyTechnique):
    """Fails as it is told to; where it does not fail, it is better than all others."""

    name = "Fragile"
    hyperparameters = (Hyperparameter("how", "not at all", str),)

    def merges_repeats(self, params):
        return False

    def fit(self, prepared, params, seed):
        how, first = params["how"], prepared.x[:, 0]
        if how == "always":
            raise ValueError("it never\nworks")
        if how == "with row 7" and 7 in first:
            raise ZeroDivisionError("row 7")
        if how == "on all rows" and len(first) == N_ROWS:
            raise MemoryError
        if how == "on many rows" and len(first) > N_ROWS / 2:
            raise RuntimeError("too many rows")
        if how == "by dying" and 7 in first:
            os._exit(1)
        fitted = super().fit(prepared, params, seed)
        if how == "in its predictions":
            return type(fitted)(fitted.slopes, float("nan"))
        if how == "not at all":
            return type(fitted)(fitted.slopes, 2 * fitted.intercept)  # sound, and not good
        return fitted


N_ROWS = 40
FRAGILE = pd.DataFrame({"row": np.arange(N_ROWS), "time_s": 100.0 + np.arange(N_ROWS) % 3})


def fit_fragile(register, *ways, output=None, n_jobs=1, **sections):
    register(Fragile)
    techniques = {"Fragile": {"how": list(ways)}, "Dummy": {}}
    source = campaign(**{"techniques": techniques, **sections})
    return fit_model(source, FRAGILE, output=output, n_jobs=n_jobs)


def seed_that_tests_row_7_first():
    """Return a seed with which all folds but the first train on row 7."""
    return next(
        seed
        for seed in range(100)
        if 7 in planned(campaign(seed=seed), FRAGILE)[2].splits["0.0/0"].test
    )


def trials_of(fitted, how, technique="Fragile"):
    return [
        t
        for t in fitted.results["trials"]
        if t["technique"] == technique and t["hyperparameters"]["how"] == how
    ]


@pytest.mark.parametrize(
    ("how", "reason", "n_jobs"),
    [
        ("always", "ValueError: it never works", 1),
        ("with row 7", "ZeroDivisionError: row 7", 1),
        ("with row 7", "ZeroDivisionError: row 7", 2),
        ("in its predictions", "ValueError: the model predicts values that are not finite", 1),
        ("by dying", "WorkerDied: the worker process ended with exit code 1", 2),
    ],
)
def test_failed_trial_is_told_with_its_reason_and_never_wins(
    register, tmp_path, how, reason, n_jobs
):
    output = tmp_path / "out"
    options = {"output": output, "n_jobs": n_jobs, "seed": seed_that_tests_row_7_first()}
    fitted = fit_fragile(register, how, "not at all", **options)
    (failed,) = trials_of(fitted, how)
    assert (failed["status"], failed["reason"], failed["error"]) == ("failed", reason, None)
    (sound,) = trials_of(fitted, "not at all")
    assert sound["status"] == "ok"
    assert entries(fitted)["Fragile"]["hyperparameters"] == {"how": "not at all"}
    assert fitted.results["best"] == "Dummy"
    assert "1 trials failed; results.json gives each reason." in fitted.results["notes"]
    written = json.loads((output / "results.json").read_text())
    assert reason in [t["reason"] for t in written["trials"]]
    again = fit_fragile(register, how, "not at all", **options)
    assert again.results["trials"] == fitted.results["trials"]


def test_failing_on_one_of_several_folds_is_not_rewarded(register):
    """A mean over the folds that worked would make it the winner."""
    seed = seed_that_tests_row_7_first()
    fitted = fit_fragile(register, "with row 7", "not at all", seed=seed)
    (failed,) = trials_of(fitted, "with row 7")
    (sound,) = trials_of(fitted, "not at all")
    assert len(failed["folds"]) == 1
    assert failed["folds"][0]["mape"] < sound["error"]
    assert entries(fitted)["Fragile"]["hyperparameters"] == {"how": "not at all"}


@pytest.mark.parametrize("method", ["grid", "tpe"])
def test_technique_that_always_fails_is_listed_last_with_the_reason(register, tmp_path, method):
    search = {"method": method, "evaluations": 4, "splits": {"method": "KFold", "folds": 3}}
    output = tmp_path / "out"
    fitted = fit_fragile(register, "always", search=search, output=output)
    assert list(entries(fitted)) == ["Dummy", "Fragile"]
    failed = entries(fitted)["Fragile"]
    assert (failed["status"], failed["reason"]) == ("failed", "ValueError: it never works")
    assert failed["selection_error"] is None
    assert "Fragile gave no model: ValueError: it never works" in (
        (output / "results.txt").read_text()
    )
    assert not (output / "Fragile.foretell").exists()
    assert fitted.predict(FRAGILE).shape == (N_ROWS,)


def test_search_by_tpe_goes_on_after_failures(register):
    search = {"method": "tpe", "evaluations": 12, "splits": {"method": "KFold", "folds": 3}}
    techniques = {"Fragile": {"how": "choice('always','with row 7','not at all')"}}
    fitted = fit_fragile(register, search=search, techniques=techniques)
    assert len(fitted.results["trials"]) == 12
    assert {t["status"] for t in fitted.results["trials"]} == {"ok", "failed"}
    assert fitted.best.hyperparameters == {"how": "not at all"}


@pytest.mark.parametrize(
    ("how", "reason"),
    [("on all rows", "MemoryError"), ("on many rows", "RuntimeError: too many rows")],
)
def test_failure_after_the_search_costs_the_technique_alone(register, tmp_path, how, reason):
    output = tmp_path / "out"
    selection = {"splits": {"method": "HoldOut", "ratio": 0.5}}
    fitted = fit_fragile(register, how, output=output, search=selection)
    assert trials_of(fitted, how)[0]["status"] == "ok"
    failed = entries(fitted)["Fragile"]
    assert (failed["status"], failed["reason"]) == ("failed", reason)
    assert fitted.results["best"] == "Dummy"
    assert sorted(p.name for p in output.glob("*.foretell")) == ["Dummy.foretell", "best.foretell"]


class Choosy(DummyTechnique):
    """Wants row 0 with one value and not with the other, which cannot do with many rows."""

    name = "Choosy"
    hyperparameters = (Hyperparameter("without", 0, int),)

    def merges_repeats(self, params):
        return False

    def fit(self, prepared, params, seed):
        rows = prepared.x[:, 0]
        if params["without"] and N_ROWS / 2 < len(rows) < 3 * N_ROWS / 4:
            raise ValueError("too many rows")
        fitted = super().fit(prepared, params, seed)
        is_off = (0 in rows) == bool(params["without"])
        return type(fitted)(fitted.slopes, fitted.intercept * (1 + 0.1 * is_off))


def test_failure_of_the_last_comparison_is_told_too(register):
    """Runs choose differently; what then fails on the selection splits of all rows is not taken."""
    register(Choosy)
    fitted = fit_fragile(register, techniques={"Choosy": {"without": [0, 1]}}, runs=12)
    splits = entries(fitted)["Choosy"]["splits"]
    assert {s["hyperparameters"]["without"] for s in splits} == {0, 1}
    last = [t for t in fitted.results["trials"] if t["split"] == "all"]
    assert {t["hyperparameters"]["without"]: t["status"] for t in last} == {0: "ok", 1: "failed"}
    assert fitted.best.hyperparameters == {"without": 0}


def test_when_nothing_works_the_results_still_tell_why(register, tmp_path):
    with pytest.raises(NothingUsableError, match="Fragile: ValueError: it never works"):
        fit_fragile(register, output=tmp_path / "out", techniques={"Fragile": {"how": "always"}})
    written = json.loads((tmp_path / "out" / "results.json").read_text())
    assert written["best"] is None
    assert [t["reason"] for t in written["trials"]] == ["ValueError: it never works"]


def test_time_limit_goes_on_to_a_technique_that_works(register):
    register(Fragile)
    techniques = {"Fragile": {"how": "always"}, "Dummy": {}, "LRRidge": {"alpha": [1, 2]}}
    fitted = fit_model(campaign(techniques=techniques, runs=2), FRAGILE, time_limit_s=1e-3)
    assert fitted.results["search_cut_by_time_limit"]
    assert fitted.results["best"] == "Dummy"
    assert entries(fitted)["Fragile"]["reason"] == "ValueError: it never works"
    assert entries(fitted)["LRRidge"]["reason"] == "the time limit left no time for it"


def test_model_of_a_cut_search_goes_when_the_whole_search_has_none(register, tmp_path):
    register(Fragile)
    source = campaign(
        techniques={"Fragile": {"how": ["not at all", "on all rows"]}, "Dummy": {}},
        save_training_models=True,
    )
    output = tmp_path / "out"
    cut = fit_model(source, FRAGILE, output=output, time_limit_s=1e-3)
    assert cut.results["best"] == "Fragile"
    assert (output / "Fragile.foretell").exists()
    whole = fit_model(source, FRAGILE, output=output)
    assert entries(whole)["Fragile"]["reason"] == "MemoryError"
    assert sorted(path.name for path in output.glob("*.foretell")) == [
        "Dummy-training.foretell",
        "Dummy.foretell",
        "best.foretell",
    ]


def test_model_of_a_cut_search_is_built_anew_when_other_winners_were_judged(
    register, tmp_path, outcome
):
    """The hyperparameters come out the same, the errors that the file tells do not."""
    register(Choosy)
    source = campaign(techniques={"Choosy": {"without": [0, 1]}}, runs=12)
    cut = fit_model(source, FRAGILE, output=tmp_path / "cut", time_limit_s=1e-3)
    before = cut.best
    whole = fit_model(source, FRAGILE, output=tmp_path / "whole")
    assert before.hyperparameters == whole.best.hyperparameters
    assert before.scores != whole.best.scores
    fit_model(source, FRAGILE, output=tmp_path / "cut")
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")
