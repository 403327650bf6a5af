"""Studies of Optuna become tables of runs; a real SQLite storage."""

import contextlib
import sqlite3

import optuna
import pytest

import foretell
from foretell import DatasetError, UsageError
from foretell.adapters.optuna_study import read_optuna_study


def objective(trial):
    lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
    size = trial.suggest_categorical("batch", [16, 32, 64])
    trial.suggest_float("unused", 0, 1)
    trial.set_user_attr("accuracy", 0.9)
    if trial.number == 3:
        raise optuna.TrialPruned
    return 1 + abs(lr - 0.01) * 20 + 16 / size


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    url = f"sqlite:///{tmp_path_factory.mktemp('study')}/study.db"
    study = optuna.create_study(
        storage=url, study_name="search", sampler=optuna.samplers.RandomSampler(seed=0)
    )
    study.optimize(objective, n_trials=40)
    return url


def test_finished_trials_are_rows_of_parameters_and_results(url):
    found = read_optuna_study(url)
    assert len(found.frame) == 39
    (note,) = found.notes
    assert "1 of 40 trials left out" in note
    assert "pruned" in note
    assert set(found.frame.columns) == {"lr", "batch", "unused", "value", "duration_s", "accuracy"}
    assert {n for n, r in found.roles.items() if r == "parameter"} == {"lr", "batch", "unused"}
    best = found.frame["value"].idxmin()
    assert found.frame["value"][best] == pytest.approx(
        1 + abs(found.frame["lr"][best] - 0.01) * 20 + 16 / found.frame["batch"][best]
    )


def test_impact_of_a_study_knows_its_parameters(url):
    found = foretell.analyze_impact(read_optuna_study(url, "search"), "value")
    assert set(found.settings) == {"lr", "batch", "unused"}
    assert found.level("lr") == "high"
    assert found.level("unused") == "within noise"


def test_studies_that_are_not_there_are_named(url, tmp_path):
    with pytest.raises(UsageError, match="Did you mean 'search'"):
        read_optuna_study(url, "serch")
    with pytest.raises(UsageError, match=r"Did you mean .*study.db"):
        read_optuna_study(url.replace("study.db", "stud.db"))
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(UsageError, match="no file"):
        read_optuna_study(f"sqlite:///{tmp_path}/none.db")
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "text.db").write_text("no database")
    with pytest.raises(UsageError, match="cannot be read"):
        read_optuna_study(f"sqlite:///{tmp_path}/text.db")


def test_several_studies_and_empty_ones_say_what_to_do(tmp_path):
    url = f"sqlite:///{tmp_path}/two.db"
    for name in ("one", "two"):
        optuna.create_study(storage=url, study_name=name)
    with pytest.raises(UsageError, match="one, two"):
        read_optuna_study(url)
    with pytest.raises(DatasetError, match="no finished trial"):
        read_optuna_study(url, "one")


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_several_objectives_have_a_column_each(tmp_path):
    url = f"sqlite:///{tmp_path}/two.db"
    study = optuna.create_study(storage=url, directions=["minimize", "maximize"])
    study.set_metric_names(["time_s", "accuracy"])
    study.optimize(lambda t: (t.suggest_int("a", 1, 3), 0.5), n_trials=3)
    assert {"time_s", "accuracy"} <= set(read_optuna_study(url).frame.columns)


def test_python_knows_what_a_study_maximizes(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    grid = optuna.samplers.GridSampler({"a": [1, 2], "b": [1, 2]})
    study = optuna.create_study(storage=url, direction="maximize", sampler=grid)
    study.optimize(lambda t: t.suggest_int("a", 1, 2) + 0.01 * t.suggest_int("b", 1, 2), 4)
    found = foretell.analyze_impact(read_optuna_study(url), "value", system="b", hyper="a")
    assert not found.of().is_lower_better
    assert found.of().levels == (0.05, 0.01)
    assert [t.settings["a"] for t in found.tunings if t.kind == "joint"] == [2]


def test_none_is_a_level_of_a_parameter_like_any_other(tmp_path):
    def objective(trial):
        depth = trial.suggest_categorical("max_depth", [None, 5, 10])
        return 1 + (0 if depth is None else depth / 5) + 0.1 * trial.suggest_float("lr", 0, 1)

    url = f"sqlite:///{tmp_path}/study.db"
    study = optuna.create_study(storage=url, sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=40)
    found = foretell.analyze_impact(
        read_optuna_study(url), "value", hyper="max_depth", baseline={"max_depth": None}
    )
    assert found.level("max_depth") == "high"
    assert not any("max_depth" in note or "No model" in note for note in found.notes)
    assert found.tunings[0].settings["max_depth"] == "None"


def test_a_database_without_studies_is_not_changed(tmp_path):
    file = tmp_path / "app.db"
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("create table studies (title text)")
        database.commit()
    before = file.read_bytes()
    with pytest.raises(UsageError, match="no such table"):
        read_optuna_study(f"sqlite:///{file}")
    assert file.read_bytes() == before
    with pytest.raises(UsageError, match="no file"):
        read_optuna_study(f"sqlite:///{tmp_path}/none.db?timeout=5")
    assert not (tmp_path / "none.db").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["app.db"]


def test_an_address_may_have_options(url):
    assert len(read_optuna_study(f"{url}?timeout=5").frame) == 39
