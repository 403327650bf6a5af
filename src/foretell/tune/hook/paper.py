"""Paper mode, PipeTune as published: profile, look for a similar one, reuse or probe."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

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
        self._store, self._grid, self._job, self._trial = store, grid, job, trial
        self._batch = packed({n: hyper[n] for n in _BATCH if n in hyper})
        self._profiler = Profiler()
        self._n_seen = 0
        self._chosen: Setting | None = None
        self._times: dict[str, list[float]] = {}
        self._to_try: list[Setting] = []
        self._profile: ProfileRow | None = None

    def choose(self, moment: Moment) -> Choice:
        """Return the setting of the next epoch."""
        if (moment.n_epochs or 0) < LEAST_EPOCHS or moment.is_first:
            return Choice(self._grid.start, WARM_UP if moment.is_first else STEADY)
        if self._profile is None:
            self._profiler.start()
            return Choice(self._grid.start, STEADY)
        if self._chosen is None and self._to_try:
            setting = self._to_try.pop(0)
            return Choice(setting, PROBE, f"trying {setting_text(setting)}")
        if self._chosen is None:
            return self._choose_best()
        return Choice(self._chosen, STEADY)

    def observe(self, choice: Choice, moment: Moment, measured: Measured) -> None:
        """Take note of an epoch, and of its profile if it is the second."""
        if moment.is_first or (moment.n_epochs or 0) < LEAST_EPOCHS:
            return
        self._times.setdefault(packed(choice.setting), []).append(measured.epoch_s)
        if self._profile is None:
            self._compare(self._profiler.stop())

    def _compare(self, counters: dict[str, float]) -> None:
        """Look for a similar profile, and decide what to do from the next epoch on."""
        past = self._store.profiles()
        made = n_clustered([row.was_known for row in past])
        clusters = make_clusters([row.counters for row in past[:made]])
        cluster = clusters.known(counters) if clusters is not None else None
        like = [
            row
            for row in past
            if clusters is not None
            and cluster is not None
            and row.batch == self._batch
            and set(row.best) == set(self._grid.start)
            and clusters.nearest(row.counters) == cluster
        ]
        was_known = bool(like)
        self._profile = ProfileRow(self._job, self._trial, self._batch, counters, was_known)
        self._store.add_profile(self._profile)
        if was_known:
            self._chosen = dict(min(like, key=lambda row: row.best_s).best)
        else:
            self._to_try = [s for s in self._grid.settings if s != self._grid.start]

    def _choose_best(self) -> Choice:
        """End the probes: the fastest setting stays, and is stored."""
        medians = {key: statistics.median(times) for key, times in self._times.items()}
        best = min(medians, key=lambda key: medians[key])
        self._chosen = next(s for s in self._grid.settings if packed(s) == best)
        assert self._profile is not None
        row = self._profile
        self._store.add_profile(
            ProfileRow(row.job, row.trial, row.batch, row.counters, row.was_known,
                       self._chosen, medians[best])
        )  # fmt: skip
        return Choice(self._chosen, STEADY, f"{setting_text(self._chosen)}: fastest (measured)")
