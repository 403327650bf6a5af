"""Models of epoch times, however a user has them: a folder, a store of epochs, or an object."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.decide.tuning.epoch_times import EpochTimes, PredictedEpochs, epochs_of
from foretell.decide.tuning.space import Space, check_columns, read_space
from foretell.errors import Option, UsageError, listing, suggest
from foretell.files.content import is_database
from foretell.predictor import Predictor
from foretell.tune.gaps import without_gaps
from foretell.tune.hook.steadiness import MOST_LOAD, VARYING
from foretell.wording import counted

if TYPE_CHECKING:
    import pandas as pd

Model = EpochTimes | Predictor | Sequence[Predictor] | Path | str
#: A space and epoch times, as far as they are known.
Known = tuple[Space | None, EpochTimes | None]
TARGET = "epoch_s"
_LEAST_EPOCHS = 8


def epoch_times_of(model: Model, job: str | None = None, *, share: bool = False) -> EpochTimes:
    """Return the epoch times of a model, a folder of models, or a store of epochs.

    Parameters
    ----------
    job
        Which job of a store is meant, if it has several.
    share
        Use epochs of other machines in a store, too.
    """
    store = store_in(Path(model)) if isinstance(model, str | Path) else None
    if store is not None:
        return _of_store(store, job, share)
    if isinstance(model, str | Path):
        from foretell.model.saved.model import load_models

        return epochs_of(load_models(Path(model)), str(model))
    if isinstance(model, Predictor):
        return epochs_of([model], f"the model of {model.target}")
    if isinstance(model, Sequence):
        return epochs_of([m for m in model if isinstance(m, Predictor)], "the models")
    return model


def store_in(path: Path) -> Path | None:
    """Return the store of epochs that a path leads to: a database, or a folder with one."""
    from foretell.tune.store.database import is_store

    if path.is_file():
        return path if is_database(path) else None
    files = sorted(path.glob("*.sqlite")) if path.is_dir() else []
    return next(filter(is_store, files), None)


def given(
    space: Space | Mapping[str, Any] | Path | str | None,
    model: Model | None,
    job: str | None = None,
    *,
    share: bool = False,
) -> Known:
    """Return the space and the epoch times of a search that a user gave; they must fit."""
    known = None if space is None else read_space(space)
    times = None if model is None else epoch_times_of(model, job, share=share)
    if known is not None and times is not None:
        check_columns(known, times.columns, "the model")
    return known, times


def _of_store(path: Path, job: str | None, share: bool) -> EpochTimes:
    from foretell.tune.store import Store

    with Store(path, is_needed=True) as store:
        jobs = store.jobs()
        if job is None and len(jobs) > 1:
            raise UsageError(
                f"{path} has epochs of several jobs: {listing(jobs)}; name one",
                option=Option("job"),
            )
        frame = store.epochs(job, share=share)
        n_others = 0 if share else len(store.rows(job, share=True)) - len(frame)
        left_out = store.left_out(job)
    if not len(frame) and n_others:
        raise UsageError(
            f"{path} has {n_others} epochs{f' of {job}' if job else ''}, all of other machines, "
            "whose times differ",
            remedy=("use them all the same with ", Option("share")),
        )
    if not len(frame) and left_out:
        whose = f" of {job}" if job else ""
        raise UsageError(f"{path}: all {counted(len(left_out), 'epoch')}{whose} {_why(left_out)}")
    if not len(frame):
        near = f" {suggest(job, jobs)}" if job and jobs else ""
        raise UsageError(f"{path} has no epochs{f' of {job}' if job else ''}.{near}")
    return fitted_to(frame, str(path))


def _why(loads: Sequence[float]) -> str:
    """Say why epochs were left out, and what to do."""
    usual = statistics.median(loads)
    if usual > MOST_LOAD:
        return (
            f"were left out, because others used {usual:.1f} cores (median; at most {MOST_LOAD:g} "
            "teach something); run trials while the machine does nothing else"
        )
    return f"were left out, because {VARYING}"


def fitted_to(epochs: pd.DataFrame, name: str) -> PredictedEpochs:
    """Fit a model to a table of epochs, with settings as ``h.…`` and ``s.…``.

    Of a hyperparameter with the name of a system setting, the system setting is what held.
    """
    from foretell.model.fit import fit_model

    is_steady = epochs["phase"] != "warm-up"  # whose time is that of a start, too
    epochs = epochs[is_steady] if is_steady.sum() >= _LEAST_EPOCHS else epochs
    settings = {c[2:]: c for kind in ("h.", "s.") for c in epochs.columns if c.startswith(kind)}
    table = epochs[[*settings.values(), TARGET]].set_axis([*settings, TARGET], axis="columns")
    table, notes = without_gaps(table, TARGET)
    if len(table) < _LEAST_EPOCHS:
        raise UsageError(
            f"{name} has {len(table)} usable epochs, and a model of their times needs "
            f"{_LEAST_EPOCHS}; run more trials, or fit a table of epochs"
        )
    return PredictedEpochs(fit_model(table, target=TARGET), notes=tuple(notes))
