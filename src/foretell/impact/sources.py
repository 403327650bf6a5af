"""Models as a source of impact: with the runs that their fit kept, or with predictions only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from foretell.dataset import Dataset
from foretell.decide.impact.question import ImpactQuestion
from foretell.errors import DatasetError, ModelError, Option, UsageError
from foretell.impact.modelled import KnownModel, spread_levels
from foretell.model import directory as layout
from foretell.model.evidence import read_kept_runs
from foretell.model.results.fit import Fit
from foretell.model.results.schema import read_results
from foretell.model.saved.model import SavedModel, load_model
from foretell.model.saved.shares import measured_levels

MODEL_SUFFIX = ".foretell"
#: How many configurations stand for the runs that a model alone does not have.
_N_CONFIGURATIONS = 256


@dataclass(frozen=True, eq=False)
class ModelSource:
    """A model, and the runs it was fitted on, if they are known."""

    known: KnownModel
    runs: pd.DataFrame | None
    name: str

    @property
    def has_runs(self) -> bool:
        """Whether there are measured runs."""
        return self.runs is not None

    def check(self, asked: ImpactQuestion) -> None:
        """Refuse what a model of one target cannot answer."""
        model = self.known.model
        if asked.target != model.target:
            raise UsageError(
                f"{self.name} is a model of {model.target}",
                option=Option("target", asked.target),
                remedy=("leave it out, or give the table of runs",),
            )
        if asked.quality is not None:
            raise UsageError(
                f"{self.name} is a model of {model.target} only",
                option=Option("quality", asked.quality),
                remedy=("give the table of runs",),
            )

    def dataset(self, seed: int) -> Dataset:
        """Return the runs, or made-up configurations with what the model predicts of them."""
        if self.runs is not None:
            return Dataset(self.runs, self.name)
        model = self.known.model
        levels = {name: spread_levels(found) for name, found in measured_levels(model).items()}
        if not levels:
            raise ModelError(f"{self.name} has one value only of each column; nothing can vary")
        random = np.random.default_rng([seed, 20])
        columns: dict[str, Any] = {}
        for name in model.columns:
            known = levels.get(name) or [_only(model, name)]
            chosen = random.integers(0, len(known), _N_CONFIGURATIONS)
            columns[name] = [known[i] for i in chosen]
        frame = pd.DataFrame(columns)
        frame[model.target] = model.predict(frame)
        return Dataset(frame, self.name)


def _only(model: SavedModel, name: str) -> Any:
    return model.ranges[name][0] if name in model.ranges else model.categories[name][0]


def read_model_source(source: Any) -> ModelSource | None:
    """Return a model if the source is one: an object, a file, or the directory of a fit."""
    if isinstance(source, Fit):
        return ModelSource(KnownModel.of(source), None, f"the model of {source.target}")
    if isinstance(source, SavedModel):
        return ModelSource(KnownModel(source), None, f"the model of {source.target}")
    if not isinstance(source, str | Path):
        return None
    path = Path(source)
    if not (path.is_dir() or path.suffix == MODEL_SUFFIX):
        return None
    model = load_model(path)
    return ModelSource(_with_results(path, model), _kept_runs(path, model), str(source))


def _with_results(path: Path, model: SavedModel) -> KnownModel:
    file = path / layout.RESULTS
    if not (path.is_dir() and file.exists()):
        return KnownModel(model)
    explanation = read_results(file).explanation
    return KnownModel(model, () if explanation is None else tuple(explanation.without_effect))


def _kept_runs(path: Path, model: SavedModel) -> pd.DataFrame | None:
    file = path / layout.RUNS
    if not (path.is_dir() and file.exists()):
        return None
    try:
        return read_kept_runs(file, model)[[*model.columns, model.target]]
    except (DatasetError, ModelError, KeyError):
        return None
