"""Inside a real Ray Tune: epochs are stored, leases change, and a killed search goes on."""

import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ray = pytest.importorskip("ray")
tune = pytest.importorskip("ray.tune")

from ray.tune.schedulers import (  # noqa: E402
    ASHAScheduler,
    FIFOScheduler,
    HyperBandScheduler,
    MedianStoppingRule,
    ResourceChangingScheduler,
)

from foretell.errors import UsageError  # noqa: E402
from foretell.tune import Rules, Search, TimeLeft, open_store  # noqa: E402
from foretell.tune.ray import Allocate, Callback, PipelineTrainable, first_lease  # noqa: E402
from foretell.tune.ray.recognized import recognized  # noqa: E402
from foretell.tune.store import EpochRow  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]


@pytest.fixture(scope="module")
def cluster():
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def quiet(monkeypatch, tmp_path):
    """Runs of Ray Tune write below a temporary folder, and to no screen."""
    return {"storage_path": str(tmp_path), "verbose": 0}


def everything_is_typical():
    """Keep all epochs in a worker: those of tests are short, and others use the machine."""
    from foretell.tune.hook import steadiness

    steadiness.MOST_LOAD = steadiness._MOST_VARIATION = 1e9


def trainer(store, start=everything_is_typical, n_epochs=9):
    """Return a training whose loss is its hyperparameter, with the three lines."""

    def train(config):
        from foretell.tune import pipeline

        start()
        knobs = pipeline("job", {"prefetch": [1, 2]}, params=config, store=store, strict=True)
        for epoch in knobs.epochs(range(n_epochs)):
            tune.report({"loss": config["x"] + 1 / (1 + epoch)})

    return train


def tuner(train, quiet, *, scheduler=None, n=4, callbacks=(), cpus=1, **config):
    return tune.Tuner(
        tune.with_resources(train, {"cpu": cpus}),
        param_space={"x": tune.grid_search([i / 10 for i in range(n)])},
        tune_config=tune.TuneConfig(metric="loss", mode="min", scheduler=scheduler, **config),
        run_config=tune.RunConfig(name="run", callbacks=list(callbacks), **quiet),
    )


def test_trials_are_detected_and_epochs_of_stopped_trials_are_stored(cluster, quiet, tmp_path):
    path = str(tmp_path / "store.sqlite")
    left, lines = Left(), []
    callback = Callback(path, "job", time_left=lambda n: left, metric="loss", tell=lines.append)
    asha = ASHAScheduler(max_t=9, grace_period=1, reduction_factor=2)
    results = tuner(trainer(path), quiet, scheduler=asha, n=3, callbacks=[callback]).fit()
    assert not results.errors
    store = open_store(path)
    table = store.epochs("job")
    for result in results:
        rows = table[table["trial"] == result.metrics["trial_id"]]
        assert len(rows) == result.metrics["training_iteration"]
        assert set(rows["h.x"]) == {result.config["x"]}
        assert set(rows["s.cpus"]) == {1}
    ends = store.ends("job")
    assert {n for n, reason in ends.values() if reason == "stopped"} <= {1, 2, 4, 8, 9}
    assert max(n for n, _ in ends.values()) == 9
    assert left.n_epochs == len(table)
    assert left.n_ended == 3
    assert "5 s" in lines[-1]


class Left:
    """Counts what a callback tells it."""

    n_epochs = n_ended = 0

    def epoch(self, trial, epoch, seconds, *, configuration=None, value=None):
        assert seconds > 0
        assert value == pytest.approx(configuration["x"] + 1 / epoch)
        self.n_epochs += 1

    def ended(self, trial):
        self.n_ended += 1

    def left(self):
        return 5.0, 4.0, 6.0


def test_the_callback_tells_the_time_left_as_foretell_knows_it():
    lines = []
    callback = Callback(
        ":memory:", "job", metric="loss", tell=lines.append,
        time_left=lambda n: TimeLeft(Search("random", n, Rules(max_epochs=2), 1)),
    )  # fmt: skip
    callback.setup(total_num_samples=4)
    for number in range(2):
        trial = Trial(trial_id=f"t{number}", last_result={"training_iteration": 2})
        for n in (1, 2):
            result = {"training_iteration": n, "time_this_iter_s": 60.0, "loss": 0.5}
            callback.on_trial_result(n, [], trial, result)
        callback.on_trial_complete(9, [], trial)
    assert len(lines) == 2
    assert "left" in lines[-1]
    assert len(callback.store.rows("job")) == 4
    again = ray.cloudpickle.loads(ray.cloudpickle.dumps(callback))  # Ray keeps it in a file
    assert again.job == "job"


