"""Predicting queues, as users do: files, models, tables of runs, bursts, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import foretell
from foretell.cli._main import cli
from foretell.decide.queueing.stability import OverloadError
from foretell.errors import ForetellError, UsageError

LOW = {"name": "low", "rate_per_s": 0.1, "service": {"mean_s": 4.0, "scv": 0.5}}
HIGH = {"name": "high", "rate_per_s": 0.05, "service": {"mean_s": 3.0, "scv": 0.3}}
TWO = {"class": [LOW, HIGH]}


def test_three_disciplines_are_predicted_and_that_of_the_file_first():
    found = foretell.predict_queue({**TWO, "discipline": "redraw"})
    names = ["redraw", "non-preemptive", "resume", "repeat"]
    assert [d.name for d in found.disciplines] == names
    np_low, np_high = found.of("non-preemptive").figures.classes
    assert np_high.mean_s < np_low.mean_s
    assert "high" in str(found)
    assert str(found) == str(foretell.predict_queue({**TWO, "discipline": "redraw"}))


def test_a_simulation_stands_beside_the_formulas_and_agrees():
    found = foretell.predict_queue(TWO, discipline="repeat", simulate=True, jobs_simulated=40_000)
    of = found.of("repeat")
    for by_formula, played in zip(of.figures.classes, of.played.classes, strict=True):
        for value, estimate in (
            (by_formula.mean_s, played.response),
            (by_formula.wait_s, played.wait),
            (by_formula.p95_s, played.p95),
        ):
            assert abs(value - estimate.value) < 2.5 * estimate.half_width + 0.01 * value
    assert "40,000 jobs simulated" in str(found)
    plain = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert plain["disciplines"][0]["simulated"]["n_jobs"] == 40_000


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"discipline": "rezume"}, ["discipline", "'rezume'", "'resume'"]),
        ({"jobs_simulated": 0}, ["jobs_simulated", "at least 1", "0"]),
        ({"seed": -1}, ["seed", "-1"]),
    ],
)
def test_wrong_options_are_named(given, expected):
    with pytest.raises(UsageError) as error:
        foretell.predict_queue(TWO, **given)
    for part in expected:
        assert part in str(error.value)


def test_a_discipline_that_cannot_keep_up_is_refused_beside_the_others():
    rate = 0.8 / (148 + 9 * 63)
    low = {"name": "low", "rate_per_s": rate, "service": {"mean_s": 148, "scv": 0}}
    high = {"name": "high", "rate_per_s": 9 * rate, "service": {"mean_s": 63, "scv": 0}}
    found = foretell.predict_queue({"class": [low, high]})
    assert found.of("non-preemptive").figures is not None
    assert found.of("repeat").figures is None
    assert "without limit" in found.of("repeat").refused
    assert "without limit" in str(found)
    with pytest.raises(UsageError, match=r"low.*high.*largest stable rates"):
        foretell.predict_queue({"class": [low, {**high, "rate_per_s": 1.0}]})


def test_runs_become_the_time_of_a_job(tmp_path):
    random = np.random.default_rng(1)
    times = random.gamma(5, 2, 300)
    frame = pd.DataFrame({"size": [1, 2] * 150, "wall_time_ms": 1000 * times})
    frame.to_csv(tmp_path / "runs.csv", index=False)
    (tmp_path / "classes.toml").write_text(
        '[[class]]\nname = "a"\nrate_per_s = 0.02\nruns = "runs.csv"\nonly = "size == 2"\n'
    )
    found = foretell.predict_queue(tmp_path / "classes.toml", discipline="non-preemptive")
    own = times[1::2]
    rate = 0.02
    expected = own.mean() + rate * (own**2).mean() / (2 * (1 - rate * own.mean()))
    assert found.of("non-preemptive").figures.classes[0].mean_s == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("table", "more", "expected"),
    [
        ({"a": [1, 2]}, {}, ["class low", "no column that is a time", "column ="]),
        ({"a_s": [1, 2], "b_s": [1, 2]}, {}, ["a_s, b_s", "column ="]),
        ({"a_s": [1, 2]}, {"column": "as"}, ["no column 'as'", "'a_s'"]),
        ({"a_s": [1, -2]}, {}, ["above 0", "-2"]),
        ({"a_s": [1, 2]}, {"only": "a_s > 5"}, ["0 usable runs", "only"]),
        ({"a_s": [1, 2], "status": ["ok", "failed"]}, {}, ["1 usable run,"]),
        ({"a_s": [1, 2]}, {"only": "b > 5"}, ["b"]),
    ],
)
def test_tables_that_cannot_be_used_are_named_with_the_class(tmp_path, table, more, expected):
    path = tmp_path / "runs.csv"
    pd.DataFrame(table).to_csv(path, index=False)
    job = {"name": "low", "rate_per_s": 0.01, "runs": str(path), **more}
    with pytest.raises(ForetellError) as error:
        foretell.predict_queue({"class": [job]})
    for part in expected:
        assert part in str(error.value)


CAMPAIGN = {
    "data": {"target": "time_s"},
    "techniques": {"LRRidge": {"alpha": 1e-6}},
    "search": {"splits": {"method": "KFold", "folds": 3}},
    "validation": {"method": "KFold", "folds": 3},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    random = np.random.default_rng(0)
    gb = np.repeat(np.arange(1, 21), 6)
    runs = pd.DataFrame({"gb": gb, "time_s": 5 * gb * random.normal(1, 0.1, len(gb))})
    foretell.fit_model(CAMPAIGN, runs, output=folder / "time")
    return folder / "time"


def test_the_predictive_distribution_of_a_model_becomes_the_time_of_a_job(models):
    job = {"name": "a", "rate_per_s": 0.01, "model": str(models), "configuration": {"gb": 10}}
    found = foretell.predict_queue({"class": [job]}, discipline="non-preemptive")
    time = found.streams[0].service
    assert time.mean == pytest.approx(50, rel=0.05)
    assert 0.003 < time.scv < 0.05  # the runs vary by 10 %
    assert found.notes == ()


def test_a_model_that_is_asked_outside_its_data_says_so(models):
    job = {"name": "a", "rate_per_s": 0.001, "model": str(models), "configuration": {"gb": 60}}
    found = foretell.predict_queue({"class": [job]}, discipline="non-preemptive")
    assert any("gb" in note for note in found.notes)


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [({}, ["class a", "needs 'gb'"]), ({"gb": 1, "gbs": 2}, ["class a", "'gbs'", "'gb'"])],
)
def test_a_configuration_that_does_not_fit_the_model_is_named(models, configuration, expected):
    job = {"name": "a", "rate_per_s": 0.01, "model": str(models), "configuration": configuration}
    with pytest.raises(ForetellError) as error:
        foretell.predict_queue({"class": [job]})
    for part in expected:
        assert part in str(error.value)


def test_a_missing_model_is_named_with_the_class(tmp_path):
    job = {"name": "a", "rate_per_s": 0.01, "model": str(tmp_path / "none"), "configuration": {}}
    with pytest.raises(ForetellError, match=r"class a.*none"):
        foretell.predict_queue({"class": [job]})


BURSTS = {
    "kind": "mmap",
    "D0": [[-0.41, 0.01], [0.01, -0.01]],
    "D1": [[0.3, 0], [0, 0]],
    "D2": [[0.1, 0], [0, 0]],
}


def in_bursts(*, low_s=2.0, **sprint):
    jobs = [("low", low_s), ("high", 1.0)]
    classes = [{"name": name, "service": {"mean_s": s, "scv": 0.5}} for name, s in jobs]
    return {"class": classes, "arrivals": BURSTS, "sprint": {"base_w": 100, **sprint}}


def test_bursts_have_formulas_where_no_work_is_thrown_away():
    found = foretell.predict_queue(in_bursts(), jobs_simulated=60_000, simulate=True)
    for name in ("non-preemptive", "resume"):
        of = found.of(name)
        for formula, played in zip(of.figures.classes, of.played.classes, strict=True):
            wide = 2 * played.response.half_width
            assert abs(formula.mean_s - played.response.value) < wide
        assert not any(name in note for note in found.notes)
    low = found.of("resume").figures.classes[0]
    alone = {"name": "low", "rate_per_s": 0.15, "service": {"mean_s": 2, "scv": 0.5}}
    (poisson,) = foretell.predict_queue({"class": [alone]}).of("resume").figures.classes
    assert low.wait_s > 3 * poisson.wait_s


def test_evictions_in_bursts_are_simulated_and_that_is_said():
    found = foretell.predict_queue(in_bursts(), discipline="repeat", jobs_simulated=30_000)
    of = found.of("repeat")
    assert of.figures is None
    assert of.played.classes[0].waste > 0
    assert "repeat: load 0." in str(found)
    assert "energy of a job" in str(found)
    (note,) = found.notes
    assert "no formulas" in note
    assert "that of low to ±" in note


def test_bursts_whose_evictions_take_too_long_have_no_end():
    found = foretell.predict_queue(in_bursts(low_s=5.8), jobs_simulated=30_000)
    assert found.of("resume").figures.load == pytest.approx(0.92)
    assert "grew to the end of a simulation" in found.of("repeat").refused
    assert found.of("repeat").played is None
    with pytest.raises(UsageError, match=r"1\.04 in sum"):
        foretell.predict_queue(in_bursts(low_s=6.6))


def test_redraw_may_have_less_work_than_the_mean_of_its_jobs():
    services = [("low", 0.3, {"mean_s": 3.0, "scv": 8.0}), ("high", 1.0, {"mean_s": 0.2, "scv": 1})]
    poisson = [{"name": name, "rate_per_s": r, "service": time} for name, r, time in services]
    expected = foretell.predict_queue({"class": poisson}, discipline="redraw").of("redraw")
    classes = [{"name": name, "service": time} for name, _, time in services]
    arrivals = {"kind": "mmap", "D0": [[-1.3]], "D1": [[0.3]], "D2": [[1.0]]}
    queue = {"class": classes, "arrivals": arrivals}
    found = foretell.predict_queue(queue, discipline="redraw", jobs_simulated=30_000).of("redraw")
    assert not found.refused
    assert found.played.queue.load == pytest.approx(expected.figures.load, rel=0.03)
    with pytest.raises(UsageError, match=r"1\.1 in sum"):
        foretell.predict_queue(queue, discipline="resume")


def test_a_redraw_that_cannot_keep_up_is_refused_by_its_simulation():
    arrivals = {"kind": "mmap", "D0": [[-3.0]], "D1": [[1.0]], "D2": [[2.0]]}
    classes = [{"name": name, "service": {"mean_s": 1.0, "scv": 1}} for name in ("low", "high")]
    queue = {"class": classes, "arrivals": arrivals}
    with pytest.raises(UsageError, match="grew to the end of a simulation"):
        foretell.predict_queue(queue, discipline="redraw", jobs_simulated=3_000)


def test_a_burst_makes_the_engine_make_way_once():
    arrivals = {
        "kind": "mmap",
        "D0": [[-0.012, 0.002], [0.1, -10.11]],
        "D1": [[0.01, 0], [0, 0.01]],
        "D2": [[0, 0], [0, 10.0]],
    }
    low = {"name": "low", "service": {"mean_s": 50.0, "scv": 0.2}, "evict_s": 10.0}
    high = {"name": "high", "service": {"mean_s": 1.0, "scv": 0.2}}
    found = foretell.predict_queue(
        {"class": [low, high], "arrivals": arrivals}, discipline="resume", jobs_simulated=60_000
    )
    assert found.of("resume").played.queue.load == pytest.approx(0.71, abs=0.07)


def test_making_way_in_bursts_is_simulated():
    classes = in_bursts()
    classes["class"][0]["evict_s"] = 0.5
    found = foretell.predict_queue(classes, jobs_simulated=20_000)
    of = found.of("resume")
    assert of.figures is None
    low, high = of.played.classes
    assert low.waste > 0
    assert high.waste == 0
    assert any("resume: no formulas" in note for note in found.notes)
    assert found.of("non-preemptive").figures is not None


def test_making_way_in_a_file_counts_in_formulas_and_simulations(tmp_path):
    path = tmp_path / "classes.toml"
    found = []
    for more in ("", "evict_s = 2.0\n"):
        path.write_text(
            '[[class]]\nname = "low"\nrate_per_s = 0.1\nservice = { mean_s = 4, scv = 0.5 }\n'
            f"{more}"
            '[[class]]\nname = "high"\nrate_per_s = 0.05\nservice = { mean_s = 3, scv = 0.3 }\n'
        )
        of = foretell.predict_queue(
            path, discipline="resume", simulate=True, jobs_simulated=40_000
        ).of("resume")
        for formula, played in zip(of.figures.classes, of.played.classes, strict=True):
            wide = 2.5 * played.response.half_width
            assert abs(formula.mean_s - played.response.value) < wide
            assert played.waste == pytest.approx(formula.waste, rel=0.05)
        found.append(of)
    without, with_it = found
    assert without.played.classes[0].waste == 0
    assert with_it.played.classes[0].waste > 0.05
    for name in ("figures", "played"):
        pairs = zip(getattr(without, name).classes, getattr(with_it, name).classes, strict=True)
        assert all(b.load >= a.load for a, b in pairs)


def test_a_class_with_too_few_simulated_jobs_for_an_interval_is_named():
    arrivals = {
        "kind": "mmap",
        "D0": [[-0.401, 0.01], [0.01, -0.01]],
        "D1": [[0.39, 0], [0, 0]],
        "D2": [[0.001, 0], [0, 0]],
    }
    found = foretell.predict_queue(
        {**in_bursts(), "arrivals": arrivals}, discipline="repeat", jobs_simulated=4_000
    )
    low, high = found.of("repeat").played.classes
    assert 0 < high.n_jobs < 20 < low.n_jobs
    (note,) = found.notes
    assert "that of low to ±" in note
    assert "that of high with no interval" in note


def test_seconds_of_sprints_are_told_by_class():
    classes = in_bursts(speedup=2.0, sprint_w=150)
    classes["class"][1]["sprint_after_s"] = 0.0
    found = foretell.predict_queue(classes, discipline="resume", simulate=True)
    low, high = found.of("resume").figures.classes
    assert (low.sprint_s, high.sprint_s) == (0.0, pytest.approx(0.5))
    assert found.of("resume").played.classes[1].sprint_s == pytest.approx(0.5, rel=0.02)
    assert "sprint of a job" in str(found)
    assert found.to_json()["disciplines"][0]["classes"][1]["sprint_s"] == pytest.approx(0.5)
    assert "sprint of a job" not in str(foretell.predict_queue(in_bursts(), discipline="resume"))


def test_what_is_assumed_and_what_runs_dry_is_said():
    job = {"name": "a", "rate_per_s": 0.01, "tasks": 50, "map_s": 3, "sprint_after_s": 0}
    sprint = {"speedup": 2, "base_w": 100, "sprint_w": 300, "budget_j": 10, "refill_w": 1}
    found = foretell.predict_queue({"slots": 20, "class": [job], "sprint": sprint})
    assert any("SCV of 0.05" in note for note in found.notes)
    assert any("runs dry" in note for note in found.notes)


def test_a_mean_without_end_is_shown_as_such():
    low = {"name": "low", "rate_per_s": 0.02, "service": {"mean_s": 1, "scv": 1}}
    high = {"name": "high", "rate_per_s": 0.6, "service": {"mean_s": 0.1, "scv": 1}}
    found = foretell.predict_queue({"class": [low, high]}, discipline="repeat")
    assert "∞" in str(found)
    assert found.to_json()["disciplines"][0]["classes"][0]["mean_s"] is None
    json.dumps(found.to_json(), allow_nan=False)


def test_the_command_prints_tables_json_and_errors(tmp_path):
    path = tmp_path / "classes.toml"
    path.write_text(
        '[[class]]\nname = "low"\nrate_per_s = 0.1\nservice = { mean_s = 4, scv = 0.5 }\n'
    )
    runner = CliRunner()
    shown = runner.invoke(cli, ["queue", "predict", str(path)])
    assert shown.exit_code == 0
    assert "non-preemptive" in shown.output
    plain = runner.invoke(cli, ["queue", "predict", str(path), "--discipline", "resume", "--json"])
    classes = json.loads(plain.output)["disciplines"][0]["classes"]
    assert classes[0]["mean_s"] == pytest.approx(4 + 0.1 * 16 * 1.5 / (2 * 0.6))
    path.write_text(
        '[[class]]\nname = "low"\nrate_per_s = 1\nservice = { mean_s = 4, scv = 0.5 }\n'
    )
    refused = runner.invoke(cli, ["queue", "predict", str(path)])
    assert refused.exit_code == 2
    assert "0.25 per s" in refused.output


SPRINT = {"speedup": 2, "base_w": 100, "sprint_w": 300, "idle_w": 50}


def played_sprints(**sprint):
    job = {**LOW, "sprint_after_s": 1.0}
    classes = {"class": [job, HIGH], "sprint": SPRINT | sprint}
    return foretell.predict_queue(
        classes, discipline="repeat", simulate=True, jobs_simulated=40_000
    )


def test_simulated_load_waste_and_energy_agree_with_the_formulas():
    of = played_sprints().of("repeat")
    for k, (by_formula, played) in enumerate(
        zip(of.figures.classes, of.played.classes, strict=True)
    ):
        assert played.load == pytest.approx(by_formula.load, rel=0.05)
        assert played.waste == pytest.approx(by_formula.waste, rel=0.1)
        assert played.job_j == pytest.approx(of.figures.energy.job_j[k], rel=0.05)
    energy = of.figures.energy
    expected = (energy.busy_w, energy.sprint_w, energy.total_w)
    assert of.played.power == pytest.approx(expected, rel=0.05)
    assert of.to_json()["simulated"]["power"]["total_w"] == pytest.approx(energy.total_w, rel=0.05)


def test_rows_of_a_simulation_have_all_cells():
    lines = str(played_sprints()).splitlines()
    rows = [line for line in lines if line.startswith("  simulated")]
    assert len(rows) == 2
    assert all(row.endswith(" J") or row.endswith("kJ") for row in rows)
    assert any("Power on average, simulated" in line for line in lines)


def test_power_of_sprints_that_run_dry_is_simulated_and_the_formula_says_what_it_assumes():
    found = played_sprints(budget_j=100, refill_w=2)
    of = found.of("repeat")
    assert of.figures.energy.sprint_w > 10
    assert of.played.power[1] < 2.1  # no more than refills, but for the first budget
    modelled = next(line for line in str(found).splitlines() if "modelled" in line)
    assert "never ran dry" in modelled
    assert "never ran dry" not in str(played_sprints())


def test_time_with_a_sprint_says_so():
    first = str(played_sprints()).splitlines()[0]
    low, high = first.split(";")[1], first.split(";")[0]
    assert "with its sprint" in low
    assert "with its sprint" not in high


def test_stage_whose_variation_is_not_given_is_named():
    stage = {"tasks": 2, "task_s": 1.0}
    stages = [stage, {**stage, "scv": 0.1}, stage]
    reduce = {"tasks": 2, "map_s": 1.0, "reduce_tasks": 2, "reduce_s": 1.0}
    jobs = [
        {"name": "a", "stages": stages},
        {"name": "b", "stages": [stage, stage]},
        {"name": "c", "stages": [{**stage, "scv": 0.1}]},
        {"name": "d", **reduce, "map_scv": 0.1},
        {"name": "e", **reduce, "reduce_scv": 0.1},
        {"name": "f", **reduce},
    ]
    classes = {"slots": 2, "class": [{**job, "rate_per_s": 0.001} for job in jobs]}
    (note,) = foretell.predict_queue(classes, discipline="non-preemptive").notes
    named = "a (stage 1 and 3) and b and d (reduce tasks) and e (map tasks) and f vary"
    assert named in note


def test_classes_without_a_simulated_job_say_why_they_have_no_figures():
    rare = {**HIGH, "rate_per_s": 1e-6}
    found = foretell.predict_queue(
        {"class": [LOW, rare]}, discipline="resume", simulate=True, jobs_simulated=20
    )
    assert any("no job of high" in note and "simulate more" in note for note in found.notes)
    assert "– s" not in str(found)


def test_one_of_a_thing_is_counted_as_one():
    found = foretell.predict_queue({"class": [LOW]}, simulate=True, jobs_simulated=1)
    assert "1 job simulated" in str(found)
    assert str(found).startswith("1 class: ")


def test_runs_without_a_time_are_left_out_with_a_note(tmp_path):
    (tmp_path / "runs.csv").write_text("size,wall_time_s\n1,2.0\n1,\n1,4.0\n")
    job = {"name": "a", "rate_per_s": 0.01, "runs": str(tmp_path / "runs.csv")}
    found = foretell.predict_queue({"class": [job]}, discipline="resume")
    assert found.streams[0].service.mean == pytest.approx(3.0)
    assert any(note.startswith("1 run of a") and "wall_time_s" in note for note in found.notes)


def test_an_overload_says_that_a_model_was_asked_outside_its_data(models):
    job = {"name": "a", "rate_per_s": 1.0, "model": str(models), "configuration": {"gb": 60}}
    with pytest.raises(OverloadError, match="far outside its data"):
        foretell.predict_queue({"class": [job]})


def test_quantiles_that_are_blurred_are_told_of():
    low = {"name": "low", "rate_per_s": 1e-4, "service": {"mean_s": 100, "scv": 0}}
    high = {"name": "high", "rate_per_s": 1e-4, "service": {"mean_s": 1, "scv": 0}}
    found = foretell.predict_queue({"class": [low, high]}, discipline="resume")
    blurred = [c.name for c in found.of("resume").figures.classes if c.response.is_blurred]
    assert blurred
    (note,) = [note for note in found.notes if "blurred by 0.4 %" in note]
    assert all(name in note for name in blurred)
    usual = foretell.predict_queue(TWO, discipline="non-preemptive")
    assert not any("blurred" in note for note in usual.notes)


@pytest.mark.parametrize(("gb", "expected"), [(60, "is asked far outside its data (gb")])
def test_note_on_a_model_is_a_sentence(models, gb, expected):
    job = {"name": "a", "rate_per_s": 0.001, "model": str(models), "configuration": {"gb": gb}}
    found = foretell.predict_queue({"class": [job]}, discipline="non-preemptive")
    assert any(expected in note for note in found.notes)


def test_note_on_a_level_that_a_model_does_not_know_is_a_sentence(tmp_path):
    random = np.random.default_rng(0)
    gb = np.repeat(np.arange(1, 11), 6)
    runs = pd.DataFrame({"gb": gb, "disk": ["ssd", "hdd"] * 30})
    runs["time_s"] = 5 * gb * random.normal(1, 0.1, len(gb))
    foretell.fit_model(CAMPAIGN, runs, output=tmp_path / "time")
    asked = {"gb": 5, "disk": "tape"}
    job = {"name": "a", "rate_per_s": 0.001, "configuration": asked}
    found = foretell.predict_queue(
        {"class": [{**job, "model": str(tmp_path / "time")}]}, discipline="non-preemptive"
    )
    assert any("for a level that its data does not have" in note for note in found.notes)


# What is dropped


@pytest.mark.parametrize(
    ("job", "told"),
    [
        ({"tasks": 50, "map_s": 1, "drop": 0.2}, ", 20 % dropped"),
        ({"tasks": 50, "map_s": 1, "drop": 0.2, "stages": 6}, ", 74 % dropped in 6 stages"),
        ({"tasks": 5, "map_s": 1, "drop": 0.02}, ""),  # 4.9 tasks are 5
        ({"tasks": 5, "map_s": 1, "drop": 0.3}, ", 20 % dropped"),  # 3.5 tasks are 4
        ({"drop": 0.2, "stages": [{"tasks": 50, "task_s": 1, "drop": 0}]}, ""),
        ({"stages": [{"tasks": 50, "task_s": 1, "drop": 0.2}]}, ", 20 % dropped"),
        (
            {"drop": 0.5, "stages": [{"tasks": 10, "task_s": 1}, {"tasks": 4, "task_s": 1}]},
            ", 75 % dropped in 2 stages",
        ),
    ],
)
def test_what_is_dropped_is_told_by_the_tasks_that_are_kept(job, told):
    low = {"name": "low", "rate_per_h": 1, **job}
    found = foretell.predict_queue({"slots": 5, "class": [low]}, discipline="resume")
    line = str(found).splitlines()[0]
    assert line.endswith(f"alone{told}")
