"""A search for a model and its deployment: limits, objectives, failures, resuming."""

import itertools
import json
import math
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import optuna
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import foretell
from foretell import tune
from foretell.errors import NothingUsableError, StorageError, UsageError
from foretell.measure.running import machine

SIZES = [1, 2, 4, 8]
RATES = {"from": 0.001, "to": 1.0, "spacing": "log"}


def curve(config, budget):
    """A made-up network: larger ones get further, and a rate of 0.03 is best."""
    passes = budget.epochs.stop * budget.share
    top = 1 - 0.3 / config["size"] - 0.05 * abs(math.log10(config.get("lr", 0.03) / 0.03))
    return max(0.0, top * (1 - math.exp(-3 * passes)))


def train(config, budget, state):
    trained = (state or []) + [budget.rung]
    return tune.Progress(curve(config, budget), trained)


class Served:
    """Answers the slower the larger the network is, and counts how often it is asked."""

    def __init__(self, s_per_size=0.001):
        self.s_per_size, self.asked, self.is_training = s_per_size, [], False

    def build(self, size):
        raise AssertionError("a search builds no network itself")

    def latency(self, **architecture):
        assert not self.is_training
        self.asked.append(architecture)
        mean_s = self.s_per_size * architecture["size"]
        return SimpleNamespace(
            mean_s=mean_s, p99_s=3 * mean_s, throughput=1 / mean_s, batch=4, threads=2,
            replicas=architecture["size"], energy_j=7 * mean_s,
        )  # fmt: skip


# What is found


def test_the_best_trial_keeps_both_limits_and_is_the_fastest_that_does():
    found = tune.search(
        train, {"size": SIZES, "lr": RATES}, system={"threads": [1, 2]}, accuracy=0.85,
        p99_s=0.015, deployable=Served(), trials=20,
    )  # fmt: skip
    within = [
        t for t in found.trials if t.rungs and t.rungs[-1].accuracy >= 0.85 and t.config["size"] < 8
        and t.inference is not None
    ]  # fmt: skip
    assert found.best == min(within, key=lambda t: sum(r.train_s for r in t.rungs))
    assert found.model == [r.rung for r in found.best.rungs]
    assert found.config["size"] in (2, 4)
    assert (found.deployment.batch, found.deployment.threads) == (4, 2)
    assert found.deployment.replicas == found.config["size"]


@settings(max_examples=10, deadline=None)
@example(0.7, 0.008, "epochs", "ratio", 2)  # one trial that keeps both limits is behind others
@given(
    st.floats(0.05, 1.0), st.floats(0.0005, 0.05), st.sampled_from(["multi", "epochs", "data"]),
    st.sampled_from(["time", "ratio", "energy-ratio"]), st.integers(0, 99),
)  # fmt: skip
def test_no_result_ever_breaks_a_limit(accuracy, p99_s, budget, objective, seed):
    def measured(config, budget, state):
        return tune.Progress(curve(config, budget), state, energy_j=config["size"] * 2.0)

    found = tune.search(
        measured, {"size": SIZES, "lr": RATES}, accuracy=accuracy, p99_s=p99_s,
        deployable=Served(), budget=budget, objective=objective, seed=seed, trials=6,
    )  # fmt: skip
    for trial in (*([found.best] if found.best else []), *found.front):
        assert trial.rungs[-1].accuracy >= accuracy
        assert 3 * 0.001 * trial.config["size"] <= p99_s
    if found.best is None:
        assert not any(
            t.rungs and t.rungs[-1].accuracy >= accuracy and 0.003 * t.config["size"] <= p99_s
            for t in found.trials
        )
        assert "No trial keeps all limits" in str(found)
    assert json.loads(json.dumps(found.to_json()))["front"] == [t.number for t in found.front]


