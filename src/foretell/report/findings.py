"""Everything a report shows: the model, its results, its runs, and predictions of runs held out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from foretell.dataset import FRAME_NAME
from foretell.files.content import read_content
from foretell.model import directory as layout
from foretell.model.evidence import read_held_out, read_kept_runs, read_runs
from foretell.model.results.schema import Results, read_results
from foretell.model.saved.model import SavedModel, load_model

_MOST_CAMPAIGN = 1_000_000  # bytes
_MOST_LEVELS = 20
_AGAIN = "Fit into a new directory to have it"


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything that is known about a fit, or about one model.

    Attributes
    ----------
    place
        The directory, or the model file.
    model
        The best model; None if no technique gave one.
    results
        The results of the fit; None for a model file alone.
    runs
        Runs of the fit, under the names of training; None if none are known.
    measured, measured_from
        The runs to show beside predictions, and where they come from.
    held_out
        Runs the model was not fitted on, as ``read_held_out`` returns them; None if none are known.
    campaign
        The campaign file, as it was run.
    missing
        What cannot be shown because a file is missing, and how to get it.
    """

    place: Path
    model: SavedModel | None
    results: Results | None = None
    runs: pd.DataFrame | None = None
    measured: pd.DataFrame | None = None
    measured_from: str = ""
    held_out: pd.DataFrame | None = None
    campaign: str | None = None
    missing: tuple[str, ...] = ()

    def levels(self, name: str) -> list[float]:
        """Return the values of a numeric column that were measured, if they are few."""
        assert self.model is not None
        found = self.model.levels.get(name)
        if found or self.runs is None:
            return found or []
        values = sorted(self.runs[name].astype(float).unique())
        return values if len(values) <= _MOST_LEVELS else []

    def is_whole(self, name: str) -> bool:
        """Whether all known values of a numeric column are whole numbers."""
        known = self.levels(name) if self.runs is None else self.runs[name].astype(float)
        return len(known) > 0 and all(value == round(value) for value in known)

    @property
    def judges_on_training_rows(self) -> bool:
        """Whether a campaign asked for errors on the rows that models were fitted on."""
        if self.results is None or self.results.is_automatic:
            return False
        validation = self.results.campaign.get("validation")
        return isinstance(validation, dict) and validation.get("method") == "All"

    @property
    def target(self) -> str:
        """The name of the column that is predicted."""
        if self.model is not None:
            return self.model.target
        assert self.results is not None
        return self.results.data.target


def read_findings(place: Path, data: Path | pd.DataFrame | None = None) -> Findings:
    """Read a directory of `foretell fit`, or a model file; ``data`` has measured runs to show."""
    missing: list[str] = []
    results = campaign = runs = held_out = None
    if (place / layout.RESULTS).exists():
        results = read_results(place / layout.RESULTS)
        campaign = _text(place / layout.CAMPAIGN)
        if results.best is None:
            return Findings(place, None, results, campaign=campaign)
    elif place.is_dir():
        missing.append(f"{place} has no {layout.RESULTS}, so there is no leaderboard. {_AGAIN}.")
    model = load_model(place)
    if results is not None:
        runs, held_out = _evidence(place, model, missing)
    measured, measured_from = runs, "the fit"
    if data is not None:
        measured = read_runs(data, model)
        measured_from = str(data) if isinstance(data, Path) else FRAME_NAME
        if runs is not None:
            measured = pd.concat([runs, measured], ignore_index=True).drop_duplicates()
            measured_from = f"the fit and {measured_from}"
    return Findings(
        place, model, results, runs, measured, measured_from, held_out, campaign, tuple(missing)
    )


def _evidence(
    place: Path, model: SavedModel, missing: list[str]
) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
    """Read the runs that a fit kept, and predictions of those held out; note what is missing."""
    if not (place / layout.RUNS).exists():
        missing.append(f"There is no {layout.RUNS}, so no runs are shown. {_AGAIN}.")
        return None, None
    runs = read_kept_runs(place / layout.RUNS, model)
    if not (place / layout.REHEARSALS).exists():
        lost = "predictions of runs held out are not shown"
        missing.append(f"There is no {layout.REHEARSALS}, so {lost}. {_AGAIN}.")
        return runs, None
    held_out = read_held_out(place / layout.REHEARSALS, runs, model.target)
    if held_out.empty:
        missing.append("No run was held out, so errors on new runs are not known. Measure more.")
        return runs, None
    return runs, held_out


def _text(path: Path) -> str | None:
    """Read a small text file, if it is there."""
    try:
        return read_content(path, _MOST_CAMPAIGN).decode()
    except (OSError, UnicodeDecodeError):
        return None
