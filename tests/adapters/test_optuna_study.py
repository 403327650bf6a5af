"""Studies of Optuna become tables of runs; a real SQLite storage."""

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
    assert len(found.frame) == 39  # one was pruned
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