def test_the_front_is_what_no_other_trial_beats():
    found = tune.search(
        train, {"size": SIZES, "lr": RATES}, accuracy=0.5, p99_s=1.0, deployable=Served(),
        trials=15,
    )  # fmt: skip
    kept = [t for t in found.trials if t.status == "kept"]

    def beaten(trial):
        own = (trial.train_s, -trial.accuracy, trial.inference.p99_s)
        others = [(t.train_s, -t.accuracy, t.inference.p99_s) for t in kept]
        return any(all(a <= b for a, b in zip(o, own, strict=True)) and o != own for o in others)

    assert {t.number for t in found.front} == {t.number for t in kept if not beaten(t)}
    assert found.best in found.front


def test_of_trials_that_took_as_long_the_more_accurate_one_is_best(monkeypatch):
    seconds = itertools.count()
    monkeypatch.setattr("foretell.tune.onefold.running.time.perf_counter", lambda: next(seconds))
    found = tune.search(
        train, {"size": SIZES, "lr": RATES}, accuracy=0.5, p99_s=1.0, deployable=Served(),
        trials=15,
    )  # fmt: skip
    least_s = min(t.train_s for t in found.trials if t.status == "kept")
    as_fast = [t for t in found.trials if t.status == "kept" and t.train_s == least_s]
    assert len({t.accuracy for t in as_fast}) > 1
    assert found.best.accuracy == max(t.accuracy for t in as_fast)
    assert found.best in found.front


@pytest.mark.parametrize("objective", ["ratio", "energy-ratio"])
def test_a_ratio_is_training_times_inference_over_accuracy(objective):
    def measured(config, budget, state):
        return tune.Progress(curve(config, budget), state, energy_j=100.0 / config["size"])

    found = tune.search(
        measured, {"size": SIZES}, objective=objective, deployable=Served(), trials=4
    )  # fmt: skip
    ended = [t for t in found.trials if t.status == "kept"]

    def ratio(trial):
        rungs, inference = trial.rungs, trial.inference
        if objective == "ratio":
            spent, answered = sum(r.train_s for r in rungs), inference.mean_s
        else:
            spent, answered = sum(r.energy_j for r in rungs), inference.energy_j
        return spent * answered / rungs[-1].accuracy

    assert found.best == min(ended, key=ratio)
    assert len(found.best.rungs) == 5  # a ratio is that of the whole budget


def test_training_stops_as_soon_as_the_target_is_reached():
    found = tune.search(train, {"size": SIZES}, accuracy=0.3, trials=4)
    reached = [t for t in found.trials if t.status == "kept"]
    assert reached
    for trial in reached:
        assert [r.accuracy >= 0.3 for r in trial.rungs] == [False] * (len(trial.rungs) - 1) + [True]


def test_the_search_ends_after_as_many_trials_within_the_limits_as_asked_for():
    found = tune.search(train, {"size": [4, 8], "lr": RATES}, accuracy=0.3, trials=50, stop_after=2)
    assert sum(t.status == "kept" for t in found.trials) == 2
    assert len(found.trials) < 50


def test_a_small_space_is_searched_without_repeats():
    found = tune.search(train, {"size": SIZES}, accuracy=0.99, trials=30)
    assert sorted(t.config["size"] for t in found.trials) == SIZES
    assert any("not tried" in note for note in found.notes)


# How trials are trained


def test_trials_go_on_from_rung_to_rung_and_train_no_epoch_twice():
    seen = []

    def counting(config, budget, state):
        done = [] if state is None else state
        seen.append((budget.rung, done[-1:], [*budget.epochs][:1]))
        return tune.Progress(0.01, [*done, *budget.epochs])

    found = tune.search(counting, {"size": SIZES}, accuracy=0.9, trials=3)
    assert found.best is None
    for rung, last, first in seen:
        assert (last == []) == (rung == 0)
        assert first == [last[0] + 1] if last else first == [0]


