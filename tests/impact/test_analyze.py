"""Which settings matter: known truths, invariances, what tuning reaches, and bad input."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foretell
from foretell import DatasetError, UsageError, analyze_impact, read_dataset
from foretell.decide.impact.question import ImpactQuestion, Outcome
from foretell.decide.impact.runs import prepare_runs
from foretell.impact import analyze
from foretell.impact.modelled import KnownModel, modelled_impact
from foretell.sensitivity.anova import decompose

from .tables import drawn_table, half_drawn_table, table

RUNS = table()


def levels(found, outcome=None):
    return {name: found.level(name, outcome) for name in found.settings}


def test_ranges_levels_and_shares_are_those_of_the_truth():
    found = analyze_impact(RUNS, "time_s", quality="accuracy", by="workload")
    assert levels(found) == {"cores": "high", "depth": "high", "zip": "within noise"}
    assert levels(found, "accuracy") == {
        "cores": "within noise", "depth": "medium", "zip": "within noise",
    }  # fmt: skip
    own = found.of().impacts
    assert own["cores"].median == pytest.approx(0.6, abs=0.02)
    assert own["depth"].median == pytest.approx(1 - 1 / 1.3, abs=0.02)
    assert own["cores"].n_contexts == 2 * 2 * 2
    assert own["cores"].lower <= 0.6 <= own["cores"].upper
    shares = found.of().shares.by_input()
    logs = {"cores": np.log([1, 0.6, 0.4]).var(), "depth": np.log([1, 1.3]).var()}
    assert shares["cores"] == pytest.approx(logs["cores"] / sum(logs.values()), abs=0.01)
    assert "zip" not in shares
    assert found.of("accuracy").impacts["depth"].median == pytest.approx(0.04 / 0.88, abs=0.005)


def test_range_is_relative_to_the_worst_time_and_to_the_best_quality():
    runs = pd.DataFrame({"a": [1, 2], "time_s": [10.0, 8.0], "throughput": [5.0, 8.0]})
    assert analyze_impact(runs, "time_s", skip="throughput").of().impacts[
        "a"
    ].median == pytest.approx(0.2)
    found = analyze_impact(runs, "throughput", skip="time_s")
    assert found.of().impacts["a"].median == pytest.approx(3 / 8)
    assert not found.of().is_lower_better


def test_every_workload_has_its_own_levels():
    runs = table()
    is_large = runs["workload"] == "large"
    runs.loc[is_large & (runs["zip"] == "on"), "time_s"] *= 1.5
    found = analyze_impact(runs, "time_s", by=["workload"], skip="accuracy")
    by = found.of().by_workload
    assert by["large"]["zip"].level == "high"
    assert by["small"]["zip"].level == "within noise"
    assert found.of().impacts["zip"].at["workload"] == "large"


def test_a_noisier_table_needs_a_larger_range_for_the_same_level():
    runs = table(noise=0.3, n_repeats=2, seed=5)
    found = analyze_impact(runs, "time_s", by="workload", skip="accuracy")
    assert found.level("zip") == "within noise"
    assert found.of().noise == pytest.approx(0.3, rel=0.3)


def test_own_levels_are_used():
    found = analyze_impact(RUNS, "time_s", by="workload", levels={"time_s": (0.7, 0.5)},
                           skip="accuracy")  # fmt: skip
    assert levels(found) == {"cores": "medium", "depth": "low", "zip": "within noise"}


@given(st.randoms(), st.floats(1e-6, 1e6))
@settings(max_examples=8)
def test_order_names_and_units_do_not_matter(random, unit):
    runs = table(n_repeats=2)
    whole = analyze_impact(runs, "time_s", by="workload", skip="accuracy")
    columns = list(runs.columns)
    random.shuffle(columns)
    other = runs[columns].sample(frac=1, random_state=random.randrange(2**31))
    other = other.rename(columns={"cores": "n_cores"}).assign(
        time_s=lambda f: f["time_s"] * unit, n_cores=lambda f: 3.0 * f["n_cores"]
    )
    found = analyze_impact(other, "time_s", by="workload", skip="accuracy")
    assert found.level("n_cores") == whole.level("cores")
    for old, new in (("cores", "n_cores"), ("depth", "depth"), ("zip", "zip")):
        assert found.of().impacts[new].median == pytest.approx(whole.of().impacts[old].median)
        assert found.of().shares.first[new] == pytest.approx(whole.of().shares.first[old], abs=1e-9)


def test_a_column_of_noise_is_hardly_ever_high():
    hits = sum(
        analyze_impact(
            table(noise=0.25, n_repeats=2, seed=seed, workloads=(("w", 1.0),)),
            "time_s", skip=["accuracy", "workload"],
        ).level("zip") == "high"
        for seed in range(60)
    )  # fmt: skip
    assert hits <= 3


# Without repeats


def test_without_repeats_an_effect_counts_if_it_is_the_same_in_all_contexts():
    found = analyze_impact(table(n_repeats=1), "time_s", by="workload", skip="accuracy")
    assert levels(found) == {"cores": "high", "depth": "high", "zip": "within noise"}
    assert found.of().impacts["cores"].noise_from == "contexts"
    assert found.of().noise is None
    assert any("run twice" in note for note in found.notes)


@pytest.mark.parametrize(("effect", "level"), [(0.0, "within noise"), (0.3, "high")])
def test_a_setting_drawn_anew_for_each_run_is_judged_by_a_model(effect, level):
    found = analyze_impact(drawn_table(60, seed=0, effect=effect), "time_s", hyper="rate")
    own = found.of().impacts["rate"]
    assert (own.level, own.label) == (level, "modelled")


@pytest.mark.slow
def test_noise_drawn_anew_for_each_run_is_hardly_ever_high():
    found = [analyze_impact(drawn_table(120, seed), "time_s", hyper="rate") for seed in range(8)]
    assert sum(each.level("rate") == "high" for each in found) <= 1


def test_one_context_without_repeats_says_that_noise_is_not_known():
    runs = pd.DataFrame({"threads": [1, 2, 4], "time_s": [9.0, 5.0, 3.0]})
    found = analyze_impact(runs, "time_s")
    own = found.of().impacts["threads"]
    assert (own.level, own.noise_from) == ("high", "nothing")
    assert np.isnan(own.lower)
    assert own.to_json()["lower"] is None
    assert any("Of threads there is one context only" in note for note in found.notes)


# Tuning, costs, spread


def test_tunings_are_the_best_measured_runs_with_the_rest_at_the_baseline():
    found = analyze_impact(
        RUNS, "time_s", by="workload", system=["cores", "zip"], hyper=["depth"],
        baseline={"cores": 1, "depth": 4}, skip="accuracy",
    )  # fmt: skip
    by = {(t.workload, t.kind): t for t in found.tunings}
    medians = RUNS.groupby(["workload", "cores", "depth", "zip"])["time_s"].median()
    zipped = by["large", "baseline"].settings["zip"]
    assert by["large", "baseline"].value == pytest.approx(medians["large", 1, 4, zipped])
    assert by["large", "hyper only"].value == pytest.approx(medians["large", 1, 2, zipped])
    assert by["large", "system only"].value == pytest.approx(medians["large", 4, 4, zipped])
    joint = by["large", "joint"]
    assert joint.value == pytest.approx(medians["large", 4, 2, zipped])
    assert joint.lower < joint.value < joint.upper
    assert set(joint.varied) == {"depth", "cores"}  # zip is within noise, and stays
    assert joint.label == "measured"


def test_tuning_does_not_buy_time_with_quality():
    found = analyze_impact(
        RUNS, "time_s", quality="accuracy", by="workload", system="cores", hyper="depth",
        baseline={"depth": 4},
    )  # fmt: skip
    hyper = [t for t in found.tunings if t.kind == "hyper only"]
    assert {t.settings["depth"] for t in hyper} == {4}


@pytest.mark.parametrize(
    ("kind", "way"), [({"system": "cores"}, "system only"), ({"hyper": "depth"}, "hyper only")]
)
def test_one_kind_of_settings_alone_is_tuned_alone(kind, way):
    found = analyze_impact(
        RUNS, "time_s", by="workload", baseline={"cores": 1, "depth": 4}, skip="accuracy", **kind
    )
    medians = RUNS.groupby(["workload", "cores", "depth", "zip"])["time_s"].median()
    by = {(t.workload, t.kind): t for t in found.tunings}
    assert {kind for _, kind in by} == {"baseline", way}
    own = by["large", way]
    at = (4, 4) if "system" in kind else (1, 2)
    assert own.value == pytest.approx(medians["large", *at, own.settings["zip"]])


def test_a_baseline_without_settings_to_tune_is_noted():
    found = analyze_impact(RUNS, "time_s", by="workload", skip="accuracy", baseline={"cores": 1})
    assert not found.tunings
    assert any("baseline" in note for note in found.notes)


def test_costs_are_hours_times_machines_times_price_and_traffic():
    runs = pd.DataFrame(
        {"nodes": [1, 2, 4], "out_gb": [1.0, 1.0, 3.0], "time_s": [3600.0, 2400.0, 1800.0]}
    )
    found = analyze_impact(runs, "time_s", price_per_hour=0.46, machines="nodes",
                           price_per_gb=0.05, out_gb="out_gb")  # fmt: skip
    cost = {p.settings["nodes"]: p.cost for p in found.front}
    assert cost == pytest.approx({1: 0.46 + 0.05, 2: 2 * 0.46 * 2 / 3 + 0.05, 4: 2 * 0.46 + 0.15})
    assert found.settings == ("nodes",)


def test_spread_is_the_interquartile_range_of_logarithms_within_groups():
    found = analyze_impact(RUNS, "time_s", by="workload", skip="accuracy")
    logs = np.log10(RUNS["time_s"])
    own = [
        np.subtract(*np.quantile(part, (0.75, 0.25))) for _, part in logs.groupby(RUNS["workload"])
    ]
    by = {s.column: s.decades for s in found.spreads}
    assert by["workload"] == pytest.approx(np.median(own))
    assert by[None] == pytest.approx(np.subtract(*np.quantile(logs, (0.75, 0.25))))


def test_workloads_may_have_settings_of_their_own():
    one, two = table(workloads=(("a", 1.0),)), table(workloads=(("b", 1.0),))
    runs = pd.concat([one, two.rename(columns={"depth": "k"})], ignore_index=True)
    found = analyze_impact(runs, "time_s", by="workload", skip="accuracy")
    by = found.of().by_workload
    assert by["a"]["depth"].level == by["b"]["k"].level == "high"
    assert by["a"]["k"] is None
    assert by["b"]["depth"] is None
    assert found.of().shares.method == "anova"
    assert sum(found.of().shares.by_input().values()) == pytest.approx(1)


# Values of 0 and below


def test_contexts_without_a_positive_quality_are_left_out_and_counted():
    rows = [(a, b) for b in "xyz" for a in (1, 2)]
    runs = pd.DataFrame(rows, columns=["a", "b"])
    runs["r2"] = [-0.5, -0.2, 0.4, 0.8, 0.3, 0.6]
    runs["time_s"] = [1.0, 2.0] * 3
    again = runs.assign(r2=runs["r2"] + 0.001, time_s=runs["time_s"] * 1.001)
    runs = pd.concat([runs, again], ignore_index=True)
    found = analyze_impact(runs, "time_s", quality="r2", hyper="b")
    own = found.of("r2").impacts["a"]
    assert (own.n_contexts, own.n_left_out) == (2, 1)
    assert own.median == pytest.approx(0.5, abs=0.01)
    assert own.level == "high"
    assert any("1 of 3 of a" in note for note in found.notes)
    by = analyze_impact(runs[runs["b"] != "z"], "time_s", quality="r2", by="b")
    assert by.of("r2").by_workload["x"]["a"] is None
    assert by.level("a", "r2") == "high"


def test_a_model_leaves_out_configurations_without_a_positive_prediction():
    frame = pd.DataFrame(itertools.product((1, 2), (-1, 1)), columns=["a", "sign"])
    runs = prepare_runs(read_dataset(frame.assign(time_s=1.0)), ImpactQuestion.of("time_s"))
    model = SimpleNamespace(
        columns=["a", "sign"], scores={}, predict=lambda f: (f["a"] * f["sign"]).to_numpy(float)
    )
    outcome = Outcome("gain", False, 0.05, 0.01, is_ratio=False)
    found = modelled_impact(KnownModel(model), runs, "a", outcome, np.arange(4), 0)
    assert (found.median, found.n_contexts, found.n_left_out) == (0.5, 2, 2)


def test_a_quality_whose_median_is_zero_has_no_relative_noise():
    runs = pd.DataFrame({"a": np.repeat([1, 2, 3], 2), "gain": [0, 0, 0, 0, 0.5, 0.6]})
    found = analyze_impact(runs.assign(time_s=[1, 1.1, 2, 2.1, 3, 3.1]), "time_s", quality="gain")
    assert found.of("gain").noise is None
    assert found.of("gain").impacts["a"].median == pytest.approx(1)


# By a model


@pytest.fixture(scope="module")
def drawn():
    """Runs at random settings, of which no two differ in one setting alone."""
    random = np.random.default_rng(2)
    n = 70
    frame = pd.DataFrame(
        {
            "rate": 10 ** random.uniform(-3, 0, n),
            "size": random.uniform(10, 100, n),
            "other": random.uniform(0, 1, n),
        }
    )
    frame["time_s"] = frame["size"] ** 0.5 * np.exp(random.normal(0, 0.02, n))
    frame["time_s"] *= 1 + 0.5 * frame["rate"]
    return frame


@pytest.fixture(scope="module")
def by_model(drawn):
    return analyze_impact(drawn, "time_s", system="size", hyper=["rate", "other"])


def test_a_random_table_is_judged_by_a_model_and_says_so(by_model):
    found = by_model
    assert found.level("size") == "high"
    assert found.level("other") == "within noise"
    own = found.of().impacts["size"]
    assert own.label == "modelled"
    assert own.median == pytest.approx(1 - 10**-0.5, abs=0.08)
    shares = found.of().shares
    assert shares.method in ("grid", "sobol")
    assert "other" not in shares.by_input()
    assert next(iter(shares.by_input())) == "size"
    assert 0 <= found.of().far < 0.2
    assert {t.label for t in found.tunings} == {"modelled"}
    joint = next(t for t in found.tunings if t.kind == "joint")
    assert joint.settings["size"] < 15


def test_a_modelled_tuning_tells_between_how_many_configurations_it_chose(drawn):
    found = analyze_impact(
        drawn.assign(size=drawn["size"].round(-1)), "time_s", system="size", hyper="other"
    )
    by = {t.kind: t for t in found.tunings}
    assert by["joint"].label == "modelled"
    n_sizes = drawn["size"].round(-1).nunique()
    assert [by[kind].n_choices for kind in ("baseline", "system only", "joint")] == [
        1, n_sizes, n_sizes,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def half_drawn():
    return analyze_impact(half_drawn_table(), "time_s", by="workload", system="cores",
                          hyper="depth", price_per_hour=1.0, machines="cores")  # fmt: skip


def test_modelled_figures_are_marked_and_cost_what_they_predict(half_drawn):
    found = half_drawn
    assert {(t.workload, t.label) for t in found.tunings} == {
        ("grid", "measured"), ("drawn", "modelled"),
    }  # fmt: skip
    for tuning in found.tunings:
        assert tuning.cost == pytest.approx(tuning.value / 3600 * tuning.settings["cores"])
    text = str(found)
    table = text.partition("Impact on time_s by workload:\n")[2].splitlines()
    (cores,) = [line for line in table[1:4] if line.startswith("cores")]
    assert cores.count("~") == 1  # that of the drawn workload
    assert "Figures marked ~ are modelled." in text


def test_a_quality_that_could_not_be_modelled_does_not_count_and_is_told(drawn, monkeypatch):
    fit = analyze.fit_model

    def without_quality(frame, *, target, **asked):
        if target == "accuracy":
            raise DatasetError("no luck")
        return fit(frame, target=target, **asked)

    monkeypatch.setattr(analyze, "fit_model", without_quality)
    found = analyze_impact(
        drawn.assign(accuracy=drawn["size"]), "time_s", quality="accuracy", system="size",
        hyper="rate",
    )  # fmt: skip
    assert {t.quality for t in found.tunings} == {None}
    assert "Chosen among" not in str(found)
    assert "did not count" in str(found)


def test_modelled_shares_of_a_quality_are_of_the_quality_and_not_of_its_logarithm():
    a, b = [1, 4, 10], [1, 2, 3]
    runs = pd.DataFrame(itertools.product(a, b, range(4)), columns=["a", "b", "c"])
    runs["accuracy"] = runs["a"] * runs["b"] / 30
    runs["time_s"] = 1 + 0.1 * runs["c"]
    found = analyze_impact(runs.drop([5, 17, 30]), "time_s", quality="accuracy")
    shares = found.of("accuracy").shares
    assert shares.method in ("grid", "sobol")
    exact = decompose(["a", "b"], np.outer(a, b))
    assert exact.pairs["a", "b"] > 0.1  # logarithms would have none
    assert shares.pairs["a", "b"] == pytest.approx(exact.pairs["a", "b"], abs=0.03)


def test_a_saved_model_tells_the_same_as_its_runs(tmp_path, drawn, by_model):
    foretell.fit_model(drawn, target="time_s", seed=0, output=tmp_path / "m")
    found = analyze_impact(tmp_path / "m")
    assert found.level("size") == "high"
    assert found.of().shares.by_input() == pytest.approx(by_model.of().shares.by_input(), abs=0.01)
    alone = analyze_impact(tmp_path / "m" / "best.foretell")
    assert alone.is_of_model
    assert alone.level("size") == "high"
    assert alone.of().impacts["size"].median == pytest.approx(
        found.of().impacts["size"].median, abs=0.1
    )
    with pytest.raises(UsageError, match="time_s"):
        analyze_impact(tmp_path / "m", "energy_j")
    with pytest.raises(UsageError, match="table of runs"):
        analyze_impact(tmp_path / "m", quality="accuracy")


def test_what_fits_say_matters_is_what_impact_says(tmp_path):
    runs = table(workloads=(("w", 1.0),)).drop(columns=["workload", "accuracy"])
    fit = foretell.fit_model(runs, target="time_s", output=tmp_path / "m")
    shares = fit.results.explanation.shares
    exact = analyze_impact(runs, "time_s").of().shares.by_input()
    assert shares == pytest.approx(exact, abs=0.02)
    assert "zip" not in shares


# Output


def test_text_and_json_tell_the_same():
    found = analyze_impact(RUNS, "time_s", quality="accuracy", by="workload", system="cores",
                           hyper="depth", price_per_hour=1.0)  # fmt: skip
    text, told = str(found), found.to_json()
    assert text.splitlines()[0].startswith("72 runs, 24 configurations, 2 workloads")
    assert text.splitlines()[1].startswith("Lower time_s is better")
    assert "higher accuracy is better" in text.splitlines()[1]
    assert "within noise" in text
    assert "system only" in text
    assert told["outcomes"][0]["settings"]["cores"]["level"] == "high"
    assert told["outcomes"][0]["variance"]["method"] == "anova"
    assert len(told["tunings"]) == 8
    assert told["tunings"][0]["label"] == "measured"
    assert told["front"]


def test_equal_input_gives_equal_output():
    asked = {"quality": "accuracy", "by": "workload", "seed": 3}
    assert analyze_impact(RUNS, "time_s", **asked).to_json() == analyze_impact(
        RUNS.copy(), "time_s", **asked
    ).to_json()  # fmt: skip


# Bad input


@pytest.mark.parametrize(
    ("runs", "asked", "told"),
    [
        (RUNS, {"target": "tme_s"}, "Did you mean 'time_s'"),
        (RUNS, {"quality": "acuracy"}, "Did you mean 'accuracy'"),
        (RUNS, {"by": "work"}, "no column 'work'"),
        (RUNS, {"system": "core"}, "Did you mean 'cores'"),
        (RUNS, {"baseline": {"coers": 1}}, "Did you mean 'cores'"),
        (RUNS.assign(cores=1, depth=2, zip="on").drop(columns="workload"),
         {"quality": "accuracy"}, "one value only"),
        (RUNS[["time_s"]], {}, "no settings"),
        (RUNS.assign(time_s=-1.0), {}, "positive"),
        (RUNS.assign(time_s=np.nan), {}, "no run"),
        (RUNS.assign(time_s="slow"), {}, "must hold numbers"),
        (RUNS.assign(accuracy=0.0), {"quality": "accuracy"}, "no positive value"),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_judged_say_why(runs, asked, told):
    with pytest.raises(DatasetError, match=told):
        analyze_impact(runs, asked.pop("target", "time_s"), **asked)


@pytest.mark.parametrize(("value", "is_told"), [(-1.0, True), (0.0, False)])
def test_another_sign_is_advised_only_where_it_helps(value, is_told):
    with pytest.raises(DatasetError, match="must be positive") as caught:
        analyze_impact(RUNS.assign(time_s=value), "time_s")
    assert ("Change its sign" in str(caught.value)) == is_told


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"levels": {"time_s": (0.1, 0.2)}}, "two ranges"),
        ({"levels": {"time": (0.2, 0.1)}}, "Did you mean 'time_s'"),
        ({"better": {"time_s": "less"}}, "lower or higher"),
        ({"system": "cores", "hyper": "cores"}, "given twice"),
        ({"quality": "time_s"}, "already"),
        ({"baseline": {"cores": 3}, "system": "cores", "hyper": "depth"}, "never 3"),
        ({"baseline": {"cores": 99}}, "never 99"),
        ({"baseline": {"workload": "small"}, "by": "workload"}, "no setting"),
        ({"price_per_hour": -1.0}, "at least 0"),
        ({"price_per_hour": 1.0, "machines": -2}, "machines: must be at least 0"),
        ({"price_per_hour": 1.0, "machines": float("nan")}, "machines: must be at least 0"),
        ({"price_per_gb": 1.0, "out_gb": -1.0}, "out_gb: must be at least 0"),
        ({"machines": 4}, "machines=4: .* add price_per_hour"),
        ({"machines": "cores"}, "machines='cores': .* add price_per_hour"),
        ({"out_gb": 2.0}, "out_gb=2: .* add price_per_gb"),
        ({"price_per_gb": 0.05}, "price_per_gb=0.05: .* add out_gb"),
        ({"sistem": "cores"}, "Did you mean 'system'"),
        ({"seed": -1}, "at least 0"),
    ],
)
def test_questions_that_make_no_sense_say_why(asked, told):
    with pytest.raises(UsageError, match=told):
        analyze_impact(RUNS, "time_s", **asked)


def test_costs_need_a_time():
    runs = RUNS.rename(columns={"time_s": "energy_j"})
    with pytest.raises(UsageError, match="seconds"):
        analyze_impact(runs, "energy_j", price_per_hour=1.0)


def test_a_table_without_a_target_is_refused():
    with pytest.raises(UsageError, match="target"):
        analyze_impact(RUNS)


def test_a_setting_of_one_value_is_noted_and_an_unbalanced_table_still_told():
    runs = RUNS[RUNS["workload"] == "small"].assign(machine="m1").iloc[3:]
    found = analyze_impact(runs, "time_s", by="workload", system=["machine", "cores"],
                           hyper="depth", skip="accuracy")  # fmt: skip
    assert any("machine" in note for note in found.notes)
    assert "machine" not in found.settings
    assert found.level("cores") == "high"
    assert found.of().shares is not None


def test_a_column_that_differs_between_repeats_is_a_result():
    found = analyze_impact(RUNS, "time_s", by="workload")
    assert set(found.settings) == {"cores", "depth", "zip"}
    assert any("accuracy" in note for note in found.notes)
    kept = prepare_runs(read_dataset(RUNS), ImpactQuestion.of("time_s", hyper="accuracy"))
    assert "accuracy" in kept.settings


def test_failed_runs_and_numbers_of_repeats_are_no_settings():
    runs = RUNS.assign(repeat=np.arange(len(RUNS)) % 3)
    runs.loc[0, "time_s"] = np.nan
    found = analyze_impact(runs, "time_s", by="workload", skip="accuracy")
    assert found.n_runs == len(RUNS) - 1
    assert "repeat" not in found.settings
    assert sum("left out" in note or "repeat" in note for note in found.notes) == 2


# What runs cannot tell


def test_settings_that_change_together_are_named():
    runs = RUNS.assign(twin=RUNS["cores"] * 10)
    notes = analyze_impact(runs, "time_s", by="workload", skip="accuracy").notes
    assert any("cores and twin change together in all runs" in note for note in notes)
    notes = analyze_impact(RUNS, "time_s", by="workload", skip="accuracy").notes
    assert not any("change together" in note for note in notes)


def quality_table(drop, n_repeats=3):
    """Return runs in which 4 threads are faster, and less accurate by a share, with noise."""
    random = np.random.default_rng(1)
    rows = [
        {"threads": threads, "time_s": 10.0 / threads * random.lognormal(0, 0.01),
         "accuracy": 0.9 * (1 - drop * (threads == 4)) * random.lognormal(0, 0.01)}
        for threads in (1, 2, 4) for _ in range(n_repeats)
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("drop", "chosen"), [(0.011, 4), (0.2, 2)])
def test_a_choice_is_refused_for_its_quality_only_beyond_noise_and_named(drop, chosen):
    found = analyze_impact(quality_table(drop), "time_s", quality="accuracy", system="threads",
                           baseline={"threads": 2})  # fmt: skip
    [tuned] = [tuning for tuning in found.tunings if tuning.kind == "system only"]
    assert tuned.settings["threads"] == chosen
    assert ("threads=4 would be better, but for its accuracy" in str(found)) == (chosen == 2)
