"""The model of epoch times: loaded in a thread, and fitted again in a process of low priority."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from foretell.decide.tuning.epoch_process import Ratio
from foretell.predictor import TRUST_INSIDE, Predictor
from foretell.tune.hook.clock import Clock
from foretell.tune.hook.policy import Policy, Setting
from foretell.tune.store import Store
from foretell.tune.store.store import machine_id

LOG = logging.getLogger("foretell.tune")

#: A model is fitted again after so many new epochs.
REFIT_ROWS = 50
#: A fit takes about ten seconds of a core. It must follow epochs that took so long in all, or it
#: would cost a search of short epochs more than it saves.
LEAST_TRAINED_S = 300.0
#: How far off a ratio of two predictions is taken to be, inside the data: 90 %, as a factor.
_RATIO_ERROR = 1.08


class EpochModel:
    """Compares settings by a fitted model, where both are inside its data."""

    def __init__(self, model: Predictor) -> None:
        self._model = model
        self._seen: dict[str, Ratio | None] = {}

    def ratio(
        self, hyper: Mapping[str, float | str], setting: Setting, than: Setting, *, is_shared: bool
    ) -> Ratio | None:
        """Compare two settings; None where the model has not seen such trainings."""
        key = repr((sorted(hyper.items()), setting, than, is_shared))
        if key not in self._seen:
            self._seen[key] = self._compare(hyper, (setting, than), is_shared)
        return self._seen[key]

    def _compare(
        self, hyper: Mapping[str, float | str], settings: tuple[Setting, Setting], is_shared: bool
    ) -> Ratio | None:
        import pandas as pd

        setting, than = settings
        known = self._model.columns
        if any(setting[name] != than[name] and f"s.{name}" not in known for name in setting):
            return None  # both would be the same row, and the knob never tried
        rows = [fitting_row(hyper, s, is_warm_up=False, is_shared=is_shared) for s in settings]
        table = pd.DataFrame(rows)
        if not set(self._model.columns) <= set(table.columns):
            return None
        found = self._model.outlook(table[list(self._model.columns)], (0.5,))
        if not all(str(trust) == TRUST_INSIDE for trust in found.trust):
            return None
        middle = float(found.value[0] / found.value[1])
        return Ratio(middle / _RATIO_ERROR, middle * _RATIO_ERROR, is_inside=True)


def fitting_row(
    hyper: Mapping[str, float | str], system: Mapping[str, float | str], *, is_warm_up: bool,
    is_shared: bool,
) -> dict[str, float | str]:  # fmt: skip
    """Return an epoch as models see it."""
    return {
        **{f"h.{name}": value for name, value in hyper.items()},
        **{f"s.{name}": value for name, value in system.items()},
        "is_warm_up": int(is_warm_up),
        "is_shared": int(is_shared),
    }


class ModelKeeper:
    """Keeps the newest model of a job at hand, and has it fitted again now and then."""

    def __init__(self, store: Store, job: str) -> None:
        self._store, self._job = store, job
        self._loaded: EpochModel | None = None
        self._thread: threading.Thread | None = None
        self._fit: subprocess.Popen[bytes] | None = None
        self._n_rows = self._n_fitted = self._n_asked = 0

    def begin(self) -> None:
        """Look for a model, and load it in the background."""
        if self._store.path is None:
            return
        self._n_rows = self._store.n_rows(self._job)
        self._load_newest()

    def count(self) -> None:
        """Count a new epoch; begin a fit if it is time for one."""
        self._n_rows += 1
        since = self._n_rows - max(self._n_fitted, self._n_asked)
        if self._store.path is None or since < REFIT_ROWS:
            return
        self._n_asked = self._n_rows
        new = self._store.rows(self._job, most=self._n_rows - self._n_fitted)
        if sum(row.epoch_s for row in new) >= LEAST_TRAINED_S:
            self._n_fitted = self._n_rows
            self._fit = start_fit(self._store.path, self._job)

    def look(self, policy: Policy, clock: Clock) -> None:
        """Hand a model that was loaded to the policy."""
        if self._fit is not None:
            clock.own_pids = {self._fit.pid}
            if self._fit.poll() is not None:
                self._fit, clock.own_pids = None, set()
                self._load_newest()
        if self._loaded is not None and hasattr(policy, "model"):
            policy.model, self._loaded = self._loaded, None

    def end(self) -> None:
        """Leave a fit that is under way to itself: the next trial will find its model."""
        if self._fit is not None and self._fit.poll() is None:
            # Reaped in the background, or it would stay a zombie and warn when collected.
            threading.Thread(target=self._fit.wait, daemon=True).start()

    def _load_newest(self) -> None:
        assert self._store.path is not None
        found = newest_model(self._store.path, self._job)
        if found is None or found[0] <= self._n_fitted - REFIT_ROWS:
            return
        self._n_fitted = found[0]
        self._thread = threading.Thread(target=self._load, args=[found[1]], daemon=True)
        self._thread.start()

    def _load(self, path: Path) -> None:
        try:
            from foretell.model.saved.model import load_model

            self._loaded = EpochModel(load_model(path))
        except Exception as error:  # a model is of use, and never needed
            LOG.debug("%s cannot be loaded: %s", path, error)


def models_folder(store: Path) -> Path:
    """Return where the models of a store are: beside it."""
    return store.with_name(store.name + ".models")


def job_key(job: str) -> str:
    """Return a file name for a job of any name on this machine: others have other times."""
    return hashlib.sha256(f"{machine_id()} {job}".encode()).hexdigest()[:16]


def newest_model(store: Path, job: str) -> tuple[int, Path] | None:
    """Return the newest model of a job, and from how many epochs it was fitted."""
    found = [
        (int(path.stem.partition("-")[2]), path)
        for path in models_folder(store).glob(f"{job_key(job)}-*.foretell")
        if path.stem.partition("-")[2].isdigit()
    ]
    return max(found, default=None)


def start_fit(store: Path, job: str) -> subprocess.Popen[bytes] | None:
    """Fit the model of a job in a process of its own, unless another one does so already."""
    folder = models_folder(store)
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / f"{job_key(job)}.lock"
    if not _take(lock):
        return None
    words: list[Any] = [sys.executable, "-m", "foretell.tune.hook.fitting", store, job]
    fit = subprocess.Popen(  # noqa: S603 - our own words
        [str(w) for w in words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    lock.write_text(str(fit.pid))
    return fit


def _take(lock: Path) -> bool:
    """Take a lock, or that of a process which is gone."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return True
    with contextlib.suppress(OSError, ValueError):
        holder = int(lock.read_text() or 0)
        return holder != 0 and not psutil.pid_exists(holder)
    return False
