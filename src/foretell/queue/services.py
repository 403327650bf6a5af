"""Times of classes that name a model or a table of runs: read, checked, made distributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from foretell.decide.queueing.job_class import JobClass
from foretell.decide.queueing.queue_file import Queue
from foretell.decide.queueing.service._base import ServiceTime
from foretell.decide.queueing.service.sample import between_quantiles, sample_of
from foretell.errors import DatasetError, ForetellError, ModelError, UsageError, listing, suggest
from foretell.predictor import TRUST_FAR, TRUST_INSIDE, TRUST_NEAR, TRUST_UNKNOWN, Predictor
from foretell.spaces.expressions import Expression
from foretell.spaces.quantities import TIME, quantity_of_name
from foretell.statuses import Status
from foretell.wording import counted

#: The quantiles that are asked of a model: dense at both ends, where waits are decided.
_PROBABILITIES = (
    0.001, 0.005, 0.01, *(round(0.025 * i, 3) for i in range(1, 40)), 0.99, 0.995, 0.999,
)  # fmt: skip

_ASKED = {
    TRUST_NEAR: "just outside its data",
    TRUST_FAR: "far outside its data",
    TRUST_UNKNOWN: "for a level that its data does not have",
}


@dataclass(frozen=True)
class KnownTimes:
    """Times of classes by name, and what to know about them."""

    by_class: dict[str, ServiceTime] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def known_times(queue: Queue) -> KnownTimes:
    """Read the models and tables that a class file names."""
    times: dict[str, ServiceTime] = {}
    notes: list[str] = []
    for job in queue.classes:
        try:
            if job.kind == "model":
                times[job.name], note = _model_time(queue, job)
                notes += [note] if note else []
            elif job.kind == "runs":
                times[job.name], note = _runs_time(queue, job)
                notes += [note] if note else []
        except ForetellError as error:
            raise type(error)(f"class {job.name}: {error}") from None
    return KnownTimes(times, tuple(notes))


def _model_time(queue: Queue, job: JobClass) -> tuple[ServiceTime, str]:
    """Return the predictive distribution of a model at the configuration of a class."""
    import pandas as pd

    from foretell.model.saved.model import load_models

    assert job.model is not None
    path = queue.folder / job.model
    predictor, unit = _of_time(load_models(path), str(path))
    _check_configuration(job, predictor)
    row = pd.DataFrame({c: [job.configuration[c]] for c in predictor.columns})
    found = predictor.outlook(row, _PROBABILITIES)
    values = unit * np.maximum.accumulate(found.quantiles.values[0])
    if not np.isfinite(values).all():
        raise ModelError(
            f"{path} has no intervals, and a queue needs the variation of times; fit it again with "
            "a newer foretell, or write service = { mean_s = ..., scv = ... }"
        )
    trust = str(found.trust[0])
    outside = predictor.outside(row)[0]
    note = ""
    if outside or trust != TRUST_INSIDE:
        where = _ASKED.get(trust, "outside its data")
        note = f"The model of {job.name} is asked {where}{outside and f' ({outside})'}."
    return between_quantiles(np.array(_PROBABILITIES), np.maximum(values, 1e-9)), note


def _of_time(models: Sequence[Predictor], path: str) -> tuple[Predictor, float]:
    """Return the model that predicts a time, and its unit in seconds."""
    found = []
    for model in models:
        quantity = quantity_of_name(model.target)
        if quantity is not None and quantity[0] == TIME:
            found.append((model, quantity[1]))
    if len(found) == 1:
        return found[0]
    targets = listing(model.target for model in models)
    if not found:
        raise ModelError(f"{path} predicts {targets}, and no time in its name; fit one of a time")
    raise ModelError(f"{path} has several models of times ({targets}); name the file of one")


def _check_configuration(job: JobClass, predictor: Predictor) -> None:
    for name in predictor.columns:
        if name not in job.configuration:
            raise UsageError(
                f"the model of {predictor.target} needs '{name}'; write it under configuration, "
                f"which must have {listing(predictor.columns)}"
            )
    for name in job.configuration:
        if name not in predictor.columns:
            raise UsageError(
                f"configuration: the model has no column '{name}'. "
                f"{suggest(name, predictor.columns)}"
            )


def _runs_time(queue: Queue, job: JobClass) -> tuple[ServiceTime, str]:
    """Return the times of a table of runs, each as probable as the others, and a note."""
    from foretell.dataset import read_dataset

    assert job.runs is not None
    dataset = read_dataset(queue.folder / job.runs)
    frame = dataset.frame
    column = _time_column(job, list(frame.columns), dataset.name)
    if "status" in frame.columns:
        frame = frame[frame["status"] == Status.OK]
    if job.only is not None:
        only = Expression(job.only)
        only.check(list(frame.columns))
        rows = (dict(zip(frame.columns, row, strict=True)) for row in frame.to_numpy(object))
        frame = frame[[bool(only.value(row)) for row in rows]]
    given = np.asarray(frame[column], dtype=float) * (quantity_of_name(column) or (TIME, 1.0))[1]
    times = given[~np.isnan(given)]
    if len(times) < 2:
        raise DatasetError(
            f"{dataset.name} has {counted(len(times), 'usable run')}, and at least 2 are needed; "
            "measure more, or correct only"
        )
    if not (np.isfinite(times).all() and times.min() > 0):
        bad = times[~(np.isfinite(times) & (times > 0))][0]
        raise DatasetError(
            f"{dataset.name}, column '{column}' must have times above 0, and has {bad:g}; remove "
            "these runs, or write which to use as only"
        )
    n = len(given) - len(times)
    left_out = f"{counted(n, 'run')} of {job.name} without a value of '{column}'"
    return sample_of(times), f"{left_out} {'is' if n == 1 else 'are'} left out." if n else ""


def _time_column(job: JobClass, columns: list[str], name: str) -> str:
    if job.column is not None:
        if job.column not in columns:
            raise DatasetError(
                f"{name} has no column '{job.column}'. {suggest(job.column, columns)}"
            )
        return job.column
    found = [c for c in columns if (quantity_of_name(c) or ("",))[0] == TIME]
    if len(found) == 1:
        return found[0]
    have = f"columns of times: {listing(found)}" if found else "no column that is a time by name"
    raise DatasetError(f'{name} has {have}; write which to use, such as column = "wall_time_s"')