def test_the_time_left_is_in_the_log_that_ray_shows(caplog):
    callback = Callback(":memory:", "job", time_left=lambda n: Left())
    callback.setup(total_num_samples=4)
    with caplog.at_level("INFO", logger="ray"):
        callback.on_trial_complete(9, [], Trial(last_result={"training_iteration": 2}))
    (shown,) = caplog.records
    assert shown.name.startswith("ray.")
    assert shown.getMessage() == "job: about 5 s left (4 s – 6 s)"


def test_the_callback_stores_epochs_of_trainings_without_the_hook(
    cluster, quiet, tmp_path, monkeypatch
):
    monkeypatch.setattr("foretell.tune.hook.steadiness.MOST_LOAD", 1e9)  # epochs of nothing

    def train(config):
        for i in range(3):
            if i == 2 and config["x"] > 0:
                raise ValueError("on purpose")
            tune.report({"loss": i})

    path = tmp_path / "store.sqlite"
    tuner(train, quiet, n=2, callbacks=[Callback(path, "plain")]).fit()
    store = open_store(path)
    assert sorted(store.epochs("plain").groupby("trial").size()) == [2, 3]
    assert (2, "error") in store.ends("plain").values()


def known_store(path, ratio):
    """A store in which two threads take a known share of the time of one; restarts are cheap."""
    store = open_store(path)
    rows = [
        EpochRow(
            "job", f"old{i}", e, "steady", {"x": i / 4}, {"threads": t}, ratio if t == 2 else 1
        )
        for i in range(5)
        for e, t in enumerate((1, 2))
    ]
    store.add_epochs(rows)
    for _ in range(9):
        store.add_restart(0.01)
    return store


def leased(n_epochs, wait_s=0.2):
    def train(config):
        import time

        start = 0
        checkpoint = tune.get_checkpoint()
        if checkpoint:
            start = json.loads((Path(checkpoint.path) / "state").read_text())["epoch"] + 1
        for epoch in range(start, n_epochs):
            time.sleep(wait_s)  # an epoch that takes time, and no core
            cpus = tune.get_context().get_trial_resources().required_resources["CPU"]
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "state").write_text(json.dumps({"epoch": epoch}))
                saved = tune.Checkpoint.from_directory(folder)
                tune.report({"loss": epoch, "cpus": cpus, "epoch": epoch}, checkpoint=saved)

    return train


def test_a_lease_changes_if_that_pays_and_training_goes_on_from_its_checkpoint(
    cluster, quiet, tmp_path
):
    store = known_store(tmp_path / "store.sqlite", ratio=0.3)
    train = leased(5)
    allocate = Allocate(store, "job", cpus=(1, 2), trainable=train, max_epochs=5)
    scheduler = ResourceChangingScheduler(resources_allocation_function=allocate)
    (result,) = tuner(train, quiet, scheduler=scheduler, n=1).fit()
    frame = result.metrics_dataframe
    assert list(frame["epoch"]) == [0, 1, 2, 3, 4]
    assert frame["cpus"].iloc[0] == 1
    assert frame["cpus"].iloc[-1] == 2
    assert open_store(store.path).restart_s(5.0) != 5.0


class Controller:
    """What Allocate asks of Ray's controller, with CPUs that are free."""

    def __init__(self, trials, n_cpus=2):
        self.trials, self._resource_updater = trials, self
        self.get_num_cpus = lambda: n_cpus

    def get_live_trials(self):
        return self.trials


class Trial:
    trial_id, checkpoint, config, status = "t", object(), {"x": 0.5}, "RUNNING"

    def __init__(self, cpus=1, **changes):
        self.placement_group_factory = tune.PlacementGroupFactory([{"CPU": cpus}])
        vars(self).update(changes)


