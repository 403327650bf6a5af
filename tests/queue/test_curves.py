"""Curves of a report: at which load, of which arrivals, and without jobs that never came."""

import numpy as np
import pytest

from foretell.queue.choose import choose_drops
from foretell.queue.curves import against_drop, against_load, distributions, whole_load
from foretell.queue.played_plans import BySimulation
from foretell.report.queueing import write_queue_report

SERVICE = {"mean_s": 1.0, "scv": 1}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Check plans by few runs, and play few jobs."""
    for name, n in (("_RUNS_CHECKED", 20), ("_JOBS_CHECKED", 8_000),
                    ("_JOBS_PLAYED", 3_000)):  # fmt: skip
        monkeypatch.setattr(f"foretell.queue.choose.{name}", n)
    monkeypatch.setattr("foretell.queue.curves._N_LOADS", 4)


def bursts():
    """Return a queue whose jobs come in bursts: in one state almost as fast as they are done."""
    arrivals = {
        "kind": "mmap",
        "D0": [[-0.9001, 0.0001], [0.0001, -0.02]],
        "D1": [[0.8, 0], [0, 0.0179]],
        "D2": [[0.1, 0], [0, 0.002]],
    }
    tasks = {"tasks": 4, "map_s": 0.25, "map_scv": 1, "max_error": 0.2, "error": {0.5: 0.1}}
    return {"slots": 1, "arrivals": arrivals,
            "class": [{"name": "low", **tasks}, {"name": "high", "service": SERVICE}]}  # fmt: skip


def test_curves_of_bursts_are_simulated_and_it_is_said(tmp_path):
    found = choose_drops(bursts())
    lines = against_load(found)
    assert all(line.is_planned for line in lines)  # evictions of bursts are not known
    player = BySimulation(found.queue, n_jobs=10_000, seed=0)
    factor = lines[0].at[1] / whole_load(found)
    rates = [factor * c.rate_per_s for c in found.queue.classes]
    played = player.responses(rates, [found.chosen.options])[0]
    assert [line.values[1] for line in lines] == [r.p95_s for r in played]
    (curve,) = against_drop(found)
    rates = [c.rate_per_s for c in found.queue.classes]
    at = next(i for i, drop in enumerate(curve.lines[0].at) if drop == found.chosen.options[0].drop)
    played = player.responses(rates, [found.chosen.options])[0]
    assert [line.values[at] for line in curve.lines] == [r.p95_s for r in played]
    write_queue_report(found, tmp_path / "report.md")
    page = (tmp_path / "report.md").read_text()
    assert "not Poisson" in page
    assert found.today.trouble == "no formulas are known for these arrivals"
    assert "no end |" not in page.split("against load")[0]


def test_a_class_of_which_no_job_is_played_has_no_line_and_is_named(tmp_path):
    low = {"name": "low", "rate_per_s": 0.5, "service": SERVICE}
    rare = {"name": "rare", "rate_per_h": 0.005, "service": SERVICE}
    found = choose_drops({"class": [low, rare]})
    assert {line.name for line in distributions(found)} == {"low"}
    write_queue_report(found, tmp_path / "report.md")
    assert "No job of rare" in (tmp_path / "report.md").read_text()


def test_curves_of_today_know_how_long_the_engine_takes_to_make_way():
    low = {"name": "low", "rate_per_s": 0.2, "service": SERVICE, "evict_s": 3.0}
    high = {"name": "high", "rate_per_s": 0.3, "service": SERVICE}
    found = choose_drops({"discipline": "resume", "class": [low, high]})
    today = {line.name: line for line in distributions(found) if not line.is_planned}
    for figures in found.today.figures.classes:
        line = today[figures.name]
        assert np.interp(0.95, line.values, line.at) == pytest.approx(figures.p95_s, rel=0.05)


@pytest.mark.parametrize("discipline", ["repeat", "non-preemptive"])
def test_the_load_is_that_of_whole_jobs_that_do_not_sprint_whatever_the_file_does(discipline):
    low = {"name": "low", "rate_per_h": 1, "tasks": 10, "map_s": 100, "map_scv": 1, "drop": 0.5,
           "error": {"0.5": 0.1}, "max_error": 0.2, "sprint_after_s": 0}  # fmt: skip
    high = {"name": "high", "rate_per_h": 1, "service": SERVICE}
    queue = {"slots": 1, "discipline": discipline, "class": [low, high], "sprint": {"speedup": 2}}
    found = choose_drops(queue)
    assert whole_load(found) == pytest.approx(1001 / 3600)
    lines = [line for line in against_load(found) if not line.is_planned]
    now = np.interp(whole_load(found), lines[1].at, lines[1].values)
    assert now == pytest.approx(found.today.figures.classes[1].p95_s, rel=0.05)
