"""Says what settings come to: by simulation of batches, from measured and modelled times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.decide.deployment.batch_times import BatchTimes, Times
from foretell.decide.deployment.formulas import parts_of
from foretell.decide.deployment.scenario import MULTI_STREAM, OFFLINE, SERVER, Scenario
from foretell.decide.deployment.settings import Figures, Setting
from foretell.simulate.batching import LONGEST_PAUSE_S, N_ARRIVALS, N_RUNS, play_runs

Array = NDArray[np.float64]
_N_ROUGH = 20_000
#: Bursts that are played. Of bursts of many batches fewer tell as much, as their times add up, and
#: memory is for so many times of batches.
_N_BURSTS, _MOST_TIMES = 20_000, 2_000_000


@dataclass(frozen=True, eq=False)
class Player:
    """Plays settings; the same seed for all, so that differences between them are their own.

    ``pause_s``: what a batch takes longer after a pause; None for that of the network.
    ``n_arrivals``: of each run of a server that is played thoroughly; ``n_rough``: roughly.
    """

    times: Times
    overhead_s: float = 0.0
    pause_s: float | None = None
    seed: int = 0
    n_arrivals: int = N_ARRIVALS
    n_rough: int = _N_ROUGH

    def __call__(
        self, setting: Setting, scenario: Scenario, *, sureness: float, is_rough: bool
    ) -> Figures:
        """Play a setting, with times longer by some standard errors; roughly, or thoroughly."""
        own = self.times[setting.threads]
        table = own.table(setting.batch, overhead_s=self.overhead_s, sureness=sureness)
        if scenario.name == SERVER:
            return self._server(own, table, setting, scenario.rate_per_s, is_rough=is_rough)
        if scenario.name == MULTI_STREAM:
            return self._bursts(own, table, setting, scenario)
        return _alone(own, table, setting, is_offline=scenario.name == OFFLINE)

    def _server(
        self, own: BatchTimes, table: Array, setting: Setting, rate_per_s: float, *, is_rough: bool
    ) -> Figures:
        n_runs, n_arrivals = (1, self.n_rough) if is_rough else (N_RUNS, self.n_arrivals)
        run = play_runs(
            table,
            rate_per_s=rate_per_s / setting.replicas,
            wait_s=setting.wait_s,
            pause_s=self._pause_s(own),
            n_runs=n_runs,
            n_arrivals=n_arrivals,
            seed=self.seed,
        )
        counts = np.bincount(run.sizes, minlength=len(table))
        core_s = _core_s(own, table, counts)
        return Figures(run.mean_s, run.p99_s, rate_per_s, run.busy, run.mean_batch, core_s)

    def _pause_s(self, own: BatchTimes) -> float:
        return own.pause_s if self.pause_s is None else self.pause_s

    def _bursts(
        self, own: BatchTimes, table: Array, setting: Setting, scenario: Scenario
    ) -> Figures:
        each = -(-scenario.n_samples // setting.replicas)
        sizes = np.array(parts_of(each, setting.batch))
        n_bursts = min(_N_BURSTS, -(-_MOST_TIMES // len(sizes)))
        random = np.random.default_rng(self.seed)
        draws = random.integers(0, table.shape[1], (len(sizes), n_bursts))
        ends = np.cumsum(table[sizes[:, None], draws], axis=0)
        idle_s = max(0.0, scenario.every_s - float(ends[-1].mean()))
        ends += self._pause_s(own) * min(1.0, idle_s / LONGEST_PAUSE_S)
        mean_s = float(sizes @ ends.mean(axis=1)) / each
        counts = np.bincount(sizes, minlength=len(table))
        return Figures(
            mean_s,
            float(np.quantile(ends[-1], 0.99)),
            scenario.n_samples / scenario.every_s,
            float(ends[-1].mean() / scenario.every_s),
            each / len(sizes),
            _core_s(own, table, counts),
        )


def _alone(own: BatchTimes, table: Array, setting: Setting, *, is_offline: bool) -> Figures:
    """Return figures of batches one after the other, without a pause."""
    times = table[setting.batch]
    counts = np.bincount([setting.batch], minlength=len(table))
    mean_s = float(times.mean())
    per_s = setting.batch * setting.replicas / mean_s
    p99_s = float(np.quantile(times, 0.99))
    return Figures(mean_s, p99_s, per_s, 1.0, setting.batch, _core_s(own, table, counts))


def _core_s(own: BatchTimes, table: Array, counts: NDArray[Any]) -> float:
    """Return CPU seconds per sample, for batches of which so many are of each size."""
    sizes = np.flatnonzero(counts)
    means = table.mean(axis=1)
    used = sum(counts[s] * means[s] * own.busy_cores(float(s)) for s in sizes)
    return float(used / (counts[sizes] * sizes).sum())
