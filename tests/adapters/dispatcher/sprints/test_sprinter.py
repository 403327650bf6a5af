"""Sprints of real jobs: when they begin and end, what they cost, and that base comes back."""

import threading
import time

import pytest

from foretell.adapters.dispatcher.dispatcher import Dispatcher
from foretell.adapters.dispatcher.jobs import now
from foretell.adapters.dispatcher.status import Status, read_status
from foretell.adapters.dispatcher.store import records
from foretell.adapters.dispatcher.store.runs import read_rows

from ..conftest import await_that


class Sprinting:
    """A queue of one class that sprints by commands, which keep a log."""

    def __init__(self, folder):
        self.folder, self.log, self.events = folder, folder / "speed", []

    def open(self, after_s=0.0, *, on=None, **values):
        off = ["sh", "-c", f"echo off >> {self.log}"]
        on = on or ["sh", "-c", f"echo on >> {self.log}"]
        settings = {"on": on, "off": off}
        low = {"name": "low", "rate_per_s": 1, "service": {"mean_s": 1, "scv": 0}}
        low |= {} if after_s is None else {"sprint_after_s": after_s}
        sprint = {"mechanism": "command", "speedup": 2.0, "settings": settings, **values}
        return Dispatcher(
            {"class": [low], "sprint": sprint}, state=self.folder / "state", spool=None,
            tell=self.events.append,
        )  # fmt: skip

    def play(self, script, *more, **values):
        """Run scripts one after the other; return their rows."""
        with self.open(**values) as dispatcher:
            for text in (script, *more):
                dispatcher.submit({"class": "low", "run": ["sh", "-c", text]})
            dispatcher.run(until_empty=True)
        return list(read_rows(self.folder / "state" / "runs.csv"))

    @property
    def said(self):
        return [e.text for e in self.events if e.kind == "note"]


@pytest.fixture
def sprinting(tmp_path):
    return Sprinting(tmp_path)


def test_a_job_sprints_until_its_end_and_the_next_one_begins_slowly(sprinting):
    wait = f"until grep -q on {sprinting.log}; do sleep 0.005; done"
    first, second = sprinting.play(wait, f"cp {sprinting.log} {sprinting.log}.then", after_s=0.05)
    assert float(first["sprint_s"]) > 0
    assert (sprinting.folder / "speed.then").read_text().split() == ["on", "off"]
    assert float(second["sprint_s"]) <= float(second["wall_time_s"])
    assert sprinting.log.read_text().split()[-1] == "off"


def test_a_job_that_ends_before_its_time_does_not_sprint(sprinting):
    (row,) = sprinting.play("true", after_s=600.0)
    assert row["sprint_s"] == "0.0"
    assert "on" not in sprinting.log.read_text().split()


def test_a_sprint_ends_with_its_budget_and_the_job_goes_on(sprinting):
    wait = f"until grep -q off {sprinting.log}; do sleep 0.005; done"
    budget = {"base_w": 100, "sprint_w": 200, "budget_j": 10, "refill_w": 0}
    (row,) = sprinting.play(wait, **budget)
    assert [e.kind for e in sprinting.events if "sprint" in e.kind] == ["sprint", "sprint_over"]
    assert 0.09 < float(row["sprint_s"]) < 1.1  # 10 J at 100 W, and at most a second more
    assert row["status"] == "ok"


def test_an_empty_budget_is_still_empty_after_a_restart(sprinting):
    wait = f"until grep -q off {sprinting.log}; do sleep 0.005; done"
    budget = {"base_w": 100, "sprint_w": 200, "budget_j": 10, "refill_w": 1e-6}
    sprinting.play(wait, **budget)
    sprinting.log.unlink()
    *_, row = sprinting.play("true", **budget)
    assert row["sprint_s"] == "0.0"
    with sprinting.open(**budget) as dispatcher:
        assert dispatcher.status().budget_j < 1


def test_sprints_that_do_not_work_are_said_once_and_jobs_run_without_them(sprinting):
    on = ["sh", "-c", "echo no right >&2; exit 1"]
    rows = sprinting.play("sleep 0.05", "sleep 0.05", "sleep 0.05", on=on)
    assert [row["status"] for row in rows] == ["ok"] * 3
    (said,) = sprinting.said
    assert "no right" in said


def test_a_mechanism_that_a_machine_lacks_is_said_once(tmp_path, monkeypatch):
    monkeypatch.setattr("foretell.adapters.dispatcher.sprints.cpufreq.ROOT", tmp_path / "none")
    events = []
    low = {"name": "low", "rate_per_s": 1, "service": {"mean_s": 1, "scv": 0},
           "sprint_after_s": 0}  # fmt: skip
    queue = {"class": [low], "sprint": {"mechanism": "cpufreq", "speedup": 2}}
    with Dispatcher(queue, state=tmp_path / "state", spool=None, tell=events.append) as found:
        for _ in range(2):
            found.submit({"class": "low", "run": ["true"]})
        found.run(until_empty=True)
    assert [e.text for e in events if e.kind == "note"] == [
        "no sprints: this machine does not let its frequency be set (there is no cpufreq)"
    ]
    assert [e.kind for e in events if e.kind == "done"] == ["done"] * 2


