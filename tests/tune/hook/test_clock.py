"""What other trainings and other programs used, as the clock tells them apart."""

import multiprocessing
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil

from foretell.tune.hook.clock import Clock

#: A training whose loader worker computes.
TRAINING = """
import subprocess, sys
worker = subprocess.Popen([sys.executable, "-c", "while True: pass"])
print(worker.pid, flush=True)
sys.stdin.read()
worker.kill()
worker.wait()
"""


class Trainings:
    """A store in which one other training is noted."""

    def __init__(self, process):
        self.process = process

    def trainings(self):
        return [(self.process.pid, self.process.create_time())]


def test_loader_workers_of_another_training_do_not_count_as_other_programs(monkeypatch):
    with subprocess.Popen(
        [sys.executable, "-c", TRAINING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as training:
        worker = psutil.Process(int(training.stdout.readline()))
        all_of_them = [psutil.Process(), psutil.Process(training.pid), worker]
        fields = psutil.cpu_times()

        def only_they_compute():
            used = [process.cpu_times() for process in all_of_them]
            return fields._make([sum(t.user + t.system for t in used)] + [0.0] * (len(fields) - 1))

        monkeypatch.setattr(psutil, "cpu_times", only_they_compute)
        clock = Clock(Trainings(all_of_them[1]))
        clock.start()
        before_s = worker.cpu_times().user
        while worker.cpu_times().user < before_s + 0.3:
            time.sleep(0.02)
        measured = clock.read()
        training.stdin.close()
    assert measured.n_siblings == 1
    assert measured.load_others * measured.epoch_s < 0.15


class Child:
    """A process that a training has started."""

    def __init__(self, pid, parent):
        self.pid, self.parent, self.n_asked = pid, parent, 0

    def ppid(self):
        self.n_asked += 1
        return self.parent

    def cpu_times(self):
        return psutil.Process().cpu_times()


def test_each_process_is_asked_for_its_parent_once(monkeypatch):
    training = psutil.Process().parent()
    worker = Child(10**9, training.pid)
    grandchild = Child(10**9 + 1, worker.pid)
    processes = [worker]
    monkeypatch.setattr(psutil, "process_iter", lambda: iter(processes))
    clock = Clock(Trainings(training))
    clock.start()
    processes.append(grandchild)
    clock.read()
    assert (worker.n_asked, grandchild.n_asked) == (1, 1)


def test_all_processes_are_looked_through_once_in_an_epoch(monkeypatch):
    looks = []
    monkeypatch.setattr(psutil, "process_iter", lambda: iter(looks.append(1) or ()))
    monkeypatch.setattr("foretell.tune.hook.clock._JUST_NOW_S", 1e9)  # however slow this machine is
    clock = Clock(Trainings(psutil.Process().parent()))
    clock.start()
    for epoch in range(3):
        clock.read()  # before the search hears of it
        clock.read()
        assert len(looks) == epoch + 2
        clock.start()
    assert len(looks) == 4
    monkeypatch.setattr("foretell.tune.hook.clock._JUST_NOW_S", 0.0)  # it was long ago
    clock.read()
    assert len(looks) == 5
    clock.read()
    clock.start()
    assert len(looks) == 7


class Alone:
    """A store in which no other training is noted."""

    def trainings(self):
        return []


def test_a_process_of_the_training_may_end_while_it_is_looked_at(monkeypatch):
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    monkeypatch.setattr(psutil, "pid_exists", lambda pid: True)  # it did a moment ago
    monkeypatch.setattr(
        multiprocessing, "active_children", lambda: [SimpleNamespace(pid=ended.pid)]
    )
    clock = Clock(Alone())
    clock.start()
    assert clock.read().n_siblings == 0
