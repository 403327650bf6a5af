"""How much sooner searches end, played from measured epochs (simulated): no other program disturbs.

    python -m benchmarks.tune_played [--seeds 20]

It also tells how good the settings are that the three lines end with, beside the best of all.

The epochs are those of LeNet in `examples/tune/epochs.csv`. The policy of the three lines, the
choice of the first lease and the schedulers are those of the package; trials, their order and
their values are the same in each way. Two trainings with one thread each on two cores are taken to
be as fast as alone, and threads beyond the cores to share them evenly.
"""

from __future__ import annotations

import argparse
import heapq
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.tune_table import compare, pairs_of
from foretell.decide.tuning.probing import epochs_to_rung
from foretell.decide.tuning.rungs import Rules
from foretell.decide.tuning.search import Search
from foretell.tune import open_store
from foretell.tune.hook.clock import Measured
from foretell.tune.hook.policy import Grid, Moment, Objective
from foretell.tune.hook.product import ProductPolicy
from foretell.tune.knobs.threads import ThreadsKnob
from foretell.tune.store import EpochRow, Store
from foretell.tune.store.rows import WARM_UP

EPOCHS = Path(__file__).parents[1] / "examples" / "tune" / "epochs.csv"
MAX_EPOCHS, RUNGS, N_CORES, N_TRIALS = 9, (1, 3, 9), 2, 27
#: What the first trial of a slot and each later one take before their first epoch, in seconds.
FIRST_START_S, LATER_START_S = 5.0, 0.5
#: By how much equal epochs differ, in logarithms, and a first one from later ones.
NOISE, WARM_UP_FACTOR = 0.03, 1.1
#: The three lines try nothing in shorter trainings.
LEAST_EPOCHS = 3
#: A setting is as good as the best if its epochs take at most so much longer.
AS_GOOD = 1.05
#: Seconds of an epoch by filters, batch size and threads.
Times = dict[tuple[int, int, int], float]
WAYS = ("v1", "static 1", "static 2x1", "v2", "hook cold", "hook warm", "ours cold", "ours warm")


class PlayedThreads(ThreadsKnob):
    """Threads of a training that is not there."""

    def __init__(self, value: int) -> None:
        self.value = value

    def read(self) -> int:
        return self.value


def drawn_trials(seed: int, n_trials: int = N_TRIALS) -> list[dict[str, Any]]:
    """Draw the trials of a search: hyperparameters, how good they are, and threads for v2."""
    random = np.random.default_rng([15, seed])
    return [
        {
            "hyper": {"filters": int(random.choice([4, 8, 16])),
                      "batch_size": int(random.choice([16, 32, 64, 128]))},
            "value": float(random.random()), "threads": int(random.choice([1, 2])),
            "noise": random.normal(0, NOISE, MAX_EPOCHS),
        }
        for _ in range(n_trials)
    ]  # fmt: skip


def measured_times() -> Times:
    """Return the measured times of epochs."""
    table = pd.read_csv(EPOCHS).groupby(["filters", "batch_size", "threads"])["epoch_s"]
    return {tuple(map(int, key)): float(time) for key, time in table.median().items()}


def made_up_times(seed: int) -> Times:
    """Make up what a second thread does: it may slow epochs down, and more so for small batches."""
    random = np.random.default_rng([16, seed])
    usual, by_batch, by_width = random.normal(0.0, (0.3, 0.25, 0.25))
    found = {}
    for (filters, batch, threads), time_s in measured_times().items():
        if threads == 1:
            slower = usual + by_batch * np.log2(batch / 45) + by_width * np.log2(filters / 8)
            found[filters, batch, 1] = time_s
            found[filters, batch, 2] = time_s * float(np.exp(slower))
    return found


