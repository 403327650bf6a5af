"""results.json: what is written is read again, and anything else is refused."""

from __future__ import annotations

import json

import pytest

from foretell.errors import ModelError
from foretell.model.results.schema import Results, read_results

SPREAD = {"mean": 0.1, "spread": None}
RESULTS = {
    "format": 2,
    "foretell": "0.2.0",
    "versions": {"python": "3.11.0"},
    "kind": "campaign",
    "best": "LRRidge",
    "seed": 3,
    "data": {
        "name": "runs.csv", "target": "time_s", "n_rows": 12, "n_used": 12, "columns": ["nodes"],
        "n_features": 2, "n_configurations": 4, "noise": None,
    },
    "search_cut_by_time_limit": False,
    "notes": [],
    "warnings": [],
    "leaderboard": [
        {
            "technique": "LRRidge", "status": "ok", "hyperparameters": {"alpha": 0.1},
            "errors": {"inside": 0.1}, "validation": {"mape": SPREAD},
            "splits": [
                {
                    "run": 0, "split": 1, "hyperparameters": {}, "selection_error": 0.2,
                    "training": {"mape": 0.1}, "validation": None, "reason": "it failed",
                },
            ],
        },
        {"technique": "SVR", "status": "failed", "reason": "it failed"},
    ],
    "trials": [
        {
            "split": "0.0", "technique": "LRRidge", "hyperparameters": {"alpha": 0.1},
            "status": "ok", "error": 0.1, "folds": [{"mape": 0.1}], "reason": None,
        },
    ],
    "explanation": {
        "law": None, "formula": None, "law_explains": None, "shares": {"nodes": 1.0},
        "totals": [["nodes", "size"]],
        "cliffs": [{"product": "nodes × gb", "value": 30.0, "factor": 0.5}],
        "plateaus": [{"column": "nodes", "value": 8}],
    },
    "reaches": {"nodes": [1.0, 2.0]},
    "times": {"total_s": 1.5, "fit_s": {"LRRidge": 0.1}},
}  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.json"


def changed(*steps, to):
    """Return the results with one value changed."""
    results = json.loads(json.dumps(RESULTS))
    *parents, last = steps
    found = results
    for step in parents:
        found = found[step]
    found[last] = to
    return results


def test_what_is_written_is_read_again(path):
    results = Results.model_validate(RESULTS)
    path.write_text(results.to_text())
    assert read_results(path) == results
    assert read_results(path).to_json() == json.loads(path.read_text())


def test_every_value_of_the_file_is_kept(path):
    path.write_text(json.dumps(RESULTS))
    found = read_results(path).to_json()

    def holds(whole, part):
        if isinstance(part, dict):
            return all(holds(whole[key], value) for key, value in part.items())
        if isinstance(part, list):
            return all(holds(w, p) for w, p in zip(whole, part, strict=True))
        return whole == part

    assert holds(found, RESULTS)


def test_fields_are_read_as_attributes_and_as_keys(path):
    results = Results.model_validate(RESULTS)
    assert results["leaderboard"][0]["errors"] == results.leaderboard[0].errors == {"inside": 0.1}
    with pytest.raises(KeyError, match="to_json"):
        results["to_json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"format": 2, "best": "\\ud800"}', "best|JSON|foretell"),
        ("[1]", "has no format"),
        ('{"format": true}', "has no format"),
        ('{"format": 99}', "format 99; this foretell reads format 2. Upgrade"),
        ('{"format": 1}', "foretell 0.1.0 wrote.*Fit again"),
        ('{"format": 2}', "is required and missing"),
    ],
)
def test_other_files_are_refused(path, content, message):
    path.write_text(content)
    with pytest.raises(ModelError, match=message):
        read_results(path)


@pytest.mark.parametrize(
    ("steps", "value"),
    [
        (("leaderboard",), []),
        (("leaderboard", 0, "technique"), 3),
        (("leaderboard", 0, "status"), "fine"),
        (("leaderboard", 0, "errors", "inside"), "0.1"),
        (("leaderboard", 0, "errors", "inside"), float("inf")),
        (("data", "n_configurations"), 0),
        (("data", "n_rows"), 10**30),
        (("data", "target"), None),
        (("times", "total_s"), float("nan")),
        (("reaches", "nodes"), [1.0]),
        (("kind",), "other"),
    ],
)
def test_wrong_value_is_refused_with_its_place(path, steps, value):
    path.write_text(json.dumps(changed(*steps, to=value)))
    place = str(steps[-1]) if not isinstance(steps[-1], int) else str(steps[0])
    with pytest.raises(ModelError, match=place):
        read_results(path)


def test_best_that_is_not_a_model_of_the_leaderboard_is_refused(path):
    for name in ("SVR", "../../secret"):
        path.write_text(json.dumps(changed("best", to=name)))
        with pytest.raises(ModelError, match="best must be a model of the leaderboard"):
            read_results(path)


def test_unknown_key_is_refused(path):
    path.write_text(json.dumps({**RESULTS, "mode": "automatic"}))
    with pytest.raises(ModelError, match="mode"):
        read_results(path)


def test_large_files_and_devices_are_not_read(path, tmp_path):
    with path.open("wb") as file:
        file.truncate(100_000_001)
    with pytest.raises(ModelError, match="more than 100,000,000 bytes"):
        read_results(path)
    (tmp_path / "endless").symlink_to("/dev/zero")
    with pytest.raises(ModelError, match="is not a file"):
        read_results(tmp_path / "endless")