def test_trials_start_anew_at_each_rung_if_asked_to():
    starts = []

    def counting(config, budget, state):
        starts.append((budget.epochs.start, state))
        return tune.Progress(0.01, "trained")

    budget = tune.Budgets("multi", is_anew=True)
    tune.search(counting, {"size": SIZES}, accuracy=0.9, trials=3, budget=budget)
    assert set(starts) == {(0, None)}


def test_bad_trials_get_less_than_good_ones():
    found = tune.search(train, {"size": SIZES, "lr": RATES}, accuracy=1.0, trials=25)
    stopped = [t for t in found.trials if t.why.startswith("behind")]
    assert len(stopped) > 5
    for trial in stopped:
        rung = len(trial.rungs) - 1
        earlier = [t for t in found.trials if t.number < trial.number and len(t.rungs) > rung]
        assert max(t.rungs[rung].accuracy for t in earlier) > trial.accuracy


# Inference


def test_each_architecture_is_asked_for_once_and_never_during_training():
    served = Served()

    def training(config, budget, state):
        served.is_training = True
        try:
            threading.Event().wait(0.002)  # longer than it takes to ask
            return train(config, budget, state)
        finally:
            served.is_training = False

    found = tune.search(
        training, {"size": SIZES, "lr": RATES}, accuracy=0.99, p99_s=0.007, deployable=served,
        trials=20,
    )  # fmt: skip
    assert len(served.asked) == len({a["size"] for a in served.asked}) <= len(SIZES)
    assert all(list(a) == ["size"] for a in served.asked)
    too_slow = [t for t in found.trials if t.config["size"] >= 4 and t.status == "stopped"]
    # After the first trial of an architecture that is too slow, no other one is trained.
    untrained = [t for t in too_slow if t.inference is not None and not t.rungs]
    assert len([t for t in too_slow if t.inference is not None and t.rungs]) <= 2
    assert untrained


def test_only_accurate_networks_are_measured_where_that_takes_longer_than_training():
    class Slow(Served):
        def latency(self, **architecture):
            threading.Event().wait(0.05)  # longer than all rungs of nothing
            return super().latency(**architecture)

    served = Slow()
    found = tune.search(
        train, {"size": list(range(1, 41))}, accuracy=0.97, p99_s=10.0, deployable=served, trials=20
    )
    first = served.asked[0]["size"]  # with which it was learnt how long it takes
    accurate = {t.config["size"] for t in found.trials if t.rungs and t.accuracy >= 0.97}
    assert accurate
    assert {a["size"] for a in served.asked} == accurate | {first}


def test_an_architecture_can_be_named():
    class Bare:
        def latency(self, **architecture):
            assert list(architecture) == ["size"]
            return SimpleNamespace(mean_s=0.001, p99_s=0.002)

    found = tune.search(
        train, {"size": SIZES}, accuracy=0.5, p99_s=0.1, deployable=Bare(), architecture=["size"],
        trials=3,
    )  # fmt: skip
    assert found.deployment.p99_s == 0.002
    with pytest.raises(UsageError, match="architecture"):
        tune.search(train, {"size": SIZES}, accuracy=0.5, p99_s=0.1, deployable=Bare())
    with pytest.raises(UsageError, match="size"):
        tune.search(train, {"size": SIZES}, accuracy=0.5, deployable=Bare(), architecture=["sise"])


# Failures and bad input


@pytest.mark.parametrize(
    ("returned", "word"),
    [(math.nan, "nan"), (math.inf, "inf"), (1.7, "1.7"), (-0.1, "-0.1"), (None, "NoneType"),
     ("good", "str"), (tune.Progress(math.nan), "nan"), (tune.Progress(0.9, None, "much"), "str"),
     (tune.Progress(0.9, None, math.inf), "inf")],
)  # fmt: skip
def test_an_accuracy_that_is_none_fails_its_trial_and_no_other(returned, word):
    def training(config, budget, state):
        return returned if config["size"] == 2 else train(config, budget, state)

    found = tune.search(training, {"size": SIZES}, accuracy=0.8, trials=4)
    (failed,) = found.failed
    assert failed.config["size"] == 2
    assert word in failed.why
    assert found.best is not None
    assert f"trial {failed.number}" in str(found)