def ask(allocate, trial, *others, seconds=100.0, done=1):
    result = {"time_this_iter_s": seconds, "training_iteration": done}
    return allocate(Controller([trial, *others]), trial, result, None)


def lease(store, trial, *others, seconds=100.0, done=1):
    allocate = Allocate(store, "job", cpus=(1, 2), max_epochs=9)
    found = ask(allocate, trial, *others, seconds=seconds, done=done)
    return None if found is None else found.required_resources["CPU"]


def test_a_lease_stays_if_the_restart_takes_longer_than_it_saves():
    store = known_store(":memory:", ratio=0.5)
    for _ in range(30):
        store.add_restart(50.0)
    # 8 epochs are left, of which 2 CPUs save half: 4 epochs against 1.2 × 50 s
    assert lease(store, Trial(), seconds=14.5) is None
    assert lease(store, Trial(), seconds=15.5) == 2


def test_a_lease_stays_while_others_wait_unless_core_seconds_are_saved():
    waiting = Trial(status="PENDING")
    assert lease(known_store(":memory:", ratio=0.6), Trial(), waiting) is None
    assert lease(known_store(":memory:", ratio=0.9), Trial(cpus=2), waiting) == 1
    assert lease(known_store(":memory:", ratio=0.6), Trial()) == 2


def test_a_lease_stays_without_checkpoints_or_without_free_cpus_or_without_knowledge(caplog):
    store = known_store(":memory:", ratio=0.3)
    assert lease(store, Trial(checkpoint=None)) is None
    assert "checkpoint" in caplog.text
    assert lease(store, Trial(), Trial()) is None
    assert lease(open_store(":memory:"), Trial()) is None


def test_a_lease_keeps_what_it_has_besides_cpus_and_stays_if_it_has_several_bundles(caplog):
    allocate = Allocate(known_store(":memory:", ratio=0.3), "job", cpus=(1, 2), max_epochs=9)
    bundle = {"CPU": 1, "GPU": 0.5, "disk": 2}
    factory = tune.PlacementGroupFactory([bundle], strategy="STRICT_SPREAD")
    found = ask(allocate, Trial(placement_group_factory=factory))
    assert (found.bundles, found.strategy) == ([{**bundle, "CPU": 2}], "STRICT_SPREAD")
    for bundles in ([bundle, {"CPU": 1}], [{}, {"CPU": 1}]):
        factory = tune.PlacementGroupFactory(bundles)
        assert ask(allocate, Trial(placement_group_factory=factory)) is None
    assert caplog.text.count("several bundles") == 1


def test_a_larger_lease_is_tried_where_cpus_are_free_and_epochs_are_long_enough(caplog):
    store = open_store(":memory:")
    assert lease(store, Trial(), done=2) == 2
    assert lease(store, Trial(), done=2, seconds=5.0) is None
    assert lease(store, Trial(), Trial(status="PENDING"), done=2) is None
    assert "until epochs with other numbers of threads are known" in caplog.text


def test_a_lease_of_part_of_a_cpu_counts_as_one_thread(caplog):
    caplog.set_level("INFO", logger="foretell.tune")
    half = tune.PlacementGroupFactory([{"CPU": 0.5, "GPU": 0.5}])
    for n_cpus, expected in ((1.5, None), (2, 2)):
        allocate = Allocate(known_store(":memory:", ratio=0.3), "job", cpus=(1, 2), max_epochs=9)
        trial = Trial(placement_group_factory=half)
        result = {"time_this_iter_s": 100.0, "training_iteration": 2}
        found = allocate(Controller([trial], n_cpus), trial, result, None)
        assert (found and found.required_resources["CPU"]) == expected
    assert "gets 2 CPUs instead of 1: " in caplog.text


