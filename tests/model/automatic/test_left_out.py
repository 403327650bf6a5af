"""Columns that no model should learn from."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.dataset import Dataset
from foretell.model.automatic.left_out import left_out

N = 24


def found(**columns):
    frame = pd.DataFrame({"nodes": np.arange(N) % 4 + 1, **columns, "time_s": np.ones(N)})
    return left_out(Dataset(frame, "runs.csv"), "time_s")


@pytest.mark.parametrize("name", ["Unnamed: 0", "index", "id", "run_id", "Row", "job id", "ID"])
@pytest.mark.parametrize("first", [0, 1, 100])
def test_a_column_that_numbers_the_rows_is_found_in_any_order(name, first):
    numbers = np.random.default_rng(0).permutation(N) + first
    notes = found(**{name: numbers})
    assert list(notes) == [name]
    assert f"'{name}'" in notes[name] and f"{N} rows" in notes[name]


@pytest.mark.parametrize("name", ["id", "job_id", "JobID", "jobId", "pid", "slurm.uid"])
def test_a_column_of_identifiers_with_gaps_is_found(name):
    numbers = np.random.default_rng(0).choice(10**6, N, replace=False)
    notes = found(**{name: numbers})
    assert list(notes) == [name]
    assert "identifier" in notes[name] and f"{N} rows" in notes[name]


@pytest.mark.parametrize(
    "column",
    [
        {"size": np.arange(N)},  # by its name, a quantity
        {"number": np.arange(N)},
        {"id": np.arange(N) / 10},  # not whole
        {"run": np.arange(N) * 10},  # by its name, maybe a quantity
        {"valid": np.arange(N) * 10},
        {"liquid_grid": np.arange(N) * 10},
        {"id": np.arange(N) // 2},  # two rows each
        {"grid": np.arange(N)},
    ],
    ids=lambda column: f"{next(iter(column))} {next(iter(column.values()))[:3]}",
)
def test_a_number_that_may_matter_is_kept(column):
    assert found(**column) == {}


def test_text_with_a_value_of_its_own_in_most_rows_is_found_and_counted():
    names = [f"job-{i // 2}" if i < 8 else f"job-{i}" for i in range(N)]
    notes = found(job=names)
    assert "20 different values in 24 rows" in notes["job"]
    assert found(job=[f"job-{i % 12}" for i in range(N)]) == {}


def test_outcomes_of_a_run_are_found_and_other_columns_kept():
    notes = found(energy_j=np.ones(N), cpu_time_s=np.ones(N), data_s=np.ones(N))
    assert list(notes) == ["energy_j", "cpu_time_s"]
    assert "'energy_j'" in notes["energy_j"] and "after a run" in notes["energy_j"]


def test_a_time_is_an_outcome_where_the_energy_is_the_target():
    frame = pd.DataFrame({"nodes": [1, 2], "time_s": [2.0, 1.0], "energy_j": [1.0, 2.0]})
    assert list(left_out(Dataset(frame, "runs.csv"), "energy_j")) == ["time_s"]


def test_the_only_column_is_kept_even_if_it_is_an_outcome():
    frame = pd.DataFrame({"time_s": [2.0, 1.0], "energy_j": [1.0, 2.0]})
    assert left_out(Dataset(frame, "runs.csv"), "energy_j") == {}


def test_an_outcome_is_left_out_of_a_fit_unless_it_is_named():
    frame = pd.DataFrame({"nodes": np.tile([1, 2, 4, 8], 3)})
    frame["time_s"] = 80 / frame["nodes"] + 5
    frame["energy_j"] = 100 * frame["time_s"]
    fitted = foretell.fit_model(frame, target="time_s", time_limit_s=3)
    assert fitted.best.columns == ["nodes"]
    assert any("'energy_j'" in note for note in fitted.results.notes)
    kept = foretell.fit_model(frame, target="time_s", use=["energy_j", "nodes"], time_limit_s=3)
    assert kept.best.columns == ["energy_j", "nodes"]


def test_the_only_column_is_kept():
    frame = pd.DataFrame({"id": np.arange(N), "time_s": np.ones(N)})
    assert left_out(Dataset(frame, "runs.csv"), "time_s") == {}


def test_an_index_is_left_out_of_a_fit_unless_it_is_named():
    frame = pd.DataFrame({"id": np.arange(12), "nodes": np.tile([1, 2, 4, 8], 3)})
    frame["time_s"] = 80 / frame["nodes"] + 5
    fitted = foretell.fit_model(frame, target="time_s", time_limit_s=3)
    assert fitted.best.columns == ["nodes"]
    assert any("'id'" in note for note in fitted.results.notes)
    kept = foretell.fit_model(frame, target="time_s", use=["id", "nodes"], time_limit_s=3)
    assert kept.best.columns == ["id", "nodes"]


@pytest.mark.parametrize("n_rows", [4, 10, 30])
@pytest.mark.parametrize("constant", [{}, {"nodes": 4}])
def test_nothing_shared_is_noted_from_few_runs_and_beside_a_constant(n_rows, constant):
    names = [f"job-{'abcdefghij'[i % 10]}{i}" for i in range(n_rows)]
    times = np.random.default_rng(0).uniform(10, 20, n_rows)
    frame = pd.DataFrame({"job": names, "host": names[::-1], **constant, "time_s": times})
    fit = foretell.fit_model(frame, target="time_s")
    assert any("nothing in common" in note for note in fit.results.notes)
    shared = frame.assign(size=np.arange(n_rows) % 3)
    fit = foretell.fit_model(shared, target="time_s")
    assert not any("nothing in common" in note for note in fit.results.notes)


def test_nothing_shared_is_noted_beside_an_outcome_that_is_left_out():
    names = [f"run-{i}" for i in range(30)]
    frame = pd.DataFrame(
        {"job": names, "energy_j": np.arange(30) + 5.0, "time_s": np.arange(30) + 1.0}
    )
    fit = foretell.fit_model(frame, target="time_s")
    assert any("nothing in common" in note for note in fit.results.notes)
