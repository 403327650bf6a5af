"""Everything a report shows: the model, its results, its runs, and predictions of runs held out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from foretell.model.results.schema import Results
    from foretell.model.saved.model import SavedModel

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
    results: Results | None
    runs: pd.DataFrame | None
    measured: pd.DataFrame | None
    measured_from: str
    held_out: pd.DataFrame | None
    campaign: str | None
    missing: tuple[str, ...]

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
    import pandas as pd

    from foretell.model import directory as layout
    from foretell.model.evidence import read_runs
    from foretell.model.results.schema import read_results
    from foretell.model.saved.model import load_model

    if not place.is_dir():
        return _of_model(place, load_model(place), data, ())
    if not (place / layout.RESULTS).exists():
        lost = f"{place} has no {layout.RESULTS}, so there is no leaderboard. {_AGAIN}."
        return _of_model(place, load_model(place), data, (lost,))
    results = read_results(place / layout.RESULTS)
    campaign = _text(place / layout.CAMPAIGN)
    if results.best is None:
        return Findings(place, None, results, None, None, "", None, campaign, ())
    model = load_model(place)
    missing: list[str] = []
    runs = _kept_runs(place / layout.RUNS, model, missing)
    held_out = None
    if runs is not None:
        held_out = _held_out(place / layout.REHEARSALS, runs, model.target, missing)
    measured, measured_from = runs, "the fit"
    if data is not None:
        measured, measured_from = read_runs(data, model), _name_of(data)
        if runs is not None:
            measured = pd.concat([runs, measured], ignore_index=True).drop_duplicates()
            measured_from = f"the fit and {measured_from}"
    return Findings(
        place, model, results, runs, measured, measured_from, held_out, campaign, tuple(missing)
    )


def _of_model(
    place: Path, model: SavedModel, data: Path | pd.DataFrame | None, missing: tuple[str, ...]
) -> Findings:
    from foretell.model.evidence import read_runs

    runs = None if data is None else read_runs(data, model)
    return Findings(place, model, None, None, runs, _name_of(data), None, None, missing)


def _name_of(data: Path | pd.DataFrame | None) -> str:
    return str(data) if isinstance(data, Path) else "the frame"


def _kept_runs(path: Path, model: SavedModel, missing: list[str]) -> pd.DataFrame | None:
    from foretell.model.evidence import read_kept_runs

    if not path.exists():
        missing.append(f"There is no {path.name}, so no runs are shown. {_AGAIN}.")
        return None
    return read_kept_runs(path, model)


def _held_out(
    path: Path, runs: pd.DataFrame, target: str, missing: list[str]
) -> pd.DataFrame | None:
    from foretell.model.evidence import read_held_out

    if not path.exists():
        missing.append(
            f"There is no {path.name}, so predictions of runs held out are not shown. {_AGAIN}."
        )
        return None
    found = read_held_out(path, runs, target)
    if found.empty:
        missing.append("No run was held out, so errors on new runs are not known. Measure more.")
        return None
    return found


def _text(path: Path) -> str | None:
    """Read a small text file, if it is there."""
    try:
        if not path.is_file() or path.stat().st_size > _MOST_CAMPAIGN:
            return None
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