def test_a_trial_goes_back_once_from_a_lease_that_made_it_slower():
    allocate, trial = Allocate(":memory:", "job", cpus=(1, 2), max_epochs=30), Trial()
    leases = []
    for done in range(2, 9):
        cpus = trial.placement_group_factory.required_resources["CPU"]
        found = ask(allocate, trial, done=done, seconds=100.0 if cpus == 1 else 150.0)
        trial.placement_group_factory = found or trial.placement_group_factory
        leases.append(trial.placement_group_factory.required_resources["CPU"])
    assert leases == [2, 2, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("status", ["RUNNING", "PAUSED", "PENDING"])
def test_cpus_promised_to_a_trial_that_starts_anew_are_promised_to_no_other(status):
    allocate = Allocate(known_store(":memory:", ratio=0.6), "job", cpus=(1, 2), max_epochs=9)
    first, second = Trial(trial_id="first"), Trial(trial_id="second")

    def asked(trial, n_cpus):
        controller = Controller([first, second], n_cpus)
        found = allocate(controller, trial, {"time_this_iter_s": 100.0}, None)
        return found and found.required_resources["CPU"]

    assert asked(first, 3) == 2
    first.status = status  # and its lease is still the one from before
    assert asked(second, 3) is None
    assert asked(second, 4) == 2
    second.status = "PAUSED"
    first.status = "RUNNING"
    first.placement_group_factory = tune.PlacementGroupFactory([{"CPU": 2}])
    assert asked(first, 4) is None
    assert set(allocate._promised) == {"second"}


@pytest.mark.parametrize(("ratio", "expected"), [(0.6, 1), (0.45, 2)])
def test_the_first_lease_has_the_fewest_core_seconds_known(ratio, expected):
    assert first_lease(known_store(":memory:", ratio), "job", cpus=(1, 2, 4)) == expected
    assert first_lease(":memory:", "job", cpus=(2, 4)) == 2


def test_leases_are_refused_before_the_first_trial_without_checkpoints():
    def train(config):
        tune.report({"loss": 1})

    with pytest.raises(UsageError, match="checkpoint"):
        Allocate(":memory:", trainable=train)
    with pytest.raises(UsageError, match="checkpoint"):
        Allocate(":memory:", trainable=PipelineTrainable)
    with pytest.raises(UsageError, match="whole number"):
        Allocate(":memory:", cpus=(0.5,))


def test_a_function_that_reports_through_another_one_is_not_refused():
    def report_epoch(loss, saved):
        tune.report({"loss": loss}, checkpoint=saved)

    def train(config):
        report_epoch(1, None)

    assert Allocate(":memory:", trainable=train).cpus == (1, 2)


def test_leases_are_refused_before_the_first_trial_if_actors_are_reused(cluster, quiet, tmp_path):
    scheduler = ResourceChangingScheduler(resources_allocation_function=Allocate(":memory:"))
    with pytest.raises(Exception, match="reuse_actors"):
        tuner(leased(2), quiet, scheduler=scheduler, n=1, reuse_actors=True).fit()
    assert not list(tmp_path.rglob("result.json")) or not any(
        p.read_text() for p in tmp_path.rglob("result.json")
    )


def test_a_trainable_of_the_base_class_is_tuned_and_goes_on_after_a_failed_probe(
    cluster, quiet, tmp_path
):
    path = str(tmp_path / "store.sqlite")

    class Counting(PipelineTrainable):
        job, settings, max_epochs = "job", {"prefetch": [1, 2]}, 8
        options = {"store": path, "strict": True, "objective": "latency"}  # noqa: RUF012

        def setup(self, config):
            everything_is_typical()
            self.n = 0

        def train_epoch(self):
            if self.knobs.setting["prefetch"] == 1:
                raise MemoryError("out of memory")
            self.n += 1
            return {"n": self.n, "done": self.n == 8}

        def save_checkpoint(self, folder):
            (Path(folder) / "n").write_text(str(self.n))

        def load_checkpoint(self, folder):
            self.n = int((Path(folder) / "n").read_text())

    # Epochs of nothing vary so much that a probe of the other setting pays.
    tuned = tune.Tuner(
        tune.with_resources(Counting, {"cpu": 1}),
        run_config=tune.RunConfig(
            name="run",
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
            failure_config=tune.FailureConfig(max_failures=2),
            **quiet,
        ),
    )
    (result,) = tuned.fit()
    assert result.error is None
    assert result.metrics["n"] == 8
    assert set(open_store(path).epochs("job")["s.prefetch"]) == {2}


@pytest.fixture
def in_this_process(monkeypatch, tmp_path):
    """Trainables are made here, from what this returns."""
    from types import SimpleNamespace

    from foretell.tune.hook import steadiness

    monkeypatch.setattr(steadiness, "MOST_LOAD", 1e9)
    monkeypatch.setattr("ray.tune.trainable.trainable.DEFAULT_STORAGE_PATH", str(tmp_path))

    def config(name, x=0.1):
        info = SimpleNamespace(trial_id=name, trial_name=name, trial_resources=None)
        return {"x": x, "__trial_info__": info}

    return config


def test_a_trainable_that_is_reused_has_a_hook_for_each_trial(in_this_process):
    config, ends = in_this_process, []
    store = open_store(":memory:")

    class Reused(PipelineTrainable):
        job, settings, max_epochs = "job", {"prefetch": [1, 2]}, 4
        options = {"store": store, "strict": True}  # noqa: RUF012

        def train_epoch(self):
            return {}

        def reset_config(self, new_config):
            return True

        def cleanup(self):
            ends.append(self.trial_id)
            super().cleanup()

    trainable = Reused(config("first", 0.1))
    trainable.train()
    assert trainable.reset(config("second", 0.2))
    assert store.trainings() == []
    trainable.train()
    assert {(row.trial, row.hyper["x"]) for row in store.rows("job")} == {
        ("first", 0.1), ("second", 0.2),
    }  # fmt: skip
    assert ends == []  # it is for the end of the process
    trainable.stop()
    assert ends == ["second"]
    assert store.trainings() == []


def test_workers_start_from_what_a_loader_in_setup_asks_for(in_this_process):
    store = open_store(":memory:")

    class Loading(PipelineTrainable):
        job, settings = "job", {"workers": [0, 1]}
        options = {"store": store, "strict": True}  # noqa: RUF012

        def setup(self, config):
            self.loader = self.knobs.loader([1, 2, 3], num_workers=1)

        def train_epoch(self):
            return {"workers": self.loader.num_workers}

    trainable = Loading(in_this_process("trial"))
    assert trainable.train()["workers"] == 1
    trainable.stop()
    assert [row.system["workers"] for row in store.rows("job")] == [1]


SEARCH = """
import sys, time, pathlib
import ray
from ray import tune
folder, goes_on = pathlib.Path(sys.argv[1]), sys.argv[2] == "goes on"

def train(config):
    import json, tempfile, pathlib, time
    from foretell.tune import pipeline
    from foretell.tune.hook import steadiness
    steadiness.MOST_LOAD = steadiness._MOST_VARIATION = 1e9
    start, checkpoint = 0, tune.get_checkpoint()
    if checkpoint:
        start = 1 + int((pathlib.Path(checkpoint.path) / "epoch").read_text())
    store = str(folder / "store.sqlite")
    knobs = pipeline("job", {"prefetch": [1, 2]}, params=config, store=store, strict=True)
    for epoch in knobs.epochs(range(start, 6)):
        if epoch >= 3 and not (folder / "free").exists():
            (folder / "reached").touch()
            time.sleep(600)  # until the search is killed
        with tempfile.TemporaryDirectory() as made:
            (pathlib.Path(made) / "epoch").write_text(str(epoch))
            tune.report({"loss": epoch}, checkpoint=tune.Checkpoint.from_directory(made))

from foretell.tune.ray import Callback
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
if goes_on:
    tuner = tune.Tuner.restore(str(folder / "run"), train, resume_unfinished=True)
else:
    tuner = tune.Tuner(
        train, param_space={"x": tune.grid_search([0.1, 0.2])},
        run_config=tune.RunConfig(name="run", storage_path=str(folder), verbose=0,
                                  callbacks=[Callback(str(folder / "store.sqlite"), "job")]))
results = tuner.fit()
assert not results.errors
(folder / "done").write_text(str([r.metrics["training_iteration"] for r in results]))
ray.shutdown()
"""


def test_a_search_killed_with_its_workers_is_restored_by_ray_and_the_store_is_whole(tmp_path):
    script = tmp_path / "search.py"
    script.write_text(SEARCH)
    # Ray writes the state of an experiment now and then; here after every change.
    environment = {**os.environ, "TUNE_GLOBAL_CHECKPOINT_S": "0", "RAY_AIR_NEW_OUTPUT": "0"}
    first = subprocess.Popen(
        [sys.executable, script, tmp_path, "begins"], env=environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(tmp_path / "reached", first)
    finally:
        kill_group(first)
    store = open_store(tmp_path / "store.sqlite")
    before = store.epochs("job")
    assert store.path is not None
    assert len(before) >= 3
    (tmp_path / "free").touch()
    second = subprocess.run(
        [sys.executable, script, tmp_path, "goes on"], env=environment, check=False,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (tmp_path / "done").exists(), second.stderr[-3000:]
    assert len(store.epochs("job")) > len(before)
    assert set(store.ends("job").values()) == {(6, "complete")}


def wait_for(path, process, n_seconds=90):
    import time

    until = time.monotonic() + n_seconds
    while not path.exists():
        assert process.poll() is None, "the search ended before it was killed"
        assert time.monotonic() < until, "the search did not get so far"
        time.sleep(0.05)


def kill_group(process):
    """Kill a search, and all that Ray started for it."""
    import psutil

    family = [psutil.Process(process.pid)]
    family += family[0].children(recursive=True)
    for each in family:
        try:
            each.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(family, timeout=10)
    process.wait()


# What the callback tells, and what it stores


def report(callback, trial, *, n=1, seconds=60.0, trials=(), **more):
    result = {"training_iteration": n, "time_this_iter_s": seconds, "loss": 0.5, **more}
    callback.on_trial_result(n, list(trials), trial, result)
    trial.last_result = result


@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [
        (ASHAScheduler(max_t=27, grace_period=2), ("asha", Rules(27, 4, 2))),
        (ASHAScheduler(max_t=27, reduction_factor=3), ("asha", Rules(9, 3))),
        (HyperBandScheduler(max_t=27), ("hyperband", Rules(27))),
        (HyperBandScheduler(max_t=81), ("hyperband", Rules(9, bracket_epochs=81))),
        (ResourceChangingScheduler(HyperBandScheduler(max_t=8)), ("hyperband", Rules(8))),
        (ASHAScheduler(max_t=600, time_attr="time_total_s"), ("random", Rules(9))),
        (FIFOScheduler(), ("random", Rules(9))),
        (MedianStoppingRule(), ("random", Rules(9))),
        (None, ("random", Rules(9))),
        ("asha", ("asha", Rules(9, 5, 3))),
    ],
)
def test_schedulers_of_ray_are_recognized(scheduler, expected):
    most = 27 if expected[1].max_epochs == 27 else 9
    assert recognized(scheduler, most, 5, 3) == expected


def test_given_the_scheduler_the_time_left_of_a_search_is_told(cluster, quiet, tmp_path, caplog):
    asha, lines = ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2), []
    path = str(tmp_path / "store.sqlite")
    callback = Callback(path, "job", scheduler=asha, tell=lines.append)
    assert not tuner(trainer(path), quiet, scheduler=asha, callbacks=[callback]).fit().errors
    left = callback._run.left
    assert (left.search.scheduler, left.search.n_trials, left.search.n_slots) == ("asha", 4, 2)
    assert left.n_ended == 4
    assert any(line.startswith("job: about ") for line in lines)
    assert "could not take note" not in caplog.text


def test_the_reasons_of_a_trial_are_told_when_it_ends():
    lines = []
    callback = Callback(":memory:", "job", tell=lines.append)
    callback.store.add_reasons("job", "t", [(1, "trying threads=1"), (2, "threads=1: better")])
    callback.on_trial_complete(9, [], Trial(last_result={"training_iteration": 3}))
    assert lines == ["job: t: epoch 1: trying threads=1; epoch 2: threads=1: better"]


def test_after_a_restore_trials_that_ended_before_count():
    callback = Callback(":memory:", max_epochs=2, n_slots=1)
    callback.setup(total_num_samples=4)
    trials = [Trial(trial_id=f"t{i}", status="TERMINATED") for i in range(2)]
    trials += [Trial(trial_id="t2"), Trial(trial_id="t3", status="PENDING")]
    for n in (1, 2):
        report(callback, trials[2], n=n, trials=trials)
    callback.on_trial_complete(9, trials, trials[2])
    assert callback._run.left.n_ended == 3
    assert 60.0 < callback._run.left.left()[0] < 200.0  # one trial of two epochs is left


def test_how_long_trials_train_is_also_known_from_what_stops_them(caplog):
    for stop, told in (({"training_iteration": 2}, 0), ({"loss": 1}, 1)):
        callback = Callback(":memory:", scheduler=FIFOScheduler(), n_slots=1)
        callback.setup(stop=stop, total_num_samples=4)
        for n in (1, 2):
            report(callback, Trial(), n=n)
        assert caplog.text.count("max_epochs") == 2 * told  # one line, which names it twice
        assert (callback._run.left is None) == bool(told)


def test_what_stops_trials_before_the_last_rung_of_hyperband_counts():
    callback = Callback(":memory:", scheduler=HyperBandScheduler(max_t=81), n_slots=1)
    callback.setup(stop={"training_iteration": 27}, total_num_samples=5)
    for n in range(1, 28):
        report(callback, Trial(), n=n)
    callback.on_trial_complete(99, [], Trial(last_result={"training_iteration": 27}))
    assert callback._run.left.left()[0] == pytest.approx(4 * 27 * 60.0, rel=0.3)


def test_a_callback_that_is_under_way_can_be_kept_in_a_file():
    callback = Callback(":memory:", scheduler=HyperBandScheduler(max_t=9), n_slots=1)
    callback.setup(total_num_samples=4)
    report(callback, Trial())
    again = ray.cloudpickle.loads(ray.cloudpickle.dumps(callback))
    again.setup(total_num_samples=4)
    report(again, Trial())
    assert again._run.left.search.scheduler == "hyperband"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"scheduler": "ahsa", "max_epochs": 9}, "Did you mean 'asha'"),
        ({"scheduler": "hyperband", "max_epochs": 9, "min_epochs": 3}, "min_epochs"),
        ({"max_epochs": 0}, "max_epochs"),
        ({"max_epochs": 9, "n_slots": 0}, "n_slots"),
        ({"max_epochs": 9, "mode": "most"}, "must be max or min"),
        ({"max_epochs": 9, "model": "models"}, "space"),
        ({"max_epochs": 9, "time_left": lambda n: Left()}, "time_left"),
    ],
)
def test_wrong_options_of_the_callback_are_refused_before_the_search(options, told):
    with pytest.raises(UsageError, match=told):
        Callback(":memory:", **options)