class PlayedSearch:
    """One search in one way, in played seconds."""

    def __init__(
        self, way: str, seed: int, scheduler: str, store: Store, times: Times | None = None
    ) -> None:
        from foretell.tune.ray import first_lease

        self.way, self.store, self.name = way, store, f"{scheduler}-{seed}-{way}"
        cpus = {"static 1": 1, "ours": first_lease(store, "lenet", cpus=(1, N_CORES))}
        self.cpus = cpus.get(way, cpus.get(way.split()[0], N_CORES))
        self.trials = drawn_trials(seed)
        self.n_slots = N_CORES // self.cpus
        rules = Rules(MAX_EPOCHS, 3)
        self.scheduler = Search(scheduler, len(self.trials), rules, self.n_slots).make(seed)
        self.policies: dict[int, ProductPolicy] = {}
        self.n_done = [0] * len(self.trials)
        self.epoch_s = times or measured_times()
        self.busy: list[tuple[float, int, int]] = []

    def play(self) -> float:
        """Return when the last trial ends."""
        free, now_s, starts = list(range(self.n_slots)), 0.0, dict.fromkeys(range(self.n_slots), 0)
        while True:
            while free and (trial := self.scheduler.next_trial()) is not None:
                slot = free.pop(0)
                start_s = LATER_START_S if starts[slot] else FIRST_START_S
                starts[slot] += 1
                self._begin(now_s + start_s, slot, trial)
            if not self.busy:
                return now_s
            now_s, slot, trial = heapq.heappop(self.busy)
            decision = "go on"
            if self.n_done[trial] >= self.until[trial]:
                value = self.trials[trial]["value"]
                decision = self.scheduler.reached(trial, self.n_done[trial], value)
            if decision == "go on":
                self._begin(now_s, slot, trial)
            else:
                free.append(slot)

    def over_best(self) -> list[float]:
        """Return how long epochs take under the last setting of each trial, of the best setting.

        Trials that are too short to try anything are left out.
        """
        found = []
        for trial, policy in self.policies.items():
            if self.n_done[trial] >= LEAST_EPOCHS:
                hyper = self.trials[trial]["hyper"].values()
                times = {n: self.epoch_s[(*hyper, n)] for n in (1, 2)}
                found.append(times[int(policy.now["threads"])] / min(times.values()))
        return found

    @property
    def until(self) -> dict[int, int]:
        return {t: self.scheduler.until(t, n - 1) for t, n in enumerate(self.n_done) if n}

    def _begin(self, now_s: float, slot: int, trial: int) -> None:
        """Train one epoch, and take note of it: nothing looks at it before it ends."""
        epoch, drawn = self.n_done[trial], self.trials[trial]
        moment = Moment(
            epoch, MAX_EPOCHS, epochs_to_rung(epoch, MAX_EPOCHS, RUNGS), epoch == 0, bool(self.busy)
        )
        policy = self._policy(trial)
        choice = policy.choose(moment) if policy is not None else None
        threads = choice.setting["threads"] if choice is not None else self._threads(trial)
        share = max(1.0, int(threads) * (len(self.busy) + 1) / N_CORES)
        seconds = self.epoch_s[(*drawn["hyper"].values(), threads)] * share
        seconds *= float(np.exp(drawn["noise"][epoch])) * (WARM_UP_FACTOR if epoch == 0 else 1.0)
        if policy is not None and choice is not None:
            n_others = int(moment.is_shared)
            policy.observe(choice, moment, Measured(seconds, seconds, 0.0, n_others))
            phase = WARM_UP if epoch == 0 else choice.phase
            row = EpochRow("lenet", f"{self.name}-{trial}", epoch, phase, drawn["hyper"],
                           choice.setting, seconds, n_siblings=n_others)  # fmt: skip
            self.store.add_epochs([row])
        self.n_done[trial] += 1
        heapq.heappush(self.busy, (now_s + seconds, slot, trial))

    def _threads(self, trial: int) -> int:
        chosen = {"static 2x1": 1, "v2": self.trials[trial]["threads"]}
        return chosen.get(self.way, self.cpus)

    def _policy(self, trial: int) -> ProductPolicy | None:
        if self.way.split()[0] not in ("hook", "ours"):
            return None
        if trial not in self.policies:
            grid = Grid({"threads": PlayedThreads(self.cpus)}, {"threads": [1, 2]})
            self.policies[trial] = ProductPolicy(
                self.store, grid, Objective("throughput", self.cpus), job="lenet",
                trial=f"{self.name}-{trial}", hyper=self.trials[trial]["hyper"],
            )  # fmt: skip
        return self.policies[trial]


def played(n_seeds: int) -> list[dict[str, Any]]:
    """Play all ways; those that are warm have the store of the cold search before."""
    rows = []
    for scheduler in ("asha", "hyperband"):
        for seed in range(n_seeds):
            stores = {kind: open_store(":memory:") for kind in ("hook", "ours")}
            for way in WAYS:
                store = stores.get(way.split()[0]) or open_store(":memory:")
                search = PlayedSearch(way, seed, scheduler, store)
                rows.append({"workload": "LeNet", "scheduler": scheduler, "way": way, "seed": seed,
                             "wall_s": search.play(), "n_epochs": sum(search.n_done),
                             "accuracy": 0.0})  # fmt: skip
    return rows


def share_as_good(n_seeds: int) -> dict[str, tuple[float, int]]:
    """Return the share of trials that end with a setting about as good as the best, of how many.

    For an empty store and a warm one, with made-up times, so that now one thread is best, now two.
    """
    found: dict[str, list[float]] = {"hook cold": [], "hook warm": []}
    for seed in range(n_seeds):
        store = open_store(":memory:")
        for way, ratios in found.items():
            search = PlayedSearch(way, seed, "hyperband", store, made_up_times(seed))
            search.play()
            ratios += search.over_best()
    return {way: (float(np.mean(np.array(r) <= AS_GOOD)), len(r)) for way, r in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    n_seeds = parser.parse_args().seeds
    pairs = pairs_of(played(n_seeds))
    for way, (share, n) in share_as_good(n_seeds).items():
        print(f"{way}: {share:.0%} of {n} trials end within 5 % of the best setting (bar 90 %)")
    for scheduler in ("asha", "hyperband"):
        print(f"{scheduler} (simulated)")
        print("way           played s   / v1   95 %         / best static")
        for row in compare(pair for key, pair in pairs.items() if key[1] == scheduler):
            print(
                f"{row.way:<12} {row.wall_s:9.1f} {row.ratio:6.2f}  {row.low:.2f} – {row.high:.2f}",
                f"{row.over_static:9.2f}",
            )


if __name__ == "__main__":
    main()
