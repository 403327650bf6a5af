"""What others use of the machine of a search: all that Ray started is its own."""

from types import SimpleNamespace

import pytest

from foretell.tune.ray import others


class Process:
    def __init__(self, pid):
        self.pid, self.used_s, self.waited_s = pid, 0.0, 0.0

    def create_time(self):
        return 1.0

    def cpu_times(self):
        return SimpleNamespace(
            user=self.used_s, system=0.0, children_user=self.waited_s, children_system=0.0
        )


def test_processes_of_the_search_come_and_go_and_count_as_its_own(monkeypatch):
    busy, driver, trial = [100.0], Process(1), Process(2)
    family = [driver]
    monkeypatch.setattr(others, "busy_s", lambda: busy[0])
    monkeypatch.setattr(others, "_family", lambda pid: family)
    watch = others.Others()
    driver.used_s = 30.0
    assert watch.since("t", 2, 10.0) == 0.0  # nothing is known of what was before
    driver.used_s, trial.used_s, busy[0] = 31.0, 5.0, 110.0
    family.append(trial)
    assert watch.since("t", 2, 10.0) == pytest.approx(0.4)  # 10 s less 1 s and 5 s
    family.remove(trial)
    busy[0] = 112.0
    assert watch.since("t", None, 10.0) == pytest.approx(0.2)
    assert watch.since("t", None, 10.0) == 0.0


def test_loader_workers_that_end_within_an_epoch_count_as_its_own(monkeypatch):
    busy, trial, worker = [100.0], Process(2), Process(3)
    family = [trial]
    monkeypatch.setattr(others, "busy_s", lambda: busy[0])
    monkeypatch.setattr(others, "_family", lambda pid: family)
    watch = others.Others()
    watch.since("t", 2, 10.0)
    trial.waited_s, busy[0] = 8.0, 110.0  # a worker came and went unseen
    assert watch.since("t", 2, 10.0) == pytest.approx(0.2)
    worker.used_s, busy[0] = 3.0, 113.0
    family.append(worker)
    assert watch.since("t", 2, 10.0) == 0.0
    family.remove(worker)
    trial.waited_s, busy[0] = 13.0, 116.0  # this one used 5 s, of which 3 s were seen
    assert watch.since("t", 2, 10.0) == pytest.approx(0.1)


def test_this_machine_can_be_watched():
    watch = others.Others()
    watch.since("t", None, 0.01)
    assert 0.0 <= watch.since("t", None, 0.01) < 1000.0
