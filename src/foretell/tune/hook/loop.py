"""The hook itself: around each epoch it sets, times and stores; it never stops a training."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, TypeVar

from foretell.decide.tuning.probing import epochs_to_rung
from foretell.errors import UsageError, error_lines
from foretell.tune.hook.background import ModelKeeper
from foretell.tune.hook.clock import Clock, Measured
from foretell.tune.hook.context import Context
from foretell.tune.hook.loader import TunedLoader, changes_results
from foretell.tune.hook.memory import n_gpu_failures, ran_out
from foretell.tune.hook.policy import Choice, Moment, Policy, Setting, setting_text
from foretell.tune.hook.steadiness import Steadiness
from foretell.tune.knobs import Knob, Surroundings
from foretell.tune.store import EpochRow, Store
from foretell.tune.store.rows import LEFT_OUT, PROBE
from foretell.wording import counted

LOG = logging.getLogger("foretell.tune")
T = TypeVar("T")

#: Knobs of loaders, and what Torch calls them.
_LOADER_OPTIONS = {"workers": "num_workers", "prefetch": "prefetch_factor"}
#: Why epochs are left out that were trained under another setting than the one chosen.
_NO_BATCH, _FIXED = "there was no batch under its setting", "a knob turned out to change results"
_ALLOWED = "changes_results=True allows that"
_NO_LOADER = "no loader was made with knobs.loader(dataset, ...)"
_NO_WORKERS = "loaders have no workers that could prepare batches ahead"
#: Trainings of this process that change what belongs to the process. There is no lock: a loop may
#: be collected, and leave, wherever a thread is, so that a lock could be waited for in a circle.
_ACTIVE: dict[int, tuple[Pipeline, threading.Thread]] = {}


class Pipeline:
    """The knobs of one training; ``pipeline`` makes it.

    Parameters
    ----------
    may_change
        Whether knobs may change what is learned.

    Attributes
    ----------
    reasons
        What was changed before which epoch, and why.
    """

    def __init__(
        self, context: Context, knobs: Mapping[str, Knob], store: Store, *,
        make_policy: Callable[[], Policy], hyper: Mapping[str, float | str],
        is_strict: bool = False, may_change: bool = False,
    ) -> None:  # fmt: skip
        self._context, self._knobs, self._store = context, dict(knobs), store
        self._make_policy, self._hyper, self.is_strict = make_policy, dict(hyper), is_strict
        self._may_change = may_change
        self.reasons: list[tuple[int, str]] = []
        self.is_aside = False
        self._clock, self._steadiness = Clock(store, self._n_here), Steadiness()
        self._start: Setting = {}
        self._given: set[str] = set()
        self._fixed: set[str] = set()
        self._with_workers: set[bool] = set()
        self._had_epoch = False
        self._given_up: Setting = {}
        self._probed: Setting | None = None
        self._n_gpu_failures = 0
        self._why_not: str | None = None
        self._policy: Policy | None = None
        self._keeper = ModelKeeper(store, context.job)
        self._undo_report: Callable[[], None] = lambda: None
        self._choice: Choice | None = None
        self._left_out: dict[int, str | None] = {}
        self._n_told = 0
        self._n_done, self._is_open, self._n_reports, self._is_stored = 0, False, 0, False

    # What users call

    def epochs(self, epochs: Iterable[T]) -> Iterator[T]:
        """Go through epochs, with the best known setting for each."""
        if not isinstance(epochs, Iterable):
            raise UsageError(f"epochs are gone through one by one, as in range(3), not {epochs!r}")
        total = _total(epochs)
        self.step(self.enter)
        try:
            for i, epoch in enumerate(epochs):
                number = epoch if isinstance(epoch, int) else i
                self.step(self.before, number, total)
                yield epoch
                self.step(self.after)
            self.step(self.complete)
        finally:
            self.leave()

    def loader(self, dataset: Any, **options: Any) -> Any:
        """Return a DataLoader of Torch whose workers are tuned, if they are among the knobs.

        Those that ``options`` name are where tuning starts, if the loader is made before the loop.
        Where they are not tuned, each loader has its own.
        """
        if self._policy is None:
            self.step(self._start_from, options)
        loader = TunedLoader(
            dataset, options, self._loader_options,
            fall_back=self._fall_back, give_up=lambda why: self.step(self._give_up, why),
        )  # fmt: skip
        fixed = {} if self._may_change else changes_results(dataset, options)
        fixed = {name: f"{why}; {_ALLOWED}" for name, why in fixed.items()}
        self._with_workers.add(bool(options.get("num_workers")))
        self.step(self._fix, fixed)
        return loader

    @property
    def setting(self) -> Setting:
        """The values that hold now."""
        return {name: knob.read() for name, knob in self._knobs.items()}

    def __str__(self) -> str:
        """Tell what was changed, and why."""
        if self.is_aside:
            return f"{self._context.job}: settings are left alone"
        last = self._choice.setting if self._choice else self.setting
        lines = [f"{self._context.job}: {setting_text(last)}"]
        lines += [f"  epoch {n}: {why}" for n, why in self.reasons]
        for why, n in Counter(filter(None, self._left_out.values())).items():
            lines.append(f"  left out of the store: {counted(n, 'epoch')}, because {why}")
        return "\n".join(lines)

    # The steps around an epoch; a Trainable calls them one by one

    def enter(self) -> None:
        """Begin a training."""
        for other in _abandoned():
            other.is_aside = True
            other.leave()
        _ACTIVE[id(self)] = (self, threading.current_thread())
        self._tell_store()
        self._start = self.setting
        self._policy = self._make_policy()
        self._refuse_others()
        self._keeper.begin()
        self._undo_report = self._context.on_report(self._reporting)

    def before(self, epoch: int, n_epochs: int | None) -> None:
        """Set what the next epoch needs, and begin to time it."""
        assert self._policy is not None
        self._refuse_company()
        self._refuse_without_loaders()
        self._keeper.look(self._policy, self._clock)
        self._moment = self._moment_of(epoch, n_epochs)
        choice = self._choice = self._policy.choose(self._moment)
        if choice.reason:
            self.reasons.append((epoch, choice.reason))
        if choice.phase == PROBE:
            self._store.begin_probe(self._context.job, self._context.trial, choice.setting)
            self._probed, self._n_gpu_failures = choice.setting, n_gpu_failures()
        self._why_not = None
        self._apply(choice.setting)
        self._is_open, self._n_reports, self._is_stored = True, 0, False
        self._clock.start()

    def after(self) -> None:
        """Take note of the epoch that has ended."""
        if not self._is_open:
            return
        self._is_open, self._had_epoch = False, True
        measured = self._clock.read()
        assert self._policy is not None and self._choice is not None
        self._keep(measured)
        if self._why_not is None:
            self._policy.observe(self._choice, self._moment, measured)
            self._steadiness.add(self._choice, self._moment, measured)
        self._n_done += 1

    def complete(self) -> None:
        """Take note that all epochs were trained."""
        if not self._n_done:  # a training that was complete before
            return
        self._store.add_end(
            self._context.job, self._context.trial, self._moment.epoch + 1, "complete"
        )

    def leave(self) -> None:
        """Put settings back, and end; a second time does nothing."""
        if _ACTIVE.pop(id(self), None) is None:
            return
        ends = (
            self._undo_report, self._keeper.end, lambda: self._apply(self._start),
            self._end_lost_probe, self._tell_store,
        )  # fmt: skip
        for end in ends:
            try:
                end()
            except Exception as error:  # what failed before may fail again, and the rest must not
                LOG.debug("%s: the hook could not be taken off: %s", self._context.job, error)

    # Inside

    def step(self, step: Callable[..., None], *args: Any) -> None:
        """Run a step; if it fails, say so once, put settings back, and leave the training alone."""
        if self.is_aside:
            return
        try:
            step(*args)
        except Exception as error:
            if self.is_strict:
                raise
            self.step_aside(error_lines(error)[0])

    def step_aside(self, why: str) -> None:
        """Say why once, put settings back, and leave the training alone."""
        if not self.is_aside:
            self.is_aside = True
            LOG.warning("%s: settings are left alone: %s", self._context.job, why)
            self.leave()

    def _refuse_company(self) -> None:
        """Step aside if another training of this process changes what belongs to the process."""
        threads = {thread for _, thread in _active() if thread.is_alive()}
        around = Surroundings(len(threads), "another training runs in this process")
        for knob in self._knobs.values():
            why = knob.refusal(around)
            if why is not None:
                raise RuntimeError(why)

    def _moment_of(self, epoch: int, n_epochs: int | None) -> Moment:
        n_siblings = self._clock.look_around()
        rungs = self._context.rungs
        if rungs is None and n_epochs is not None and self._n_done == 0:
            rungs = self._context.rungs = self._store.rungs(self._context.job, n_epochs)
        left = epochs_to_rung(epoch, n_epochs, rungs or ()) if n_epochs is not None else 0
        return Moment(epoch, n_epochs, left, self._n_done == 0, n_siblings > 0)

    def _apply(self, setting: Setting) -> None:
        for name, value in setting.items():
            if self._knobs[name].read() != value:
                self._knobs[name].apply(value)

    def _reporting(self, report: Callable[[], Any]) -> Any:
        """Store the epoch before a search hears of it: the search may end this process then.

        A loop that reports several times in an epoch has its epochs stored when they end.
        """
        if self._is_open and not self.is_aside:
            self._n_reports += 1
            self.step(lambda: self._keep(self._clock.read()))
            with self._clock.waiting():
                return report()
        return report()

    def _keep(self, measured: Measured) -> None:
        """Store the epoch, and whether it says how long such epochs take."""
        if self._n_reports > 1 and self._is_open:
            return
        assert self._choice is not None
        self._tell_reasons()
        self._end_probe()
        steady = self._steadiness.refusal(self._choice, self._moment, measured)
        why_not = self._why_not or steady
        self._left_out[self._moment.epoch] = why_not
        phase = self._choice.phase if why_not is None else LEFT_OUT
        lease = {} if self._context.lease is None else {"cpus": self._context.lease}
        row = EpochRow(
            self._context.job, self._context.trial, self._moment.epoch, phase, self._hyper,
            {**self._choice.setting, **lease}, measured.epoch_s, measured.core_s,
            measured.load_others, measured.n_siblings,
        )  # fmt: skip
        self._store.add_epochs([row], replacing=self._is_stored)
        if not self._is_stored and why_not is None:
            self._keeper.count()
        self._is_stored = True

    def _tell_reasons(self) -> None:
        """Store the reasons that are new, for the callback of the search."""
        new = self.reasons[self._n_told :]
        if new:
            self._store.add_reasons(self._context.job, self._context.trial, new)
            self._n_told += len(new)

    def _end_probe(self) -> None:
        """Note that the epoch of a setting on trial came to its end."""
        if self._probed is not None:
            self._store.end_probe(self._context.job, self._context.trial, self._probed)
            self._probed = None

    def _end_lost_probe(self) -> None:
        """Hold nothing against a setting on trial, unless memory ran out."""
        if self._probed is None:
            return
        if n_gpu_failures() == self._n_gpu_failures and not ran_out():
            self._end_probe()

    def _tell_store(self) -> None:
        """Note whether this process trains; what changes meanwhile is noted once more."""
        told: bool | None = None
        while (trains := self._trains_here()) != told:
            if trains:
                self._store.enter(self._context.job, self._clock.started_s)
            else:
                self._store.leave(os.getpid())
            told = trains

    def _trains_here(self) -> bool:
        return any(hook._store.path == self._store.path for hook, _ in _active())

    def _n_here(self) -> int:
        """Return how many other trainings run in this process."""
        return sum(hook is not self and t.is_alive() for hook, t in _active())

    def _start_from(self, options: Mapping[str, Any]) -> None:
        """Begin with what the first loader that says so would have without the hook."""
        for name, option in _LOADER_OPTIONS.items():
            value = options.get(option)
            if value is not None and name in self._knobs and name not in self._given:
                self._knobs[name].apply(value)
                self._given.add(name)

    def _loader_options(self) -> dict[str, Any]:
        """Return the options of loaders that are tuned now."""
        if self.is_aside:
            return {}
        return {
            option: self._knobs[name].read()
            for name, option in _LOADER_OPTIONS.items()
            if name in self._knobs and name not in self._fixed
        }

    def _fix(self, fixed: Mapping[str, str]) -> None:
        """Leave knobs alone that would change what is learned with a loader, and say why."""
        n_before = len(self._fixed)
        self._leave_alone(fixed)
        self._refuse_others()
        if len(self._fixed) > n_before and self._fall_back():
            self._why_not = _FIXED

    def _leave_alone(self, whys: Mapping[str, str]) -> None:
        for name in sorted(whys.keys() & self._knobs.keys() - self._fixed):
            text = f"{name} is not tuned: {whys[name]}"
            LOG.warning("%s: %s", self._context.job, text)
            self.reasons.append((0, text))
            self._fixed.add(name)

    def _refuse_others(self) -> None:
        """Keep the values of knobs that are left alone."""
        if self._policy is None:
            return
        grid = self._policy.grid
        if not self._may_have_workers():
            self._leave_alone({"prefetch": _NO_WORKERS})
        for name in self._fixed:
            for value in {setting[name] for setting in grid.settings} - {grid.start[name]}:
                grid.refuse({name: value})

    def _refuse_without_loaders(self) -> None:
        """Leave settings of loaders alone if after an epoch there is still no loader for them."""
        if self._had_epoch and not self._with_workers:
            self._fix(dict.fromkeys(_LOADER_OPTIONS, _NO_LOADER))

    def _may_have_workers(self) -> bool:
        """Tell whether a loader has workers or may get some; those to come may, too."""
        if "workers" in self._knobs and "workers" not in self._fixed:
            return True
        return self._with_workers != {False}

    def _fall_back(self) -> bool:
        """Let loaders be as before tuning; return whether they were not."""
        start = self._policy.grid.start if self._policy is not None else {}
        now = {name: self._knobs[name].read() for name in start if name in _LOADER_OPTIONS}
        others = {name: value for name, value in now.items() if value != start[name]}
        self._apply({name: start[name] for name in others})
        if others:
            self._given_up = others
        return bool(others)

    def _give_up(self, why: str) -> None:
        """Choose no more what loaders fell back from, for they gave no batch."""
        assert self._policy is not None
        for setting in self._policy.grid.refuse(self._given_up):
            self._store.begin_probe(self._context.job, self._context.trial, setting)
        self._probed, self._why_not = None, _NO_BATCH
        text = f"{setting_text(self._given_up)} is given up, because no batch came: {why}"
        self.reasons.append((self._moment.epoch, text))


def _active() -> list[tuple[Pipeline, threading.Thread]]:
    """Return the trainings of this process; the copy is made in one go, whatever threads do."""
    return list(_ACTIVE.values())


def _abandoned() -> list[Pipeline]:
    """Return the trainings that were left without an end: in this thread, or in one that ended.

    The loop of one that failed may live on in a traceback, as notebooks and searches keep them.
    """
    here = threading.current_thread()
    return [hook for hook, t in _active() if t is here or not t.is_alive()]


def _total(epochs: Iterable[Any]) -> int | None:
    """Return how many epochs a whole training has; those before a checkpoint are counted."""
    if isinstance(epochs, range):
        return max(epochs, default=-1) + 1
    return len(epochs) if isinstance(epochs, Sized) else None
