"""Proposed runs as a sweep file."""

from __future__ import annotations

import tomllib

import pytest

from foretell.decide.advise.next_sweep import next_sweep, sweep_toml
from foretell.errors import UsageError


def test_a_sweep_of_proposed_runs_keeps_the_job_and_lists_the_runs():
    sweep = {
        "workload": {"use": "command", "run": "true"}, "time_limit_s": 5.0, "repeats": 3,
        "parameters": {"lines": {"from": 1, "to": 8, "factor": 2}, "epochs": 1, "mode": ["x"]},
        "design": {"method": "latin", "n": 5}, "derive": {"half": "lines / 2"},
    }  # fmt: skip
    found = next_sweep(sweep, [{"lines": 3, "half": 1.5}, {"lines": 4, "half": 2.0, "mode": "z"}])
    assert found["workload"] == sweep["workload"]
    assert found["time_limit_s"] == 5.0
    assert found["parameters"] == {"epochs": 1}
    assert found["configurations"] == [{"lines": 3, "mode": "x"}, {"lines": 4, "mode": "z"}]
    assert not {"repeats", "design"} & set(found)
    with pytest.raises(UsageError, match="several values of 'lines'"):
        next_sweep(sweep, [{"epochs": 1}])


def test_the_same_runs_proposed_later_are_another_sweep():
    sweep = {"workload": {"use": "command", "run": "true"}, "parameters": {"n": [1, 2]}}
    runs = [{"n": 1}]
    assert "seed" not in next_sweep(sweep, runs)
    assert next_sweep(sweep, runs, 7)["seed"] == 7


def test_a_written_sweep_is_read_back_with_its_remark_as_comment():
    sweep = next_sweep({"workload": {"use": "command", "run": 'echo "{n}"'}}, [])
    text = sweep_toml(sweep, "one\ntwo")
    assert text.startswith("# one\n# two\n")
    assert tomllib.loads(text) == sweep
