"""Results of Ray Tune become tables of runs; a real experiment."""

import json

import pytest

import foretell
from foretell import DatasetError
from foretell.adapters.ray_results import is_ray_folder, read_ray_results

ray = pytest.importorskip("ray")
tune = pytest.importorskip("ray.tune")


def train(config):
    for step in (1, 0):
        tune.report({"loss": config["lr"] * config["net"]["width"] + step, "cost_s": 1.0 + step})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        tuner = tune.Tuner(
            train,
            param_space={
                "lr": tune.grid_search([0.1, 1.0]),
                "net": {"width": tune.grid_search([1, 2])},
            },
            run_config=tune.RunConfig(name="search", storage_path=str(place), verbose=0),
        )
        tuner.fit()
    finally:
        ray.shutdown()
    return place / "search"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_trials_are_rows_with_their_settings_and_last_report(folder):
    assert is_ray_folder(folder)
    found = read_ray_results(folder)
    frame = found.frame
    assert len(frame) == 4
    assert {n for n, r in found.roles.items() if r == "parameter"} == {"lr", "net/width"}
    assert (frame["loss"] == frame["lr"] * frame["net/width"]).all()
    assert (frame["training_iteration"] == 2).all()
    assert {"time_total_s", "cost_s"} <= set(frame.columns)
    told = foretell.analyze_impact(found, "loss")
    assert set(told.settings) == {"lr", "net/width"}
    assert told.level("lr") == "high"


def test_folders_without_results_say_so(tmp_path):
    with pytest.raises(DatasetError, match="no folder"):
        read_ray_results(tmp_path / "none")
    with pytest.raises(DatasetError, match="no results of Ray Tune"):
        read_ray_results(tmp_path)
    assert not is_ray_folder(tmp_path)


def test_a_trial_that_was_killed_counts_with_its_last_whole_report(tmp_path):
    trial = tmp_path / "trial"
    trial.mkdir()
    (trial / "result.json").write_text('{"config": {"lr": 1}, "loss": 2.0}\n{"config": {"lr"')
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "result.json").write_text("")
    found = read_ray_results(tmp_path)
    assert found.frame.to_dict("records") == [{"lr": 1, "loss": 2.0}]


def write_trials(folder, *reports):
    for i, report in enumerate(reports):
        (folder / f"trial-{i}").mkdir()
        (folder / f"trial-{i}" / "result.json").write_text(json.dumps(report))


def test_settings_that_are_lists_or_null_are_levels(tmp_path):
    configs = [{"hidden": h, "depth": d} for h in ([64], [64, 64]) for d in (None, 5)]
    write_trials(
        tmp_path, *({"config": c, "loss": 1.0 + len(c["hidden"]), "curve": [1]} for c in configs)
    )
    found = read_ray_results(tmp_path)
    assert set(found.columns) == {"hidden", "depth", "loss"}
    assert set(found.frame["hidden"]) == {"[64]", "[64, 64]"}
    assert set(found.frame["depth"]) == {"None", 5}
    told = foretell.analyze_impact(found, "loss")
    assert told.n_configurations == 4
    assert told.level("hidden") == "high"


def test_trials_that_ended_early_are_noted(tmp_path):
    reports = [
        {
            "config": {"lr": i},
            "training_iteration": n,
            "time_total_s": 2.0 * n,
            "time_this_iter_s": 2,
        }
        for i, n in enumerate([1, 9, 27, 27])
    ]
    write_trials(tmp_path, *reports)
    found = read_ray_results(tmp_path)
    (note,) = found.notes
    assert note.startswith("2 of 4 trials ended early: after 1 to 9 of 27 iterations")
    assert "time_this_iter_s" in note
    assert note in foretell.analyze_impact(found, "time_total_s").notes
    whole = found.take((found.frame["training_iteration"] == 27).to_numpy())
    assert len(whole.frame) == 2
    assert not whole.notes


def test_trials_of_equal_length_need_no_note(tmp_path):
    write_trials(tmp_path, *({"config": {"lr": i}, "training_iteration": 3} for i in range(2)))
    assert not read_ray_results(tmp_path).notes