def test_an_error_in_one_trial_is_told_and_does_not_stop_the_rest():
    def training(config, budget, state):
        if config["size"] == 4 and budget.rung == 1:
            raise RuntimeError("out of memory\nat layer 3")
        return train(config, budget, state)

    told = []
    found = tune.search(training, {"size": SIZES}, accuracy=1.0, trials=4, progress=told.append)
    assert [t.number for t in told] == [t.number for t in found.trials]
    failed = [t for t in found.trials if t.status == "failed"]
    assert [t.why for t in failed] == ["RuntimeError: out of memory"] or failed == []
    assert len(found.trials) == 4


def test_a_latency_that_fails_fails_its_trial_only():
    class Broken(Served):
        def latency(self, **architecture):
            if architecture["size"] == 8:
                raise ValueError("no batch dimension")
            return super().latency(**architecture)

    found = tune.search(
        train, {"size": SIZES}, accuracy=0.8, p99_s=1.0, deployable=Broken(), trials=4
    )
    assert [t.why for t in found.failed] in ([], ["ValueError: no batch dimension"])
    assert found.best.config["size"] != 8


def test_if_every_trial_fails_the_first_reason_is_raised():
    def training(config, budget, state):
        raise OSError("no such data")

    with pytest.raises(NothingUsableError, match="no such data"):
        tune.search(training, {"size": SIZES}, accuracy=0.8, trials=3)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"accuracy": 95}, "0.95"),
        ({"accuracy": 1.01}, "accuracy"),
        ({"accuracy": 0}, "accuracy"),
        ({"accuracy": None}, "accuracy"),
        ({"hyper": {}}, "hyperparameters"),
        ({"hyper": {"size": [2]}}, "one value"),
        ({"hyper": {"size": 2}, "system": {"threads": [1]}}, "one value"),
        ({"hyper": {"size": []}}, "size"),
        ({"hyper": {"size": [None, [1]]}}, "NoneType"),
        ({"hyper": {"size": {"from": 3, "to": 1}}}, "size"),
        ({"system": {"size": [1, 2]}}, "size"),
        ({"p99_s": 0.01}, "deployable"),
        ({"p99_s": -1, "deployable": Served()}, "p99_s"),
        ({"objective": "ratio"}, "deployable"),
        ({"objective": "tiem"}, "time"),
        ({"stop_after": 0}, "stop_after"),
        ({"time_limit_s": 0}, "time_limit_s"),
        ({"budget": "epoch"}, "epochs"),
        ({"trials": 0}, "trials"),
    ],
)
def test_a_wrong_call_is_refused_before_any_training(given, word):
    def training(config, budget, state):
        raise AssertionError("trained")

    options = {"hyper": {"size": SIZES}, "accuracy": 0.9, **given}
    with pytest.raises(UsageError, match=word):
        tune.search(training, **options)


def test_energies_that_nobody_tells_are_refused_at_the_first_trial():
    with pytest.raises(UsageError, match="energy_j"):
        tune.search(train, {"size": SIZES}, objective="energy-ratio", deployable=Served(), trials=3)


def test_one_value_is_fine_beside_others():
    found = tune.search(train, {"size": SIZES, "lr": 0.03}, accuracy=0.5, trials=3)
    assert {t.config["lr"] for t in found.trials} == {0.03}


# Storage


def settings_of(found):
    return [(t.config, [(r.iteration, r.accuracy) for r in t.rungs]) for t in found.trials]


