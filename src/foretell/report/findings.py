"""What a report rests on: the model, results, runs and rehearsals, read with distrust."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.errors import DatasetError, ModelError
from foretell.report.results_file import Results, read_results

if TYPE_CHECKING:
    import pandas as pd

    from foretell.model.saved.model import SavedModel

_COLUMNS = ("run", "question", "column", "direction", "ratio", "predicted")
_MOST_BYTES = 50_000_000
_MOST_LEVELS = 20
_AGAIN = "foretell fit into a new directory leaves it"


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything that is known of a fit, or of one model.

    Attributes
    ----------
    place
        The directory, or the model file.
    model
        The best model; None when no technique gave one.
    results
        What the fit came to; None for a model file alone.
    runs
        Runs of the fit, under the names of training; None when none are known.
    measured, measured_from
        The runs to show beside predictions, and where they come from.
    held_out
        Runs the model was not fitted on: the columns of rehearsals.csv, those of the runs, and
        ``error``, the relative error; None when none are known.
    campaign
        The campaign file, as it was run.
    missing
        What could not be shown for want of a file, and how to get it.
    """

    place: Path
    model: SavedModel | None
    results: Results | None
    runs: pd.DataFrame | None
    measured: pd.DataFrame | None
    measured_from: str
    held_out: pd.DataFrame | None
    campaign: str | None
    missing: tuple[str, ...]

    def levels(self, name: str) -> list[float]:
        """Return the values of a numeric column that were measured, where they are few."""
        assert self.model is not None
        found = self.model.levels.get(name)
        if found or self.runs is None:
            return found or []
        values = sorted(self.runs[name].astype(float).unique())
        return values if len(values) <= _MOST_LEVELS else []

    def is_whole(self, name: str) -> bool:
        """Whether a numeric column was only ever a whole number, as far as is known."""
        known = self.levels(name) if self.runs is None else self.runs[name].astype(float)
        return len(known) > 0 and all(value == round(value) for value in known)

    @property
    def judges_on_training_rows(self) -> bool:
        """Whether a campaign asked for errors on the very rows that models were fitted on."""
        campaign = None if self.results is None else self.results.campaign
        validation = (campaign or {}).get("validation")
        return isinstance(validation, dict) and validation.get("method") == "All"

    @property
    def target(self) -> str:
        """The name of what is predicted."""
        if self.model is not None:
            return self.model.target
        assert self.results is not None
        return self.results.data.target


def read_findings(place: Path, data: Path | pd.DataFrame | None = None) -> Findings:
    """Read a directory of `foretell fit`, or a model file; ``data`` has measured runs to show."""
    import pandas as pd

    from foretell.model import directory as layout
    from foretell.model.saved.model import load_model

    if not place.is_dir():
        return _of_model(place, load_model(place), data, ())
    if not (place / layout.RESULTS).exists():
        lost = f"{place} has no {layout.RESULTS}, so there is no leaderboard; {_AGAIN}."
        return _of_model(place, load_model(place), data, (lost,))
    results = read_results(place / layout.RESULTS)
    model = None if results.best is None else load_model(place)
    missing: list[str] = []
    runs = _kept_runs(place / layout.RUNS, model, missing)
    held_out = None
    if runs is not None and model is not None:
        held_out = _held_out(place / layout.REHEARSALS, runs, model.target, missing)
    measured, measured_from = runs, "the fit"
    if data is not None and model is not None:
        measured, measured_from = _measured(data, model), _named(data)
        if runs is not None:
            measured = pd.concat([runs, measured], ignore_index=True).drop_duplicates()
            measured_from = f"the fit and {measured_from}"
    campaign = _text(place / layout.CAMPAIGN)
    return Findings(
        place, model, results, runs, measured, measured_from, held_out, campaign, tuple(missing)
    )


def _of_model(
    place: Path, model: SavedModel, data: Path | pd.DataFrame | None, missing: tuple[str, ...]
) -> Findings:
    runs = None if data is None else _measured(data, model)
    return Findings(place, model, None, None, runs, _named(data), None, None, missing)


def _named(data: Path | pd.DataFrame | None) -> str:
    return str(data) if isinstance(data, Path) else "the frame"


def _measured(data: Path | pd.DataFrame, model: SavedModel) -> pd.DataFrame:
    """Read runs with their target; drop failed ones, whose target is empty."""
    import numpy as np

    from foretell.model.features.feature_map import as_numbers
    from foretell.model.features.levels import trained_levels

    dataset = model.configurations(data)
    dataset.require([model.target])
    frame = dataset.frame[[*model.columns, model.target]].copy()
    frame[model.target] = as_numbers(frame[model.target])
    for name, levels in model.categories.items():
        frame[name] = trained_levels(frame[name], levels)
    measured: pd.DataFrame = frame[np.isfinite(frame[model.target])].dropna()
    if measured.empty:
        raise DatasetError(f"{_named(data)} has no row with a measured '{model.target}'")
    return measured.reset_index(drop=True)


def _kept_runs(path: Path, model: SavedModel | None, missing: list[str]) -> pd.DataFrame | None:
    if model is None:
        return None
    if not path.exists():
        missing.append(f"The fit left no {path.name}, so no run is shown; {_AGAIN}.")
        return None
    _refuse_large(path)
    try:
        return _measured(path, model)
    except (DatasetError, ModelError) as error:
        raise _damaged(path, str(error)) from None


def _held_out(
    path: Path, runs: pd.DataFrame, target: str, missing: list[str]
) -> pd.DataFrame | None:
    import numpy as np
    import pandas as pd

    if not path.exists():
        missing.append(
            f"The fit left no {path.name}, so predictions of runs held out are not shown; {_AGAIN}."
        )
        return None
    _refuse_large(path)
    texts: Any = dict.fromkeys(("question", "column", "direction"), str)
    try:
        frame = pd.read_csv(path, dtype=texts, keep_default_na=False)
        if tuple(frame.columns) != _COLUMNS:
            raise ValueError(f"its columns must be {', '.join(_COLUMNS)}")
        numbers = frame[["run", "ratio", "predicted"]].astype(float)
        row = numbers["run"].to_numpy() - 1
        if not (np.isin(row, np.arange(len(runs))).all() and np.isfinite(numbers).all(axis=None)):
            raise ValueError("a run or a number in it does not exist")
    except ValueError as error:
        raise _damaged(path, " ".join(str(error).split())[:200]) from None
    frame[["ratio", "predicted"]] = numbers[["ratio", "predicted"]]
    frame["row"] = row.astype(np.int64)
    frame["measured"] = runs[target].to_numpy()[frame["row"]]
    with np.errstate(divide="ignore", invalid="ignore"):
        frame["error"] = np.abs(frame["predicted"] / frame["measured"] - 1)
    known: pd.DataFrame = frame[np.isfinite(frame["error"])]
    if known.empty:
        missing.append("No run was held out, so errors on new runs are not known: measure more.")
        return None
    return known.reset_index(drop=True)


def _refuse_large(path: Path) -> None:
    if path.stat().st_size > _MOST_BYTES:
        raise _damaged(path, f"it has more than {_MOST_BYTES:,} bytes")


def _damaged(path: Path, why: str) -> ModelError:
    return ModelError(
        f"{path} is not as `foretell fit` left it ({why}). Remove it, and the report does without; "
        "or fit again, into a new directory."
    )


def _text(path: Path) -> str | None:
    """Read a small text file, if it is there."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
