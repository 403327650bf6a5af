"""Refitting one model on completed tasks, by the ordinary fit, and judging it on the newest."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.cluster.maintenance.completed import MEASURED, CompletedTask
from foretell.cluster.maintenance.thinning import thinned, was_accurate
from foretell.decide.placement.cluster import Maintenance
from foretell.errors import DatasetError, ForetellError, ModelError
from foretell.model import directory as layout
from foretell.model.campaigns.schema import read_toml
from foretell.model.evidence import read_kept_runs
from foretell.model.features.feature import CATEGORY
from foretell.model.fit import fit_model
from foretell.model.saved.model import SavedModel, load_model
from foretell.spaces.quantities import TIME, quantity_of_name

_FAR = 0.25  # beyond the recent range by this share, an old run is kept; nearer, recent ones tell
_NEWEST = 0.2  # the share of tasks that judges, and does not train


@dataclass(frozen=True)
class ModelFile:
    """A model of some node types, and where it is."""

    path: Path
    types: tuple[str, ...]
    model: SavedModel

    @property
    def is_of_time(self) -> bool:
        """Whether it predicts a time, and not an energy."""
        kind, _ = quantity_of_name(self.model.target) or ("", 1.0)
        return kind == TIME

    @property
    def fit_folder(self) -> Path | None:
        """The output of the fit that made it; None for a model file alone."""
        folder = self.path.parent
        is_output = self.path.name == layout.BEST and (folder / layout.RESULTS).is_file()
        return folder if is_output else None

    def usable(self, tasks: Sequence[CompletedTask]) -> list[CompletedTask]:
        """Return the tasks that this model can learn from.

        Energies that were modelled from power are no news for a model of energy.
        """
        return [
            task for task in tasks
            if task.type in self.types
            and all(name in task.columns for name in self.model.columns)
            and task.time_s > 0
            and (self.is_of_time or (task.energy_source == MEASURED and task.energy_j > 0))
        ]  # fmt: skip

    def table(self, tasks: Sequence[CompletedTask]) -> pd.DataFrame:
        """Return tasks as runs, in the columns and the unit of the model."""
        _, unit = quantity_of_name(self.model.target) or ("", 1.0)
        found = {name: [task.columns[name] for task in tasks] for name in self.model.columns}
        actual = [task.time_s if self.is_of_time else task.energy_j for task in tasks]
        return pd.DataFrame({**found, self.model.target: np.array(actual, dtype=float) / unit})


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a refit learns from, and what judges it.

    Attributes
    ----------
    train
        Runs of the older tasks, those that stand for several repeated, and older runs of the fit.
    newest
        Runs of the newest fifth, which train nothing.
    n_tasks, n_accurate, n_older_runs
        How many tasks there are in all, how many of the training ones were well predicted, and how
        many runs of the old fit are among the training runs.
    """

    train: pd.DataFrame
    newest: pd.DataFrame
    n_tasks: int
    n_accurate: int
    n_older_runs: int

    @classmethod
    def of(cls, file: ModelFile, tasks: Sequence[CompletedTask], rules: Maintenance) -> Lesson:
        """Split tasks by time, and thin the older ones."""
        n_newest = max(1, math.ceil(_NEWEST * len(tasks)))
        older, newest = tasks[:-n_newest], tasks[-n_newest:]
        kept = thinned(older, rules.threshold, rules.keep_accurate)
        table = file.table([k.task for k in kept])
        # Fits take no weights of rows, and a run that is repeated counts as often.
        train = table.loc[np.repeat(table.index, [k.weight for k in kept])]
        past = older_runs(file, table)
        n_accurate = sum(was_accurate(task, rules.threshold) for task in older)
        return cls(
            pd.concat([past, train], ignore_index=True), file.table(newest), len(tasks),
            n_accurate, len(past),
        )  # fmt: skip

    @property
    def digest(self) -> str:
        """A text that differs when the training runs do."""
        return hashlib.sha256(self.train.to_csv(index=False).encode()).hexdigest()[:16]


def older_runs(file: ModelFile, recent: pd.DataFrame) -> pd.DataFrame:
    """Return runs behind the present model where recent tasks say nothing.

    Without them, a model would forget everything that did not happen of late.
    """
    none = recent.iloc[:0]
    if file.fit_folder is None or recent.empty:
        return none
    try:
        runs = read_kept_runs(file.fit_folder / layout.RUNS, file.model)
    except (DatasetError, ModelError):
        return none
    outside = np.zeros(len(runs), dtype=bool)
    for name in file.model.columns:
        if name in file.model.categories:
            outside |= ~runs[name].astype(str).isin(recent[name].astype(str)).to_numpy()
        else:
            values = runs[name].to_numpy(dtype=float)
            low, high = float(recent[name].min()), float(recent[name].max())
            outside |= values < low - _FAR * abs(low)
            outside |= values > high + _FAR * abs(high)
    return runs[outside][[*file.model.columns, file.model.target]]


def refit(file: ModelFile, lesson: Lesson, output: Path, n_jobs: int | None) -> SavedModel:
    """Fit again as before, by its campaign or automatically; the same call goes on after a crash.

    Raises a ForetellError if nothing usable comes out.
    """
    model, folder = file.model, file.fit_folder
    campaign = None if folder is None else folder / layout.CAMPAIGN
    if campaign is not None and campaign.is_file():
        read = read_toml(campaign)
        # The runs have the new names already, and no other columns.
        own = {"rename": {}, "skip_columns": [], "use_columns": list(model.columns)}
        read = read.model_copy(update={"data": read.data.model_copy(update=own)})
        fit_model(read, lesson.train, output=output, n_jobs=n_jobs)
    else:
        categories = [c.name for c in model.feature_map.columns if c.kind == CATEGORY]
        numbers = [n for n in categories if pd.api.types.is_numeric_dtype(lesson.train[n])]
        fit_model(
            lesson.train, target=model.target, use=model.columns, categorical=numbers,
            output=output, n_jobs=n_jobs, seed=0,
        )  # fmt: skip
    return load_model(output)


def error_on(model: SavedModel, runs: pd.DataFrame) -> float:
    """Return the mean relative error; a run that the model cannot predict counts as 100 % off."""
    return float(np.mean(_errors(model, runs)))


def _errors(model: SavedModel, runs: pd.DataFrame) -> NDArray[np.float64]:
    actual = runs[model.target].to_numpy(dtype=float)
    try:
        found: NDArray[np.float64] = np.abs(model.predict(runs) / actual - 1)
        return found
    except ForetellError:
        if len(runs) == 1:
            return np.ones(1)
        return np.concatenate([_errors(model, runs.iloc[[i]]) for i in range(len(runs))])


def model_files_of(paths: Mapping[str, Sequence[Path]]) -> list[ModelFile]:
    """Load the models of node types; a model that several types share comes once, with them all."""
    users: dict[Path, list[str]] = {}
    for name, files in paths.items():
        for path in files:
            users.setdefault(path, []).append(name)
    return [ModelFile(path, tuple(types), load_model(path)) for path, types in users.items()]