def test_the_same_seed_draws_the_same_trials_and_another_draws_others():
    def run(seed):
        return settings_of(
            tune.search(train, {"size": SIZES, "lr": RATES}, accuracy=1.0, trials=10, seed=seed)
        )

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_a_search_goes_on_where_it_stopped_and_retrains_the_best(tmp_path):
    place, trained = tmp_path / "search.db", []

    def training(config, budget, state):
        trained.append(config)
        return train(config, budget, state)

    options = {"hyper": {"size": SIZES, "lr": RATES}, "accuracy": 0.8, "storage": place}
    first = tune.search(training, trials=8, **options)
    assert first.model == [r.rung for r in first.best.rungs]
    trained.clear()
    again = tune.search(training, trials=8, **options)
    assert again.best == first.best
    assert again.model == first.model
    assert [c for c in trained if c != first.config] == []
    assert any("trained again" in note for note in again.notes)
    assert len(tune.search(training, trials=10, **options).trials) == 10


def test_the_file_is_a_study_that_optuna_reads(tmp_path):
    place = tmp_path / "search.db"
    found = tune.search(train, {"size": SIZES}, accuracy=0.8, trials=4, storage=place)
    (name,) = optuna.get_all_study_names(f"sqlite:///{place}")
    study = optuna.load_study(study_name=name, storage=f"sqlite:///{place}")
    assert [study.trials[t.number].params for t in found.trials] == [t.config for t in found.trials]


def test_a_storage_of_another_search_is_refused(tmp_path):
    place = tmp_path / "search.db"
    tune.search(train, {"size": SIZES}, accuracy=0.8, trials=2, storage=place)
    with pytest.raises(StorageError, match="goal"):
        tune.search(train, {"size": SIZES}, accuracy=0.9, trials=2, storage=place)
    with pytest.raises(StorageError, match="space"):
        tune.search(train, {"size": [1, 2]}, accuracy=0.8, trials=2, storage=place)


def test_a_file_that_is_no_study_is_refused(tmp_path):
    place = tmp_path / "search.db"
    place.write_text("this is not a database, and long enough to be sure of that\n" * 10)
    with pytest.raises(StorageError, match=r"search\.db"):
        tune.search(train, {"size": SIZES}, accuracy=0.8, trials=2, storage=place)


KILLED = """
import sys, time
from pathlib import Path
sys.path[:0] = {path!r}
from foretell import tune
from test_search import train, SIZES, RATES

place, marker, wanted = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
seen = []

def training(config, budget, state):
    if config not in seen:
        seen.append(config)
    if len(seen) == wanted and budget.rung > 0:
        marker.write_text("here")
        time.sleep(600)
    return train(config, budget, state)

tune.search(training, {{"size": SIZES, "lr": RATES}}, accuracy=1.0, trials=12, storage=place)
"""


def test_a_search_killed_with_sigkill_goes_on_as_if_it_had_not_been(tmp_path):
    place, marker = tmp_path / "search.db", tmp_path / "marker"
    script = KILLED.format(path=[str(Path(__file__).parent), *sys.path])
    for wanted in (1, 3):
        process = subprocess.Popen([sys.executable, "-c", script, place, marker, str(wanted)])
        try:
            while not marker.exists() and process.poll() is None:
                threading.Event().wait(0.02)
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        marker.unlink()
    options = {"hyper": {"size": SIZES, "lr": RATES}, "accuracy": 1.0, "trials": 12}
    resumed = tune.search(train, storage=place, **options)
    undisturbed = tune.search(train, **options)
    assert settings_of(resumed) == settings_of(undisturbed)
    assert [t.number for t in resumed.trials] == [t.number for t in undisturbed.trials]


@pytest.mark.parametrize("prefix", ["", "sqlite:///"])
def test_two_processes_do_not_write_to_one_storage(tmp_path, prefix):
    place = f"{prefix}{tmp_path / 'search.db'}"

    def training(config, budget, state):
        with pytest.raises(StorageError, match="storage"):
            tune.search(train, {"size": SIZES}, accuracy=0.8, trials=2, storage=place)
        return train(config, budget, state)

    found = tune.search(training, {"size": SIZES}, accuracy=0.8, trials=2, storage=place)
    assert not found.failed


