"""Product mode: predicted epoch times choose the setting, and probes are made only if they pay."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from foretell.decide.tuning.epoch_process import EpochProcess, Epochs, Ratio
from foretell.decide.tuning.probing import Expected, is_better, n_probes, next_probe
from foretell.executors.cores import single_blas_thread
from foretell.tune.hook.clock import Measured
from foretell.tune.hook.policy import (
    Choice,
    Grid,
    Moment,
    Objective,
    Setting,
    setting_text,
)
from foretell.tune.hook.steadiness import MOST_LOAD
from foretell.tune.store import EpochRow, Store
from foretell.tune.store.rows import PROBE, STEADY, WARM_UP, packed

#: How many groups of epochs are kept in mind; comparing takes time that grows with their number.
_MOST_GROUPS = 100
_MOST_ROWS = 2000
#: An epoch that others disturbed counts as a part of one.
_DISTURBED = 0.25
#: What is saved under an objective, in words; the last stands for throughput while others train.
_SAVED = {
    "latency": "less time", "throughput": "less time", "energy": "less energy (modelled)",
    "cost": "less cost", "shared": "fewer core-seconds",
}  # fmt: skip


class Model(Protocol):
    """A fitted model of epoch times."""

    def ratio(self, hyper: Mapping[str, float | str], setting: Setting, than: Setting, *,
              is_shared: bool) -> Ratio | None:  # fmt: skip
        """Compare two settings; None where the model has not seen such trainings."""


class ProductPolicy:
    """Compares settings by all epochs of the job, and tries one if that should pay."""

    def __init__(
        self, store: Store, grid: Grid, objective: Objective, *, job: str, trial: str,
        hyper: Mapping[str, float | str], share: bool = False,
    ) -> None:  # fmt: skip
        self.grid, self._objective, self._hyper = grid, objective, dict(hyper)
        rows = store.rows(job, share=share, most=_MOST_ROWS)
        self._n_probed = sum(r.trial == trial and r.phase == PROBE for r in rows)
        self._past = groups(rows, tuple(grid.start))
        self._own: dict[object, Epochs] = {}
        self._measured: set[str] = set()
        self._n_own, self._last = 0, (0, False, False)
        self._now = grid.start
        self._process: EpochProcess | None = None
        #: A fitted model, as soon as there is one.
        self.model: Model | None = None

    @property
    def now(self) -> Setting:
        """The best setting known so far."""
        return self._now

    def choose(self, moment: Moment) -> Choice:
        """Return the best setting known, or one to try."""
        if self._now not in self.grid.settings:  # it was refused since
            self._now, self._last = self.grid.start, (0, False, False)
        if not self._is_due(moment):
            return Choice(self._now, _phase(moment))
        with single_blas_thread():
            found = self._choose(moment)
        self._n_probed += found.phase == PROBE  # even if it is given up, and never observed
        self._last = (moment.n_left, moment.is_shared, found.phase == PROBE)
        return found

    def _is_due(self, moment: Moment) -> bool:
        """Tell whether to think again: it takes time, and seldom changes anything later on."""
        n_left, was_shared, was_probe = self._last
        is_new = moment.n_left >= n_left or moment.is_shared != was_shared or was_probe
        return is_new or self._n_own & (self._n_own - 1) == 0

    def _choose(self, moment: Moment) -> Choice:
        reason = ""
        candidates = self.grid.settings
        if len(candidates) < 2:
            return Choice(self._now, _phase(moment))
        expected = {packed(s): self._expected(s, moment) for s in candidates if s != self._now}
        known = [s for s in candidates if s != self._now and self._is_known(expected[packed(s)])]
        best = min(known, key=lambda s: expected[packed(s)].median, default=None)
        if best is not None and is_better(expected[packed(best)].median, than=1.0):
            reason = self._words(best, expected[packed(best)], moment)
            self._now = best
            expected = {packed(s): self._expected(s, moment) for s in candidates if s != best}
        if not moment.is_first:
            untried = [expected[packed(s)] for s in candidates if packed(s) in expected]
            untried = [e for e in untried if not self._was_measured(e.setting)]
            left = n_probes(moment.n_epochs or 0) - self._n_probed
            found = next_probe(untried, 1.0, n_left=moment.n_left, n_probes_left=left)
            if found is not None:
                setting = next(s for s in candidates if packed(s) == found)
                trying = f"trying {setting_text(setting)}"
                return Choice(setting, PROBE, f"{reason}; {trying}" if reason else trying)
        return Choice(self._now, _phase(moment), reason)

    def observe(self, choice: Choice, moment: Moment, measured: Measured) -> None:
        """Take note of an epoch of this training."""
        self._n_own += 1
        weight = 1.0 if measured.load_others <= MOST_LOAD else _DISTURBED
        epochs = Epochs(
            self._hyper, choice.setting, math.log(measured.epoch_s), weight,
            moment.is_first, moment.is_shared,
        )  # fmt: skip
        key = packed(choice.setting)
        if not moment.is_first:
            self._measured.add(key)
        group = (key, moment.is_first, moment.is_shared)
        known = self._own.get(group)
        self._own[group] = epochs if known is None else _mean([known, epochs])
        self._process = None

    def _expected(self, setting: Setting, moment: Moment) -> Expected[str]:
        """Return what an epoch costs under a setting, as a multiple of what it costs now."""
        ratio = self._ratio(setting, moment)
        weights = [
            self._objective.weight(self.grid.n_cores(s), is_shared=moment.is_shared)
            for s in (setting, self._now)
        ]
        factor = weights[0] / weights[1]
        return Expected(packed(setting), factor * ratio.low, factor * ratio.high, ratio.is_inside)

    def _ratio(self, setting: Setting, moment: Moment) -> Ratio:
        asked = (self._hyper, setting, self._now)
        if self.model is not None and not self._was_measured(packed(setting)):
            found = self.model.ratio(*asked, is_shared=moment.is_shared)
            if found is not None:
                return found
        if self._process is None:
            rows = [*self._past, *self._own.values()][-_MOST_GROUPS:]
            self._process = EpochProcess(rows, self.grid.priors())
        return self._process.ratio(*asked, is_shared=moment.is_shared)

    def _is_known(self, expected: Expected[str]) -> bool:
        """Tell whether a setting may be chosen without trying it, or was tried."""
        is_sure = is_better(expected.high, than=1.0)
        return is_sure or expected.is_inside or self._was_measured(expected.setting)

    def _was_measured(self, key: str) -> bool:
        return key in self._measured

    def _words(self, setting: Setting, expected: Expected[str], moment: Moment) -> str:
        source = "measured" if self._was_measured(packed(setting)) else "predicted"
        name = self._objective.name
        saved = _SAVED["shared" if name == "throughput" and moment.is_shared else name]
        share = 100 * (1 - expected.median)
        return f"{setting_text(setting)}: {share:.0f} % {saved} per epoch ({source})"


def _phase(moment: Moment) -> str:
    return WARM_UP if moment.is_first else STEADY


def groups(rows: list[EpochRow], knobs: tuple[str, ...]) -> list[Epochs]:
    """Join the epochs of each trial under each setting; rows without these knobs are left out.

    >>> row = EpochRow("lenet", "t1", 1, "steady", {"lr": 0.1}, {"threads": 2, "cpus": 2}, 1.0)
    >>> found = groups([row, row], ("threads",))
    >>> found[0].system, found[0].n, len(found)
    ({'threads': 2}, 2, 1)
    """
    found: dict[object, list[Epochs]] = {}
    for row in rows:
        if not all(name in row.system for name in knobs):
            continue
        system = {name: row.system[name] for name in knobs}
        epochs = Epochs(
            dict(row.hyper), system, math.log(row.epoch_s),
            is_warm_up=row.phase == WARM_UP, is_shared=row.n_siblings > 0,
        )  # fmt: skip
        key = (row.trial, packed(system), epochs.is_warm_up, epochs.is_shared)
        found.setdefault(key, []).append(epochs)
    return [_mean(each) for each in found.values()]


def _mean(epochs: list[Epochs]) -> Epochs:
    first, n = epochs[0], sum(e.n for e in epochs)
    mean = sum(e.n * e.log_s for e in epochs) / n
    return Epochs(first.hyper, first.system, mean, n, first.is_warm_up, first.is_shared)
