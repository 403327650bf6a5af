"""The public surface: which names there are, and how little importing it costs."""

import subprocess
import sys

import pytest

import foretell


def test_every_public_name_is_there():
    other = {"AutomaticFit": "Fit"}  # its name in 0.1.0
    for name in foretell.__all__:
        assert getattr(foretell, name).__name__ == other.get(name, name)


def test_public_names_are_those_we_promise():
    assert set(foretell.__all__) == {
        "Advice", "AutomaticFit", "Campaign", "Dataset", "DatasetError", "Dispatcher", "Fit",
        "Forecast",
        "ForetellError", "ForetellRegressor", "Learned", "Maintained", "ModelError",
        "NothingUsableError",
        "Placement", "Plan", "Predictor", "QueueChoice", "QueuePrediction", "SavedModel", "Score",
        "Probe", "ProbeOptions", "write_probes",
        "Simulation", "StorageError",
        "UsageError", "advise", "choose_drops", "Impact", "analyze_impact", "read_optuna_study",
        "read_ray_results",
        "Deployable", "Deployment", "choose_deployment",
        "hand_off_deployment",
        "Estimate", "estimate_count", "estimate_sum", "kept_partitions", "learn_queue",
        "prune_partitions",
        "fit_model", "hand_off_placement", "learn_plan", "load_model", "load_models",
        "maintain_models", "make_plan",
        "measure_sweep", "place_task", "predict_queue", "read_dataset", "score_model",
        "simulate_cluster", "write_report",
        "Grouping", "Profile", "Together", "group_jobs", "predict_together", "profile_job",
        "read_profile", "slowdown", "write_profile", "measure_machine", "measure_co_runs",
        "fit_co_runs", "score_co_runs",
    }  # fmt: skip


@pytest.mark.parametrize(("package", "name"), [("tune", "pipeline"), ("tasks", "foresee")])
def test_packages_are_there_without_an_import_of_their_own(package, name):
    seen = f"foretell.{package}.{name}.__name__, {package!r} in dir(foretell)"
    code = f"import foretell; print({seen})"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert shown.split() == [name, "True"]


def test_unknown_name_is_an_attribute_error():
    assert not hasattr(foretell, "fit_modle")


def modules_loaded_by(code: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {name.split(".")[0] for name in shown.stdout.split()}


HEAVY = {"numpy", "pandas", "scipy", "sklearn", "xgboost", "optuna", "pydantic", "rich"}


def test_importing_foretell_loads_nothing_heavy():
    assert not modules_loaded_by("import foretell") & HEAVY


def test_help_loads_nothing_heavy():
    code = """
from click.testing import CliRunner
from foretell.cli._main import cli
assert CliRunner().invoke(cli, ["--help"]).exit_code == 0
"""
    assert not modules_loaded_by(code) & HEAVY


def test_predicting_with_a_linear_model_needs_no_boosting_library(tmp_path):
    code = f"""
import pandas as pd
import foretell
runs = pd.DataFrame({{"n": [1.0, 2, 3, 4, 5, 6], "t": [2.0, 4, 6, 8, 10, 12.5]}})
campaign = {{"data": {{"target": "t"}}, "techniques": {{"LRRidge": {{"alpha": 0.1}}}},
            "search": {{"splits": {{"method": "KFold", "folds": 2}}}}}}
foretell.fit_model(campaign, runs, output={str(tmp_path / "out")!r})
"""
    assert not modules_loaded_by(code) & {"xgboost", "optuna"}
