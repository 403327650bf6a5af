"""Forecasts of task graphs: from programs that are built and not run, and from traces."""

import threading
import time
from types import SimpleNamespace

import dask
import dask.array
import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.errors import UsageError
from foretell.simulate.graph import Overhead
from foretell.tasks import Graph, foresee, task
from foretell.tasks.forecast.times import measure_overhead
from foretell.tasks.trace import rows_of_dask

ran = []


@task(reads="a", writes="b", size="size", label="step")
def step(a, b, size):
    ran.append(1)


def chains(n: int = 4, length: int = 3, size: float = 1.0):
    """Submit chains that are independent of one another."""
    with Graph(workers=2) as g:
        for i in range(n):
            for k in range(length):
                step(f"{i} {k}", f"{i} {k + 1}", size)
        g.wait()
    g.trace("never.csv")


class Seconds:
    """A model: as many seconds as a task has size, and off by some share."""

    target, columns = "time_s", ["label", "size"]
    ranges, categories, has_intervals = {"size": (1.0, 8.0)}, {"label": ["step"]}, True

    def __init__(self, off=1.0):
        self.off = off

    def predict(self, frame):
        return frame["size"].to_numpy(float)

    def forecast(self, frame, interval=0.9):
        raise NotImplementedError

    def outside(self, frame):
        raise NotImplementedError

    def outlook(self, frame, probabilities):
        value = self.predict(frame)
        ends = np.column_stack([value / self.off, value * self.off])
        from foretell.predictor import Outlook, Quantiles

        trust = np.where(value <= 8, "inside", "far").astype(object)
        return Outlook(value, Quantiles(tuple(probabilities), ends), trust)


