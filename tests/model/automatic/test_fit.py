"""Automatic mode on tables whose truth is known: what it finds, and that it is the same always."""

from __future__ import annotations

import io
import json
import sqlite3
import zipfile

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.errors import DatasetError, ModelError
from foretell.executors import open_executor
from foretell.model.automatic.bench import Bench
from foretell.model.saved.export import export_model
from foretell.model.saved.file import Archive, pack
from foretell.model.techniques import TrainingRows

GRID = pd.DataFrame(
    [(n, s) for n in (1, 2, 4, 8) for s in (10, 20, 40, 80)], columns=["nodes", "size"]
)
#: Twice the sizes, twice the nodes, both, and between.
NEW = pd.DataFrame({"nodes": [8, 16, 16, 3], "size": [160, 80, 160, 30]})


def time_of(frame):
    return 5 + 3 * frame["size"] / frame["nodes"]


def runs(n_repeats=2, noise=0.02, seed=0):
    """Work divided among nodes, measured with a little noise."""
    frame = pd.concat([GRID] * n_repeats, ignore_index=True)
    factor = np.random.default_rng(seed).lognormal(0, noise, len(frame))
    return frame.assign(time_s=time_of(frame) * factor)


def fit(frame, **options):
    return foretell.fit_model(frame, target="time_s", **options)


def error(predicted, truth):
    return np.abs(np.asarray(predicted) / np.asarray(truth) - 1)