def test_a_preempted_sprint_ends(sprinting, tmp_path):
    low = {"name": "low", "rate_per_s": 1, "service": {"mean_s": 1, "scv": 0}}
    off, on = (["sh", "-c", f"echo {w} >> {sprinting.log}"] for w in ("off", "on"))
    sprint = {"mechanism": "command", "speedup": 2, "settings": {"on": on, "off": off}}
    queue = {"class": [{**low, "sprint_after_s": 0}, {**low, "name": "high"}],
             "discipline": "repeat", "sprint": sprint}  # fmt: skip
    begun = tmp_path / "begun"

    def tell(event):
        if event.kind == "sprint" and not begun.exists():
            begun.touch()
            run = ["sh", "-c", f"cp {sprinting.log} {tmp_path}/then"]
            dispatcher.submit({"class": "high", "run": run})

    with Dispatcher(queue, state=tmp_path / "state", spool=None, tell=tell) as dispatcher:
        script = f"test -e {tmp_path}/then || sleep 600"
        dispatcher.submit({"class": "low", "run": ["sh", "-c", script]})
        began = time.monotonic()
        dispatcher.run(until_empty=True)
        assert time.monotonic() - began < 500
    assert (tmp_path / "then").read_text().split() == ["on", "off"]


def test_the_time_before_a_pause_counts_towards_the_sprint(sprinting, tmp_path):
    low = {"name": "low", "rate_per_s": 1, "service": {"mean_s": 1, "scv": 0}}
    sprint = {"mechanism": "command", "speedup": 2, "settings": {"on": ["true"], "off": ["true"]}}
    queue = {"class": [{**low, "sprint_after_s": 100.0}, {**low, "name": "high"}],
             "discipline": "resume", "sprint": sprint}  # fmt: skip
    begun = tmp_path / "begun"

    def tell(event):
        sprinting.events.append(event)
        if event.kind == "resumed":
            asked.append(dispatcher._sprinter.deadline - time.monotonic())
            (tmp_path / "may-end").touch()

    asked = []
    with Dispatcher(queue, state=tmp_path / "state", spool=None, tell=tell) as dispatcher:
        script = f"touch {begun}; until test -e {tmp_path}/may-end; do sleep 0.01; done"
        dispatcher.submit({"class": "low", "run": ["sh", "-c", script]})
        thread = threading.Thread(target=dispatcher.run, kwargs={"until_empty": True})
        thread.start()
        await_that(begun.exists)
        time.sleep(0.3)  # time in the engine is the point here
        dispatcher.submit({"class": "high", "run": ["true"]})
        thread.join()
    assert len(asked) == 1
    assert asked[0] < 99.75


def test_a_sprint_that_a_crash_cut_short_is_paid_for_once(sprinting):
    budget = {"base_w": 100, "sprint_w": 1100, "budget_j": 1000, "refill_w": 0}
    with sprinting.open(**budget) as dispatcher:  # as if it was killed 0.5 s after a sprint began
        dispatcher._ledger.write([records.budget(now() - 0.5, 1000.0, is_sprinting=True)])
    with sprinting.open(**budget) as dispatcher:
        level_j = dispatcher.status().budget_j
        assert 0 < level_j < 501
        time.sleep(0.1)
    for _ in range(2):
        with sprinting.open(**budget) as dispatcher:
            assert dispatcher.status().budget_j == pytest.approx(level_j)


def test_the_folders_tell_of_a_sprint_and_its_budget_while_a_dispatcher_runs(sprinting):
    budget = {"base_w": 100, "sprint_w": 1100, "budget_j": 1000, "refill_w": 0}

    def read(dispatcher):
        return read_status(dispatcher.queue, sprinting.folder / "state", sprinting.folder / "jobs")

    with sprinting.open(**budget) as dispatcher:
        dispatcher._ledger.write([records.budget(now(), 600.0, is_sprinting=True)])
        found = read(dispatcher)
        assert found.is_sprinting
        assert 0 < found.budget_j <= 600
        assert found.lost is None  # only the dispatcher knows
    assert read(dispatcher).is_sprinting is False
    with sprinting.open(base_w=100, sprint_w=1100) as dispatcher:  # without a limit
        dispatcher._ledger.state.budget = None
        assert read(dispatcher).to_json()["budget_j"] is None


def test_a_class_that_would_sprint_without_a_mechanism_is_told_of_once(sprinting):
    sprinting.play("true", "true", mechanism="none", settings={})
    (said,) = [text for text in sprinting.said if "sprint" in text]
    assert "low has sprint_after_s" in said
    assert '"quota"' in said


def test_nothing_is_said_of_sprints_where_no_class_has_any(sprinting):
    sprinting.play("true", mechanism="none", settings={}, after_s=None)
    assert not sprinting.said


def test_a_budget_that_was_overspent_by_the_switching_is_told_as_empty():
    assert "Sprint budget: 0 J." in str(Status([], None, budget_j=-1.7))