def test_graph_is_built_without_running_bodies_or_writing_traces(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran.clear()
    found = foresee(chains, model=Seconds(), workers=[1, 2, 4, 8], overhead_s=0.0)
    assert ran == []
    assert not list(tmp_path.iterdir())
    times = {cell.workers: cell.makespan_s for cell in found.cells}
    assert times == {1: 12.0, 2: 6.0, 4: 3.0, 8: 3.0}
    assert found.best.workers == 4
    assert found.helps_to == 4
    assert found.best.critical_path_s == 3.0
    assert "beyond 4 workers" in str(found)


def test_best_settings_are_those_with_the_shortest_makespan():
    # Chunks of 12 seconds of work on 2 workers: few large ones do not divide, many cost overhead.
    def work(n: int):
        with Graph():
            for k in range(n):
                step("x", f"{k}", 12 / n)

    found = foresee(work, model=Seconds(), workers=2, vary={"n": [1, 2, 3, 12]}, overhead_s=0.01)
    assert found.best.settings == {"n": 2}
    assert found.best.makespan_s == pytest.approx(6.02)


def test_small_tasks_are_told_to_spend_much_on_overhead():
    found = foresee(chains, model=Seconds(), workers=1, fix={"size": 0.02}, overhead_s=0.005)
    assert found.best.overhead == pytest.approx(0.2)
    assert any("20 % on overhead" in note for note in found.notes)


def test_labels_whose_tasks_are_small_are_told_to_spend_much_on_overhead():
    tiny = task(writes="b", size="size", label="tiny")(lambda b, size: None)

    def both(n):
        with Graph() as g:
            for k in range(10):
                step("a", f"{k}", 10.0)
            for _ in range(n):
                tiny("b", 0.02)
            g.wait()

    models = {"step": Seconds(), "tiny": Seconds()}
    found = foresee(both, model=models, workers=[1, 2], vary={"n": [0, 5]}, overhead_s=0.005)
    assert [note for note in found.notes if "overhead" in note] == [
        "With n=5, tasks of some labels spend much on overhead: tiny 20 %."
    ]
    assert found.cells[-1].overheads == pytest.approx({"step": 0.0005, "tiny": 0.2}, rel=1e-3)
    assert found.to_json()["cells"][-1]["overheads"]["tiny"] == pytest.approx(0.2)


def test_interval_is_as_wide_as_errors_that_tasks_share_make_it():
    sure = foresee(chains, model=Seconds(1.0), workers=2, overhead_s=0.0).best
    unsure = foresee(chains, model=Seconds(1.5), workers=2, overhead_s=0.0).best
    assert sure.lower_s is None
    assert unsure.lower_s < unsure.makespan_s < unsure.upper_s
    # All tasks have one label: half of the variance does not average out.
    assert unsure.upper_s / unsure.makespan_s >= 1.5 ** (0.9 * np.sqrt(0.5))


def a_trace(path, times):
    """Write the trace of a run whose tasks took some times, by size."""
    sizes = [size for size, own in times.items() for _ in own]
    with Graph(workers=1) as g:
        for k, size in enumerate(sizes):
            step("x", f"{k}", size)
    g.trace(path)
    frame = pd.read_csv(path)
    frame["time_s"] = [time_s for own in times.values() for time_s in own]
    frame.to_csv(path, index=False)
    return path


def test_times_are_means_where_the_trace_tells_how_they_differ(tmp_path):
    # The model says as many seconds as the size; the means are twice and four times that.
    runs = a_trace(tmp_path / "runs.csv", {1.0: [1.0, 1.0, 4.0], 4.0: [4.0, 4.0, 40.0]})

    def work_of(size, **given):
        return foresee(chains, model=Seconds(), workers=1, fix={"size": size}, **given).best.work_s

    assert work_of(1.0) == pytest.approx(12.0)
    assert work_of(1.0, runs=runs) == pytest.approx(12 * 2)
    assert work_of(4.0, runs=runs) == pytest.approx(12 * 4 * 4)
    assert work_of(2.0, runs=runs) == pytest.approx(12 * 2 * 8**0.5)  # half way by factors
    assert work_of(8.0, runs=runs) == pytest.approx(12 * 8 * 4)  # as for the nearest size


def test_a_trace_of_runs_goes_with_a_model(tmp_path):
    runs = a_trace(tmp_path / "runs.csv", {1.0: [1.0]})
    with pytest.raises(UsageError, match="corrects the times of a model"):
        foresee(runs, runs=runs)


class Minutes(Seconds):
    target = "time_min"


def test_a_trace_without_what_the_model_predicts_is_refused(tmp_path):
    runs = a_trace(tmp_path / "runs.csv", {1.0: [1.0]})
    with pytest.raises(UsageError, match="no column 'time_min'"):
        foresee(chains, model=Minutes(), runs=runs, workers=1, overhead_s=0.0)


@pytest.mark.parametrize("model", [Seconds(), {"step": Seconds()}])
def test_a_trace_may_have_tasks_that_the_graph_has_not(tmp_path, model):
    runs = a_trace(tmp_path / "runs.csv", {1.0: [2.0, 2.0], 2.0: [5.0]})
    frame = pd.read_csv(runs)
    frame.loc[frame["size"] == 2.0, "label"] = "other"
    frame.to_csv(runs, index=False)
    found = foresee(chains, model=model, runs=runs, workers=1, overhead_s=0.0)
    assert found.best.work_s == pytest.approx(12 * 2)
    frame.assign(label="other").to_csv(runs, index=False)
    found = foresee(chains, model=model, runs=runs, workers=1, overhead_s=0.0)
    assert found.best.work_s == pytest.approx(12)


def test_tasks_are_submitted_one_after_the_other_while_others_run():
    found = foresee(chains, model=Seconds(), workers=8, fix={"length": 1},
                    overhead_s=Overhead(submit_s=0.5)).best  # fmt: skip
    assert found.makespan_s == pytest.approx(4 * 0.5 + 1.0)


def test_overhead_that_is_given_stays_as_it_is():
    given = Overhead(submit_s=1e-12, run_s=1e-12)  # no program submits tasks that fast
    found = foresee(chains, model=Seconds(), workers=1, overhead_s=given)
    assert found.overhead_s == 2e-12


def test_what_submitting_takes_is_what_a_program_computes_and_not_what_it_waits_for():
    builds = []

    def waits():
        builds.append(1)
        with Graph():
            for k in range(3):
                step("a", f"{k}", 1.0)
                threading.Event().wait(0.1)  # it stands for other programs on the machine

    assert foresee(waits, model=Seconds(), workers=1).overhead_s < 0.05
    assert len(builds) == 3
    foresee(waits, model=Seconds(), workers=1, overhead_s=0.0)
    assert len(builds) == 4


def test_program_that_computes_for_long_is_called_once_for_each_setting():
    called = []

    def loads(k):
        called.append(k)
        until_s = time.process_time() + 0.25
        while time.process_time() < until_s:
            pass
        with Graph():
            step("a", "b", 1.0)

    foresee(loads, model=Seconds(), workers=1, vary={"k": [1, 2]})
    assert called == [1, 2]


def test_same_seed_gives_the_same_forecast():
    one, other = (
        foresee(chains, model=Seconds(1.5), workers=2, overhead_s=0.0, seed=3).to_json()
        for _ in range(2)
    )
    assert one == other


def test_kinds_of_tasks_outside_the_data_of_the_model_are_told():
    found = foresee(chains, model=Seconds(), workers=1, fix={"size": 20.0}, overhead_s=0.0)
    assert any("size 20" in note for note in found.notes)


def test_waits_of_the_program_are_part_of_the_forecast():
    def phases():
        with Graph() as g:
            step("a", "b", 3)
            step("c", "d", 1)
            g.wait()
            step("e", "f", 1)

    assert foresee(phases, model=Seconds(), workers=2, overhead_s=0.0).best.makespan_s == 4.0


def test_recorded_run_is_foreseen_on_more_workers_without_a_model(tmp_path):
    with Graph(workers=1) as g:
        for k in range(6):
            step("x", f"{k}", 1)
    g.trace(tmp_path / "run.csv")
    times = pd.read_csv(tmp_path / "run.csv")["time_s"]
    found = foresee(tmp_path / "run.csv", workers=[1, 6], overhead_s=0.0)
    by_count = {cell.workers: cell.makespan_s for cell in found.cells}
    assert by_count[1] == pytest.approx(times.sum())
    assert by_count[6] == pytest.approx(times.max())


def test_dask_graph_is_foreseen_with_a_model_of_its_labels():
    model = Seconds()
    model.categories = {"label": ["inc", "add"]}
    graph = {"inc": (abs, 1), "add": (max, "inc", 2)}
    assert foresee(graph, model=model, workers=1, overhead_s=0.0).best.makespan_s == 2.0


def test_collection_of_dask_is_foreseen_without_being_computed():
    @dask.delayed
    def step(*values):
        raise AssertionError("nothing is computed")

    fork = step(1)
    found = foresee(step(step(fork), step(fork)), model=Seconds(), workers=2, overhead_s=0.0).best
    assert (found.n_tasks, found.makespan_s) == (4, 3.0)


def test_blocks_of_a_dask_array_are_tasks():
    x = dask.array.ones((4, 4), chunks=2)
    rows = rows_of_dask((x + x).sum())
    assert [row.label for row in rows].count("add") == 4
    assert all(b < k for k, row in enumerate(rows) for b in row.before)


def test_a_trace_of_several_graphs_is_told_which_is_played(tmp_path):
    path = tmp_path / "run.csv"
    for n in (2, 3):
        with Graph(workers=1) as g:
            for k in range(n):
                step("x", f"{k}", 1)
        g.trace(path, append=True)
    found = foresee(path, workers=[1, 2], overhead_s=0.0)
    assert found.best.n_tasks == 3
    assert any("has 2 graphs" in note and "run 2 of 3 tasks" in note for note in found.notes)
    assert any("recorded on 1 worker" in note for note in found.notes)


class SecondsOfThreads(Seconds):
    categories, ranges = {"label": ["step"], "isolation": ("none",)}, {"size": (1.0, 8.0)}


def test_isolation_and_places_that_a_model_has_not_seen_are_told():
    def apart():
        with Graph(on="processes"):
            step("a", "b", 1.0)
            step.with_options(isolation="sandbox")("b", "c", 1.0)

    told = foresee(apart, model=SecondsOfThreads(), workers=1, overhead_s=0.0).notes
    assert any("isolation 'sandbox'" in note for note in told)
    assert any("runs on processes" in note for note in told)
    told = foresee(chains, model=SecondsOfThreads(), workers=1, overhead_s=0.0).notes
    assert not any("isolation" in note or "runs on" in note for note in told)


@task(writes="b", size=1)
def submits(b):
    step("a", b, 1.0)
    step(b, "c", 1.0)


def test_tasks_that_tasks_submitted_are_told_not_to_be_foreseen(tmp_path):
    with Graph(workers=1) as g:
        submits("b")
    g.trace(tmp_path / "runs.csv")
    found = foresee(chains, model={"step": Seconds(), "submits": Seconds()}, workers=1,
                    runs=tmp_path / "runs.csv", overhead_s=0.0)  # fmt: skip
    assert any("2 of 3 tasks were submitted by tasks" in note for note in found.notes)


def test_models_by_label_are_each_used_for_their_own():
    with_two = task(writes="b", size=2, label="other")(lambda b: None)

    def both():
        with Graph():
            step("a", "b", 1)
            with_two("b")

    models = {"step": Seconds(), "other": Seconds()}
    assert foresee(both, model=models, workers=1, overhead_s=0.0).best.makespan_s == 3.0
    with pytest.raises(UsageError, match="no model for tasks 'other'"):
        foresee(both, model={"step": Seconds()}, workers=1, overhead_s=0.0)


def decides():
    with Graph():
        handle = step("a", "b", 1)
        if handle.result():
            step("b", "c", 1)


def nothing():
    with Graph():
        pass


def broken():
    with Graph():
        raise KeyError("mine")


@pytest.mark.parametrize(
    ("program", "options", "told"),
    [
        (chains, {}, "how long 'step' takes"),
        (chains, {"vary": {"m": [1, 2]}}, "no parameter 'm'"),
        (chains, {"workers": 0}, "workers"),
        (chains, {"model": Seconds(), "policy": "bredth"}, "Did you mean 'breadth'"),
        (chains, {"model": Seconds(), "overhead_s": -1}, "overhead"),
        (chains, {"model": Seconds(), "overhead_s": Overhead(run_s=-1)}, "run_s must be 0 s or"),
        (chains, {"model": Seconds(), "overhead_s": Overhead(wake_s=float("nan"))}, "wake_s"),
        (chains, {"model": Seconds(), "seeed": 1}, "Did you mean 'seed'"),
        (decides, {"model": Seconds()}, "known only after a run"),
        (nothing, {"model": Seconds()}, "no task"),
        (broken, {"model": Seconds()}, "KeyError"),
        ("nowhere.py:main", {}, "no file nowhere.py"),
        ("main", {}, "FILE.py:FUNCTION"),
    ],
)
def test_what_cannot_be_foreseen_is_refused(program, options, told):
    with pytest.raises(UsageError, match=told):
        foresee(program, **{"overhead_s": 0.0, **options})


def test_label_that_the_model_does_not_know_is_refused():
    other = task(writes="b", label="new")(lambda b: None)

    def main():
        with Graph():
            other("b")

    with pytest.raises(UsageError, match="no runs of 'new'"):
        foresee(main, model=Seconds(), workers=1, overhead_s=0.0)


def test_run_small_then_fit_then_foresee_large(tmp_path):
    """The loop closes: sizes that were never run are foreseen from a trace of small ones."""
    buffers = {n: np.zeros(n) for n in (20_000, 40_000, 80_000, 160_000)}

    @task(writes="x", size="x.size", label="fill")
    def fill(x):
        for _ in range(20):
            np.sin(x, out=x)

    with Graph(workers=1) as g:
        for _ in range(12):
            for buffer in buffers.values():
                fill(buffer)
    g.trace(tmp_path / "run.csv")
    foretell.fit_model(tmp_path / "run.csv", target="time_s", output=tmp_path / "models")

    def large():
        with Graph(workers=1):
            for _ in range(3):
                fill(np.zeros(320_000))

    found = foresee(large, model=tmp_path / "models", workers=1)
    measured = pd.read_csv(tmp_path / "run.csv").groupby("size")["time_s"].median()
    # Linear in size: about six times the largest of the small ones; wide, for the machine is busy.
    assert found.best.makespan_s == pytest.approx(6 * measured[160_000], rel=0.6)


def test_overhead_is_measured_in_a_plausible_range():
    found = measure_overhead(200)
    assert 1e-7 < found.submit_s < 0.1
    assert 1e-7 < found.run_s < 0.1


def test_an_interrupted_measurement_of_overhead_leaves_nothing_that_waits(monkeypatch):
    gates, threads = [], []

    class Gate(threading.Event):
        def __init__(self):
            super().__init__()
            gates.append(self)

        def wait(self, timeout=None):
            return super().wait(2.0)  # a gate that stays closed must not hang this test

    def a_thread(**options):
        threads.append(threading.Thread(**options))
        return threads[-1]

    own = SimpleNamespace(Event=Gate, Thread=a_thread, Semaphore=threading.Semaphore)
    monkeypatch.setattr("foretell.tasks.forecast.times.threading", own)
    measure_overhead(1)
    assert threads
    assert all(thread.daemon for thread in threads)  # Python does not wait for them in the end

    submit = Graph.submit

    def interrupted(*arguments):
        submit(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(Graph, "submit", interrupted)
    gates.clear()
    with pytest.raises(KeyboardInterrupt):
        measure_overhead(1)
    assert [gate.is_set() for gate in gates] == [True]