def test_epochs_of_other_nodes_are_not_stored_as_those_of_this_one():
    callback = Callback(":memory:", "job", max_epochs=2, n_slots=1)
    callback.setup(total_num_samples=1)
    report(callback, Trial(), hostname="another node")
    assert len(callback.store.rows("job", share=True)) == 0
    assert callback._run.left.left()[0] > 0
    report(callback, Trial(), n=2, hostname=platform.node())
    assert len(callback.store.rows("job")) == 1


@pytest.mark.parametrize("phase", ["warm-up", "left out"])
def test_nothing_is_added_to_the_rows_of_a_trial_that_stores_its_own(phase):
    callback = Callback(":memory:", "job")
    own = EpochRow("job", "t", 1, phase, {}, {"threads": 1, "cpus": 1.0}, 60.0)
    callback.store.add_epochs([own])  # its loop counts from 1
    report(callback, Trial())
    assert len(callback.store.rows("job")) + len(callback.store.left_out("job")) == 1


def test_epochs_that_vary_or_were_disturbed_teach_nothing(monkeypatch):
    callback = Callback(":memory:", "job")
    for n, seconds in enumerate((90.0, 60.0, 60.0, 80.0), start=1):
        report(callback, Trial(), n=n, seconds=seconds)
    assert [r.epoch_s for r in callback.store.rows("job")] == [90.0, 60.0, 60.0]
    monkeypatch.setattr(callback._run.others, "since", lambda *of: 0.5)
    report(callback, Trial(), n=5)
    assert callback.store.left_out("job")[1:] == [0.5]


def test_the_first_epoch_of_a_process_is_a_warm_up():
    callback = Callback(":memory:", "job")
    for n, since in ((4, 1), (5, 2)):
        report(callback, Trial(), n=n, iterations_since_restore=since)
    assert [r.phase for r in callback.store.rows("job")] == ["warm-up", "steady"]