def contents(directory):
    """Return everything that must not depend on how it came about."""
    names = ["leaderboard.csv", "runs.csv", "rehearsals.csv"]
    names += [p.name for p in directory.glob("*.foretell")]
    found = {name: (directory / name).read_bytes() for name in sorted(names)}
    board = pd.read_csv(directory / "leaderboard.csv").drop(columns="fit_s")
    results = json.loads((directory / "results.json").read_text())
    del results["times"]
    return {**found, "leaderboard.csv": board.to_csv(), "results.json": json.dumps(results)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A fit that nothing disturbed, with its directory."""
    return fit(runs(), output=tmp_path_factory.mktemp("automatic") / "out")


# Tables with a known truth


def test_three_rows_of_one_column_give_a_sane_answer_with_a_wide_interval():
    fitted = fit(pd.DataFrame({"nodes": [1, 2, 4], "time_s": [100.0, 55.0, 30.0]}))
    found = fitted.forecast(pd.DataFrame({"nodes": [1, 1.5, 2, 3, 4, 8]}))
    assert (found.value > 0).all()
    assert (np.diff(found.value) < 0).all()  # more nodes were faster each time
    assert found.value[:5] == pytest.approx([100, 72, 55, 38, 30], rel=0.2)
    assert (found.lower < 0.98 * found.value).all()
    assert (found.upper > 1.02 * found.value).all()
    widths = found.upper / found.lower
    assert (widths[[1, 3]] > 1.1 * widths[[0, 2]]).all()  # between the rows less is known
    assert widths[5] > 1.2 * widths[4]  # twice the nodes: nothing is known there


def test_three_rows_that_differ_in_a_level_alone_give_an_answer():
    fitted = fit(pd.DataFrame({"machine": ["a", "b", "c"], "time_s": [10.0, 12.0, 14.0]}))
    predicted = fitted.predict(pd.DataFrame({"machine": ["a", "b", "c", "d"]}))
    assert ((predicted > 5) & (predicted < 28)).all()


@pytest.fixture(scope="module")
def law():
    """A finer grid than most: what goes on beyond it is to be seen."""
    nodes, sizes = (1, 2, 4, 8, 16), (10, 20, 40, 80, 160)
    frame = pd.DataFrame([(n, s) for n in nodes for s in sizes], columns=["nodes", "size"])
    factor = np.random.default_rng(0).lognormal(0, 0.01, len(frame))
    return fit(frame.assign(time_s=time_of(frame) * factor))


def test_a_law_goes_on_to_twice_the_size_and_twice_the_nodes(law):
    new = pd.DataFrame({"nodes": [16, 32, 32, 6], "size": [320, 160, 320, 60]})
    assert error(law.predict(new), time_of(new)).max() < 0.06


def test_a_law_goes_on_below_the_smallest_size(law):
    new = pd.DataFrame({"nodes": [1, 4], "size": [5, 5]})
    assert error(law.predict(new), time_of(new)).max() < 0.1


def cliff(n, seed):
    """A time that leaps where the memory of all nodes together is too small."""
    random = np.random.default_rng(seed)
    counts = [1, 2, 3, 4, 6, 8, 12, 16]
    frame = pd.DataFrame({"nodes": random.choice(counts, n), "memory": random.choice(counts, n)})
    return frame.assign(time_s=cliff_time(frame) * random.lognormal(0, 0.02, n))


def cliff_time(frame):
    leap = np.where(frame["nodes"] * frame["memory"] < 30, 8.0, 1.0)
    return 100 / np.sqrt(frame["nodes"]) * leap


@pytest.fixture(scope="module")
def fallen(tmp_path_factory):
    return fit(cliff(60, seed=0), output=tmp_path_factory.mktemp("cliff") / "out")


def test_a_memory_cliff_is_found_in_the_total_of_nodes_and_memory(fallen):
    (found,) = fallen.results.explanation.cliffs
    assert found.product == "memory × nodes"
    assert 24 < found.value <= 32  # totals measured on both sides of 30
    assert found.factor == pytest.approx(1 / 8, rel=0.1)
    assert "A cliff: once memory × nodes reaches" in str(fallen)
    new = cliff(80, seed=1)
    total = new["nodes"] * new["memory"]
    off = error(fallen.predict(new), cliff_time(new))
    assert off[(total < 20) | (total > 45)].mean() < 0.03  # of a leap of eight times


def test_a_cliff_beyond_the_measured_combinations_is_predicted(fallen):
    new = pd.DataFrame({"nodes": [1, 24, 32, 1], "memory": [24, 1, 2, 40]})
    assert error(fallen.predict(new), cliff_time(new)).max() < 0.15


def test_smooth_tables_have_no_cliffs(law, whole):
    assert law.results.explanation.cliffs == whole.results.explanation.cliffs == []


def test_models_with_a_cliff_survive_saving_and_export(fallen):
    new = cliff(20, seed=2)
    loaded = foretell.load_model(fallen.directory)
    assert np.array_equal(loaded.predict(new), fallen.predict(new))
    law = foretell.load_model(fallen.directory / "ScalingLaw.foretell")
    module: dict[str, object] = {}
    exec(export_model(law, "python"), module)
    rows = new.drop(columns="time_s").to_dict("records")
    exported = [module["predict"](row) for row in rows]
    assert exported == pytest.approx(law.predict(new).tolist())
    table = sqlite3.connect(":memory:")
    new.to_sql("runs", table)
    predicted = table.execute(f"SELECT {export_model(law, 'sql').split(chr(10), 3)[3]} FROM runs")
    assert [row[0] for row in predicted] == pytest.approx(exported)


MACHINES = {"a": 1.0, "b": 3.0, "c": 1.7, "d": 2.2}


@pytest.fixture(scope="module")
def machines():
    rows = [(k, s) for k in MACHINES for s in (10, 20, 40, 80, 160)] * 2
    frame = pd.DataFrame(rows, columns=["machine", "size"])
    factor = np.random.default_rng(0).lognormal(0, 0.02, len(frame))
    return fit(frame.assign(time_s=frame["machine"].map(MACHINES) * (2 + frame["size"]) * factor))


def test_levels_are_told_apart(machines):
    new = pd.DataFrame({"machine": list(MACHINES), "size": 30})
    truth = new["machine"].map(MACHINES) * (2 + new["size"])
    assert error(machines.predict(new), truth).max() < 0.05


def test_what_a_level_never_seen_costs_was_rehearsed(machines):
    errors = machines.results["leaderboard"][0]["errors"]
    assert errors["unknown level"] > 5 * errors["inside"]


def test_a_level_never_seen_is_predicted_with_less_certainty(machines):
    new = pd.DataFrame({"machine": ["a", "b", "x1"], "size": 40})
    found = machines.forecast(new)
    assert found.trust.tolist() == ["inside", "inside", "unknown level"]
    assert found.outside == ["", "", "machine: unknown level x1"]
    assert found.value[0] < found.value[2] < found.value[1]
    widths = found.upper / found.lower
    assert widths[2] > 1.5 * widths[:2].max()
    assert found.lower[2] < 1.5 * 42 and found.upper[2] > 2.4 * 42  # machines differ threefold
    assert found.expected_error[2] > 0.1


def test_constant_columns_change_nothing(whole):
    constant = {"version": 3.0, "site": "home"}
    fitted = fit(runs().assign(**constant))
    assert fitted.predict(NEW.assign(**constant)) == pytest.approx(whole.predict(NEW), rel=0.01)
    moved = fitted.forecast(NEW[3:].assign(version=6.0, site="home"))
    assert moved.outside == ["version: 2× above the largest measured (3)"]


def test_columns_that_are_multiples_of_one_another_do_no_harm(whole):
    fitted = fit(runs().assign(slots=lambda f: 8 * f["nodes"]))
    new = NEW.assign(slots=8 * NEW["nodes"])
    assert fitted.predict(new) == pytest.approx(whole.predict(NEW), rel=0.08)
    own, expected = (f.results["leaderboard"][0]["errors"] for f in (fitted, whole))
    for question in ("inside", "between", "2x"):
        assert own[question] < 1.5 * expected[question] + 0.01


def test_a_few_runs_that_took_five_times_too_long_move_little():
    clean = runs(3)
    spoiled = clean.copy()
    spoiled.loc[np.random.default_rng(1).choice(48, 2, replace=False), "time_s"] *= 5  # 4 %
    with_outliers, without = fit(spoiled).predict(GRID), fit(clean).predict(GRID)
    assert error(with_outliers, without).max() < 0.05


def test_heavy_tails_do_not_spoil_the_law():
    frame = runs(3, noise=0)
    frame["time_s"] *= np.exp(0.03 * np.random.default_rng(2).standard_t(2, len(frame)))
    fitted = fit(frame)
    assert error(fitted.predict(GRID), time_of(GRID)).mean() < 0.04
    assert error(fitted.predict(NEW), time_of(NEW)).max() < 0.15


def test_numbers_that_are_names_in_truth_are_learned_as_such():
    effect = dict(zip(range(1, 7), [1.0, 5.0, 0.6, 3.0, 0.4, 2.0], strict=True))
    rows = [(k, s) for k in effect for s in (10, 20, 40, 80)]
    grid = pd.DataFrame(rows, columns=["machine", "size"])
    truth = grid["machine"].map(effect) * (2 + grid["size"])
    frame = pd.concat([grid.assign(time_s=truth)] * 2, ignore_index=True)
    frame["time_s"] *= np.random.default_rng(0).lognormal(0, 0.02, len(frame))
    fitted = fit(frame)
    assert error(fitted.predict(grid), truth).max() < 0.08
    new = grid[grid["size"] == 20].assign(size=30)
    assert error(fitted.predict(new), new["machine"].map(effect) * 32).max() < 0.1


def test_a_column_over_many_decades_is_no_obstacle():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"bytes": 10.0 ** random.integers(0, 13, 30), "nodes": random.choice([1, 2, 4], 30)}
    )
    truth = 1e-3 + 1e-9 * frame["bytes"] / frame["nodes"]
    fitted = fit(frame.assign(time_s=truth * random.lognormal(0, 0.02, 30)))
    assert np.median(error(fitted.predict(frame), truth)) < 0.1


# The same always


def test_number_of_workers_changes_nothing(whole, tmp_path):
    fit(runs(), output=tmp_path / "two", n_jobs=2)
    assert contents(tmp_path / "two") == contents(whole.directory)


@pytest.mark.parametrize("seed", [1, 2])
def test_order_of_rows_and_columns_changes_nothing(seed):
    random = np.random.default_rng(seed)
    frame = runs(1, noise=0.1, seed=seed)
    frame["zone"] = random.choice(["east", "west"], len(frame))
    frame["is_fast"] = random.choice([True, False], len(frame))
    shuffled = frame.sample(frac=1, random_state=seed)[random.permutation(frame.columns)]
    one, other = fit(frame), fit(shuffled)
    assert one.best.to_bytes() == other.best.to_bytes()
    for key in ("leaderboard", "explanation", "reaches"):
        assert getattr(one.results, key) == getattr(other.results, key)


def test_another_seed_is_another_fit_and_stated(tmp_path):
    small = runs(1)[::2]
    found = [fit(small, output=tmp_path / str(i), seed=s) for i, s in enumerate((7, 7, 8))]
    assert [f.results["seed"] for f in found] == [7, 7, 8]
    first, again, other = (contents(f.directory) for f in found)
    assert first == again
    assert first != other


def test_a_finished_fit_is_not_rehearsed_again(whole):
    before, journal = contents(whole.directory), (whole.directory / "journal").read_bytes()
    told = []
    fit(runs(), output=whole.directory, progress=told.append)
    assert told == []
    assert contents(whole.directory) == before
    assert (whole.directory / "journal").read_bytes() == journal


@pytest.mark.parametrize("share", [0.0, 0.4, 0.95])
def test_any_prefix_of_a_journal_continues_to_the_same_end_and_repeats_no_answer(
    whole, tmp_path, share
):
    journal = (whole.directory / "journal").read_bytes()
    kept = journal[: int(share * len(journal))]
    (tmp_path / "journal").write_bytes(kept)
    told = []
    fit(runs(), output=tmp_path, progress=told.append)
    assert contents(tmp_path) == contents(whole.directory)
    n_kept = kept[: kept.rfind(b"\n") + 1].count(b'"kind":"answer"')
    assert len(told) == journal.count(b'"kind":"answer"') - n_kept


def test_progress_tells_every_rehearsal_and_ends_at_all(tmp_path):
    told = []
    fitted = fit(runs(1)[:9], progress=told.append)
    n_members = sum(e["status"] == "ok" for e in fitted.results["leaderboard"][1:])
    n_all = fitted.results["rehearsals"]["planned"] * n_members
    assert [p.n_done for p in told] == list(range(1, n_all + 1))
    assert {p.n_total for p in told} == {n_all}


def test_without_an_output_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert (fit(runs(1)[:5]).predict(NEW) > 0).all()
    assert list(tmp_path.iterdir()) == []


# The time limit


def test_a_time_limit_that_cut_the_rehearsals_is_stated_and_more_time_completes_them(
    whole, tmp_path
):
    cut = fit(runs(), output=tmp_path / "cut", time_limit_s=1e-3)
    assert cut.results["search_cut_by_time_limit"]
    rehearsals = cut.results["rehearsals"]
    assert rehearsals["done"] < rehearsals["planned"]
    (note,) = cut.results["notes"]
    assert f"cut the rehearsals after {rehearsals['done']} of {rehearsals['planned']}" in note
    assert note in str(cut)
    assert note in (tmp_path / "cut" / "results.txt").read_text()
    found = cut.forecast(NEW)
    assert (found.lower < found.value).all()
    assert (found.value < found.upper).all()
    fit(runs(), output=tmp_path / "cut")
    assert contents(tmp_path / "cut") == contents(whole.directory)


def test_without_a_limit_that_cut_nothing_is_said_of_one(whole):
    assert not whole.results["search_cut_by_time_limit"]
    assert whole.results["rehearsals"]["done"] == whole.results["rehearsals"]["planned"]
    assert whole.results["notes"] == []
    assert "time limit" not in str(whole)


# What is left behind


def test_every_model_of_the_leaderboard_is_there_and_the_ensemble_is_the_best(whole):
    board = whole.results["leaderboard"]
    assert board[0]["technique"] == whole.results["best"] == "Ensemble"
    for entry in board:
        model = foretell.load_model(whole.directory / entry["file"])
        assert error(model.predict(GRID), time_of(GRID)).mean() < 0.5
    best = (whole.directory / "best.foretell").read_bytes()
    assert best == (whole.directory / "Ensemble.foretell").read_bytes()


def test_leaderboard_has_the_error_on_every_question_side_by_side(whole):
    board = pd.read_csv(whole.directory / "leaderboard.csv")
    asked = ["error_inside", "error_between", "error_1.5x", "error_2x", "error_4x"]
    assert [c for c in board.columns if c.startswith("error_")] == [
        *asked,
        "error_further",
        "error_unknown_level",
    ]
    assert board["error_unknown_level"].isna().all()  # there is no category
    assert board["error_inside"].between(0.001, 0.5).all()
    assert board["error_2x"].notna().all()
    assert board["error_4x"].isna().all()  # no fold leaves the data by so much
    assert board.loc[0, "error_inside"] < 0.05


def test_a_saved_model_predicts_exactly_as_the_one_in_memory(whole):
    loaded = foretell.load_model(whole.directory)
    new = pd.concat([GRID, NEW, 100 * NEW], ignore_index=True)
    assert np.array_equal(loaded.predict(new), whole.predict(new))
    found, expected = loaded.forecast(new, 0.8), whole.forecast(new, 0.8)
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame(), check_exact=True)


def test_every_member_predicts_exactly_the_same_after_saving(whole):
    for name, model in whole.models.items():
        loaded = foretell.load_model(whole.directory / f"{name}.foretell")
        assert np.array_equal(loaded.predict(NEW), model.predict(NEW)), name


def rewritten(content, tmp_path, change):
    """Write a model file whose header was changed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        header = json.loads(archive.read("model.json"))
    arrays = Archive(io.BytesIO(content), tmp_path / "m.foretell").arrays()
    change(header)
    (tmp_path / "m.foretell").write_bytes(pack(header, arrays))
    return tmp_path / "m.foretell"


DAMAGES = {
    "no base": lambda h: h["calibration"].pop("base"),
    "text as slope": lambda h: h["calibration"].update(slope="steep"),
    "endless slope": lambda h: h["calibration"].update(slope=float("inf")),
    "negative slope": lambda h: h["calibration"].update(slope=-1.0),
    "reaches that are none": lambda h: h["calibration"].update(reaches={"nodes": [1, "far"]}),
    "residuals that are none": lambda h: h["calibration"]["inside"].update(values=[None]),
    "calibration that is a list": lambda h: h.update(calibration=[]),
    "more than calibration": lambda h: h["calibration"].update(run="rm -rf /"),
    "levels out of order": lambda h: h["levels"].update(nodes=[8, 1, 2, 4]),
    "levels of no column": lambda h: h["levels"].update(cores=[1, 2]),
    "levels of texts": lambda h: h["levels"].update(nodes=["one"]),
    "levels that are endless": lambda h: h["levels"].update(nodes=[1, float("inf")]),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("change", DAMAGES.values(), ids=DAMAGES)
def test_damaged_calibration_or_levels_are_refused(whole, tmp_path, change):
    path = rewritten(whole.best.to_bytes(), tmp_path, change)
    with pytest.raises(ModelError, match="not a sound foretell model"):
        foretell.load_model(path)


def test_a_model_of_the_first_format_loads_and_knows_of_no_intervals(whole, tmp_path):
    def first_format(header):
        header["format"] = 1
        del header["levels"], header["calibration"]

    old = foretell.load_model(rewritten(whole.best.to_bytes(), tmp_path, first_format))
    assert np.array_equal(old.predict(NEW), whole.predict(NEW))
    found = old.forecast(NEW)
    assert np.isnan(found.lower).all()
    assert np.isnan(found.upper).all()
    assert found.trust.tolist() == ["far", "far", "far", "inside"]


# Tables that are refused


def test_fewer_than_three_rows_are_refused(tmp_path):
    with pytest.raises(DatasetError, match=r"2 rows.*at least 3"):
        fit(runs()[:2], output=tmp_path / "out")


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_target_that_is_not_positive_is_refused(value):
    frame = runs(1)
    frame.loc[3, "time_s"] = value
    with pytest.raises(DatasetError, match="time_s"):
        fit(frame)


# The new techniques in a campaign


TECHNIQUES = {
    "LogGP": {},
    "PowerLaw": {},
    "ScalingLaw": {},
    "LightTrees": {"n_estimators": 20},
    "Hybrid": {},
    "Ensemble": {"members": [["LogGP", "PowerLaw"]]},
}


@pytest.mark.parametrize("normalization", [False, True])
def test_the_new_techniques_work_in_a_campaign(normalization):
    campaign = {
        "data": {"target": "time_s"},
        "features": {"normalization": normalization},
        "search": {"splits": {"method": "KFold", "folds": 2}},
        "techniques": TECHNIQUES,
    }
    fitted = foretell.fit_model(campaign, runs())
    board = {e["technique"]: e["status"] for e in fitted.results["leaderboard"]}
    assert board == dict.fromkeys(TECHNIQUES, "ok")
    for name, model in fitted.models.items():
        assert error(model.predict(GRID), time_of(GRID)).mean() < 0.3, name
    ensemble = fitted.models["Ensemble"]
    assert [m.name for m in ensemble.fitted.regressor.members] == ["LogGP", "PowerLaw"]


def test_a_list_of_members_is_one_ensemble_and_a_list_of_lists_are_several():
    campaign = {
        "data": {"target": "time_s"},
        "search": {"splits": {"method": "KFold", "folds": 2}},
    }

    def trials(members):
        techniques = {"techniques": {"Ensemble": {"members": members}}}
        fitted = foretell.fit_model({**campaign, **techniques}, runs(1))
        return [t["hyperparameters"]["members"] for t in fitted.results["trials"]]

    assert trials([["PowerLaw"], ["Dummy", "PowerLaw"]]) == [["PowerLaw"], ["Dummy", "PowerLaw"]]
    assert trials(["Dummy", "PowerLaw"]) == [["Dummy", "PowerLaw"]]


def test_a_campaign_with_a_member_that_is_none_is_refused(tmp_path):
    (tmp_path / "c.toml").write_text(
        '[data]\ntarget = "time_s"\n[techniques.Ensemble]\nmembers = ["LogGP", "LogPG"]\n'
    )
    with pytest.raises(foretell.ForetellError, match=r"LogPG.*choose from LogGP"):
        foretell.fit_model(tmp_path / "c.toml", runs())


def test_a_plateau_goes_on_beyond_the_data():
    frame = pd.DataFrame(
        [(t, s) for t in (1, 2, 4, 8, 16, 32) for s in (1, 2, 4, 8)] * 2,
        columns=["threads", "size"],
    )
    factor = np.random.default_rng(0).lognormal(0, 0.02, len(frame))
    truth = 10 * frame["size"] / np.minimum(frame["threads"], 8)
    model = fit(frame.assign(time_s=truth * factor))
    beyond = pd.DataFrame({"threads": [64, 128], "size": [4, 4]})
    assert model.predict(beyond) == pytest.approx([5, 5], rel=0.08)


def test_repeats_of_one_configuration_are_held_by_its_interval():
    times = np.array([7.0, 8, 9, 9.5, 10, 10, 10.5, 11, 12, 14])
    model = fit(pd.DataFrame({"nodes": np.full(10, 4), "time_s": times}))
    found = model.forecast(pd.DataFrame({"nodes": [4]}))
    assert np.mean((found.lower <= times) & (times <= found.upper)) >= 0.8


def test_a_column_that_labels_each_run_is_left_out_and_said_so():
    frame = runs()
    model = fit(frame.assign(job=[f"job-{i}" for i in range(len(frame))]))
    assert model.best.columns == ["nodes", "size"]
    assert any("'job' was left out" in note for note in model.results["notes"])


def test_near_is_no_further_than_the_ratio_that_was_rehearsed(whole):
    below, above = whole.best.calibration.reaches["size"]
    assert 2 <= above <= 8
    assert 2 <= below <= 8


def test_a_campaign_does_not_go_on_in_the_directory_of_an_automatic_fit(tmp_path):
    frame = runs(1)[:9]
    fit(frame, output=tmp_path / "out")
    campaign = {"data": {"target": "time_s"}, "techniques": {"Ensemble": {}}}
    with pytest.raises(foretell.StorageError, match="another campaign"):
        foretell.fit_model(campaign, frame, output=tmp_path / "out")


# A time limit


def test_no_job_is_chosen_before_there_is_room_for_it():
    finished = []

    def jobs():
        for name in ("a", "b", "c"):
            yield name, len(finished)  # the clock would be asked here

    with open_executor(None, 1) as executor:
        for job, *_ in executor.run(lambda state, job: None, jobs()):
            finished.append(job)
    assert finished == [("a", 0), ("b", 1), ("c", 2)]


def test_without_time_the_search_for_totals_is_left_out():
    frame = pd.DataFrame(
        [(n, m) for n in (2, 4, 6, 8, 12, 16) for m in (1, 2, 3, 4, 6, 8)], columns=["n", "m"]
    )
    y = np.where(frame.n * frame.m < 20, 300.0, 30.0)
    rows = TrainingRows(frame.to_numpy(float), y, np.ones(len(y)))
    assert Bench.of(rows, ["LogGP"], 0).log_gp.totals
    assert not Bench.of(rows, ["LogGP"], 0, has_time=lambda: False).log_gp.totals


@pytest.mark.parametrize(("unit", "seconds"), [(1e-160, 1.0), (1.0, 1e305), (1.0, 1e-305)])
def test_very_small_and_very_large_numbers_can_be_fitted(unit, seconds):
    nodes = np.array([1.0, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24])
    runs = pd.DataFrame({"nodes": nodes * unit, "time_s": seconds / nodes})
    found = foretell.fit_model(runs, target="time_s").predict(runs)
    expected = np.clip(runs["time_s"].to_numpy(), np.exp(-700), np.exp(700))  # where they end
    assert found == pytest.approx(expected, rel=0.05)
