"""`foretell impact` on the command line: tables, studies, folders, reports, bad input."""

import json

import optuna
import pytest
from click.testing import CliRunner

from foretell.cli._main import cli

from ..impact.tables import table


@pytest.fixture
def runs(tmp_path):
    path = tmp_path / "runs.csv"
    table().to_csv(path, index=False)
    return path


def impact(*words):
    return CliRunner().invoke(cli, ["impact", *map(str, words)])


ASKED = ["--target", "time_s", "--quality", "accuracy", "--by", "workload"]


def test_a_table_answers_by_setting_and_workload(runs):
    done = impact(runs, *ASKED, "--system", "cores,zip", "--hyper", "depth")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].startswith("72 runs")
    assert lines[4].split()[:2] == ["cores", "high"]
    assert any(line.startswith("large") and "joint" in line for line in lines)


def test_json_has_all_figures(runs):
    done = impact(runs, *ASKED, "--levels", "time_s=0.7,0.5", "--better", "accuracy=higher",
                  "--baseline", "cores=1", "--json")  # fmt: skip
    told = json.loads(done.output)
    assert told["outcomes"][0]["levels"] == {"high": 0.7, "medium": 0.5}
    assert told["outcomes"][0]["settings"]["cores"]["level"] == "medium"


@pytest.mark.parametrize("ending", ["html", "md", "pdf"])
def test_reports_have_a_heat_map(runs, tmp_path, ending):
    report = tmp_path / f"impact.{ending}"
    done = impact(runs, *ASKED, "--system", "cores", "--hyper", "depth", "--price-per-hour", "0.46",
                  "--machines", "cores", "-o", report)  # fmt: skip
    assert done.exit_code == 0, done.output
    content = report.read_bytes()
    if ending == "pdf":
        assert content.startswith(b"%PDF")
    else:
        text = content.decode()
        assert "Impact of settings" in text
        assert "What tuning reaches" in text
        assert "within noise" in text
    if ending == "md":
        assert (tmp_path / "impact-pictures" / "impact-1.svg").exists()
    again = impact(runs, *ASKED, "-o", report)
    assert again.exit_code == 2
    assert "--force" in again.output


def test_a_study_that_maximizes_is_tuned_to_its_highest_value(tmp_path):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    url = f"sqlite:///{tmp_path}/study.db"
    grid = optuna.samplers.GridSampler({"a": [1, 2], "b": [1, 2]})
    study = optuna.create_study(storage=url, direction="maximize", sampler=grid)
    study.optimize(lambda t: t.suggest_int("a", 1, 2) + 0.01 * t.suggest_int("b", 1, 2), 4)
    for given, best in (((), 2), (("--better", "value=lower"), 1)):
        done = impact(url, "--target", "value", "--hyper", "a", "--system", "b", "--json", *given)
        assert done.exit_code == 0, done.output
        tunings = json.loads(done.output)["tunings"]
        assert [t["settings"]["a"] for t in tunings if t["tuning"] == "joint"] == [best]


def _study_of(value, folder, n_trials=16, **kwargs):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    url = f"sqlite:///{folder}/study.db"
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(storage=url, sampler=sampler, **kwargs)
    study.optimize(value, n_trials)
    return url


def test_a_value_that_a_study_maximizes_has_the_levels_of_a_quality(tmp_path):
    def accuracy(trial):  # 0.92 at best: 0.06 less is 6.5 %, high of a quality, low of a time
        noise = 1e-4 * (trial.number % 3)
        trial.suggest_int("b", 1, 2)
        return 0.8 + 0.06 * trial.suggest_int("a", 1, 2) + noise

    url = _study_of(accuracy, tmp_path, direction="maximize")
    for given, level in (((), "high"), (("--levels", "value=0.2,0.1"), "low")):
        done = impact(url, "--target", "value", "--json", *given)
        assert done.exit_code == 0, done.output
        settings = json.loads(done.output)["outcomes"][0]["settings"]
        assert settings["a"]["level"] == level


def test_a_study_with_values_of_zero_is_told_how_to_be_judged(tmp_path):
    url = _study_of(lambda t: t.suggest_int("a", 0, 3) / 10, tmp_path, direction="maximize")
    done = impact(url, "--target", "value")
    assert done.exit_code == 2
    remedy = ("--target", "duration_s", "--quality", "value")
    assert all(" ".join(remedy[i : i + 2]) in done.output for i in (0, 2))
    assert impact(url, *remedy).exit_code == 0


def test_a_parameter_of_a_study_is_not_suspected_to_be_a_result(tmp_path):
    url = _study_of(lambda t: 1 + t.suggest_float("lr", 0, 1) * t.suggest_int("a", 1, 2), tmp_path)
    done = impact(url, "--target", "value", "--json")
    assert done.exit_code == 0, done.output
    assert "skip it" not in done.output


def test_a_study_is_read_by_its_address(tmp_path):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    url = f"sqlite:///{tmp_path}/study.db"
    study = optuna.create_study(
        storage=url, study_name="s", sampler=optuna.samplers.GridSampler({"a": [1, 2], "b": [1, 2]})
    )
    study.optimize(lambda t: t.suggest_int("a", 1, 2) + 0.01 * t.suggest_int("b", 1, 2), 4)
    done = impact(url, "--target", "value", "--study", "s", "--json")
    assert done.exit_code == 0, done.output
    settings = json.loads(done.output)["outcomes"][0]["settings"]
    assert settings["a"]["level"] == "high"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--target", "tme_s"], "Did you mean 'time_s'"),
        ([], "--target"),
        (["--target", "time_s", "--levels", "time_s"], "--levels"),
        (["--target", "time_s", "--levels", "time_s=a,b"], "two numbers"),
        (["--target", "time_s", "--baseline", "cores=9", "--system", "cores", "--hyper", "depth"],
         "--baseline cores=9"),
        (["--target", "time_s", "--study", "s"], "--study"),
        (["--target", "time_s", "-o", "impact.doc"], ".doc"),
    ],
)  # fmt: skip
def test_bad_input_names_the_flag_and_the_remedy(runs, words, told):
    done = impact(runs, *words)
    assert done.exit_code == 2
    assert told in done.output


def test_sources_that_are_not_there_are_errors(tmp_path):
    for source in (f"sqlite:///{tmp_path}/none.db", tmp_path / "none.csv", tmp_path):
        done = impact(source, "--target", "time_s")
        assert done.exit_code == 2
        assert done.output.startswith("error: ")


def test_a_database_is_given_by_its_address(tmp_path):
    path = tmp_path / "study.db"
    study = optuna.create_study(storage=f"sqlite:///{path}")
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
    for words in ([], ["--study", study.study_name]):
        done = impact(path, "--target", "value", *words)
        assert done.exit_code == 2
        assert f"give its address: sqlite:///{path}" in done.output.replace("\n", " ")