def test_a_trial_under_way_on_a_server_is_left_to_its_process(tmp_path, monkeypatch):
    storage = f"sqlite:///{tmp_path / 'search.db'}"

    def interrupted(config, budget, state):
        raise KeyboardInterrupt

    options = {"hyper": {"size": SIZES}, "accuracy": 0.8, "trials": 2, "storage": storage}
    with pytest.raises(KeyboardInterrupt):
        tune.search(interrupted, **options)
    with monkeypatch.context() as patched:  # no file: a server
        patched.setattr("foretell.tune.onefold.study._file_of", lambda storage: None)
        found = tune.search(train, **options)
    assert 0 not in {t.number for t in found.trials}
    (name,) = optuna.get_all_study_names(storage)
    states = [t.state.name for t in optuna.load_study(study_name=name, storage=storage).trials]
    assert states[0] == "RUNNING"
    more = tune.search(train, **{**options, "trials": 3})  # nobody else has the file
    assert len(more.trials) == 3
    assert more.trials[0].number == 0


def test_a_stored_search_goes_on_for_the_same_deployment_and_machine_only(tmp_path, monkeypatch):
    class Asked(Served):
        def __init__(self, scenario):
            super().__init__()
            self.depends_on = {"scenario": scenario}

    def run(scenario="offline", **options):
        return tune.search(
            train, {"size": SIZES, "lr": RATES}, accuracy=0.5, p99_s=1.0, trials=2,
            deployable=Asked(scenario), storage=tmp_path / "search.db", **options,
        )  # fmt: skip

    first = run()
    assert run().trials == first.trials
    with pytest.raises(StorageError, match="another scenario of the deployable;"):
        run("single-stream")
    with pytest.raises(StorageError, match="another architecture;"):
        run(architecture=["size", "lr"])
    here = machine.describe_machine()
    monkeypatch.setattr(machine, "describe_machine", lambda: {**here, "cpu": "another one"})
    with pytest.raises(StorageError, match="another machine;"):
        run()


def test_a_deployable_tells_what_its_latencies_depend_on(tmp_path, monkeypatch):
    (tmp_path / "net.py").touch()
    monkeypatch.chdir(tmp_path)

    def told(*asked, **options):
        return foretell.Deployable("net.py:build", *asked, **options).depends_on

    same = told((1, 28), "offline", vary={"batch": [1, 2]}, cache=None)
    assert told("1,28", "offline", vary={"batch": [1, 2]}, progress=print) == same
    for other in (
        told((1, 32), "offline", vary={"batch": [1, 2]}),
        told((1, 28), "poisson:9/s", vary={"batch": [1, 2]}),
        told((1, 28), "offline", vary={"batch": [1, 4]}),
        told((1, 28), "offline", vary={"batch": [1, 2]}, overhead_s=0.1),
    ):
        assert other != same


def test_energies_of_any_library_can_be_stored(tmp_path):
    def measured(config, budget, state):
        return tune.Progress(curve(config, budget), state, energy_j=np.float32(config["size"]))

    def run():
        return tune.search(
            measured, {"size": SIZES}, objective="energy-ratio", deployable=Served(), trials=2,
            storage=tmp_path / "search.db",
        )  # fmt: skip

    assert run().trials == run().trials
    assert run().best.energy_j == 5 * run().config["size"]


LOADS_TORCH = """
import sys
from foretell import tune

def train(config, budget, state):
    import torch
    print(torch.get_num_threads())
    return 0.1

assert "torch" not in sys.modules
tune.search(train, {"size": [1, 2]}, system={"threads": [3]}, accuracy=0.9, trials=1)
"""


def test_threads_hold_from_the_first_rung_on_if_training_loads_torch_itself():
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", LOADS_TORCH], capture_output=True, text=True, check=False
    )
    assert set(done.stdout.split()) == {"3"}, done.stderr
