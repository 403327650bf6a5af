"""Paper mode, PipeTune as published: profile, look for a similar one, reuse or probe."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from foretell.decide.tuning.probing import LEAST_EPOCHS
from foretell.decide.tuning.similarity import make_clusters, n_clustered
from foretell.tune.hook.clock import Measured
from foretell.tune.hook.policy import Choice, Grid, Moment, Objective, Setting, setting_text
from foretell.tune.hook.profile import Profiler
from foretell.tune.store import ProfileRow, Store
from foretell.tune.store.rows import PROBE, STEADY, WARM_UP, packed

#: Names under which trainings usually have their batch size.
_BATCH = ("batch_size", "batch", "bs")


class PaperPolicy:
    """Profiles the second epoch; a known profile reuses a setting, an unknown one tries them all.

    The first epoch is a warm-up, and the second is profiled, both under the setting that held
    before. Settings are compared by epoch time alone.
    """

    def __init__(
        self, store: Store, grid: Grid, objective: Objective, *, job: str, trial: str,
        hyper: Mapping[str, float | str], share: bool = False,
    ) -> None:  # fmt: skip
        self._store, self.grid, self._job, self._trial = store, grid, job, trial
        self._batch = packed({n: hyper[n] for n in _BATCH if n in hyper})
        self._profiler = Profiler()
        self._chosen: Setting | None = None
        self._times: dict[str, list[float]] = {}
        self._to_try: list[Setting] = []
        self._profile: ProfileRow | None = None
        known = [row for row in store.profiles() if (row.job, row.trial) == (job, trial)]
        if known:
            self._go_on(known[0])

    def choose(self, moment: Moment) -> Choice:
        """Return the setting of the next epoch."""
        if self._chosen is not None and self._chosen not in self.grid.settings:  # refused since
            self._chosen = None
            self._take_over(())
        if (moment.n_epochs or 0) < LEAST_EPOCHS:
            return Choice(self.grid.start, WARM_UP if moment.is_first else STEADY)
        if moment.is_first:
            return Choice(self._chosen or self.grid.start, WARM_UP)
        if self._profile is None:
            self._profiler.start()
            return Choice(self.grid.start, STEADY)
        if self._chosen is not None:
            return Choice(self._chosen, STEADY)
        self._to_try = [s for s in self._to_try if s in self.grid.settings]
        if not self._to_try:
            return self._choose_best()
        setting = self._to_try.pop(0)
        return Choice(setting, PROBE, f"trying {setting_text(setting)}")

    def observe(self, choice: Choice, moment: Moment, measured: Measured) -> None:
        """Take note of an epoch, and of its profile if it is the second."""
        if moment.is_first or (moment.n_epochs or 0) < LEAST_EPOCHS:
            return
        self._times.setdefault(packed(choice.setting), []).append(measured.epoch_s)
        if self._profile is None:
            self._compare(self._profiler.stop())

    def _go_on(self, profile: ProfileRow) -> None:
        """Go on with a training that was profiled before it was paused."""
        for row in self._store.rows(self._job):
            if row.trial == self._trial and row.phase != WARM_UP:
                key = packed({name: row.system.get(name) for name in self.grid.start})
                self._times.setdefault(key, []).append(row.epoch_s)
        self._profile = profile
        like = [profile] if profile.best in self.grid.settings else self._like(profile.counters)
        self._take_over(like)

    def _compare(self, counters: dict[str, float]) -> None:
        """Keep a profile, and decide what to do from the next epoch on."""
        like = self._like(counters)
        self._profile = ProfileRow(self._job, self._trial, self._batch, counters, bool(like))
        self._store.add_profile(self._profile)
        self._take_over(like)

    def _like(self, counters: Mapping[str, float]) -> list[ProfileRow]:
        """Return similar profiles whose best setting this training can have."""
        past = self._store.profiles()
        made = n_clustered([row.was_known for row in past])
        clusters = make_clusters([row.counters for row in past[:made]])
        cluster = clusters.known(counters) if clusters is not None else None
        return [
            row
            for row in past
            if clusters is not None
            and cluster is not None
            and row.batch == self._batch
            and row.best in self.grid.settings
            and clusters.nearest(row.counters) == cluster
        ]

    def _take_over(self, like: Sequence[ProfileRow]) -> None:
        """Take over the best setting of similar trainings; without any, try all settings."""
        if like:
            self._chosen = dict(min(like, key=lambda row: row.best_s).best)
        else:
            self._to_try = [s for s in self.grid.settings if packed(s) not in self._times]

    def _choose_best(self) -> Choice:
        """End the probes: the fastest setting stays, and is stored."""
        timed = [s for s in self.grid.settings if packed(s) in self._times]
        self._chosen = min(timed, key=self._typical_s, default=self.grid.start)
        assert self._profile is not None
        if timed:
            best_s = self._typical_s(self._chosen)
            self._store.add_profile(replace(self._profile, best=self._chosen, best_s=best_s))
        return Choice(self._chosen, STEADY, f"{setting_text(self._chosen)}: fastest (measured)")

    def _typical_s(self, setting: Setting) -> float:
        return statistics.median(self._times[packed(setting)])
