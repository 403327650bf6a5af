"""The runs behind a model and what was predicted of runs held out: written by a fit, read again.

Both files hold bounded samples, for reports.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import Dataset, as_numbers
from foretell.errors import DatasetError, ModelError
from foretell.model import directory as layout
from foretell.model.automatic.rehearsal import Answers
from foretell.model.campaigns.validation.splits import (
    MOST_PREDICTIONS,
    CampaignSplits,
    thinned,
)
from foretell.model.passports.passport import spot_in_table
from foretell.model.passports.questions import question_names
from foretell.model.saved.model import Configurations, SavedModel
from foretell.model.table import Table
from foretell.spaces.levels import trained_levels

if TYPE_CHECKING:
    from foretell.model.campaigns.record import Entry

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

_MOST_RUNS = 5_000  # kept for reports; of more, a sample
_MOST_BYTES = 50_000_000
_KEPT_DIGITS = 2.0**40
_DIRECTIONS = np.array(["below", "", "above"])
_COLUMNS = ("run", "question", "column", "direction", "ratio", "predicted")


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Runs that a model was not fitted on, and what it predicted of them.

    Attributes
    ----------
    rows
        Their positions in the table.
    question
        What was asked: inside, between levels, this far beyond the range, or an unknown level.
    column, direction
        Along which column a run leaves the training rows, and whether above or below.
    ratio
        By which factor it does; 1 where it does not.
    """

    rows: Rows
    question: NDArray[np.str_]
    column: NDArray[np.str_]
    direction: NDArray[np.str_]
    ratio: Array
    predicted: Array

    def take(self, positions: Rows) -> HeldOut:
        """Keep some of the runs."""
        kept = {name: values[positions] for name, values in vars(self).items()}
        return replace(self, **kept)

    def errors(self, truth: Array) -> Array:
        """Return the relative errors, given the target of all rows; not finite where it is 0."""
        return relative_errors(self.predicted, truth[self.rows])


def relative_errors(predicted: Array, truth: Array) -> Array:
    """Return how far predictions are off, as shares of the truth."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(np.abs(predicted / truth - 1))


def of_rehearsals(table: Table, answers: Sequence[Answers], used: Rows) -> Iterator[HeldOut]:
    """Yield what the ensemble answered in rehearsals; ``used`` are the rows it was fitted on."""
    features = table.feature_map.features
    for a in answers:
        rows = used[a.rows]
        names = dict.fromkeys(features[c].factors[0].column for c in a.fold.columns)
        yield HeldOut(
            rows,
            a.questions,
            np.full(len(rows), " + ".join(names)),
            np.full(len(rows), _DIRECTIONS[a.fold.direction + 1]),
            a.ratio,
            np.exp(a.combined),
        )


@dataclass(frozen=True, eq=False)
class Validation:
    """The validation rows of a campaign, and where they lie relative to their training rows."""

    table: Table
    plan: CampaignSplits

    def predicted_by(self, entry: Entry) -> Iterator[HeldOut]:
        """Yield what a technique's winners predicted, split by split."""
        for judgement in entry.judgements:
            if judgement.predicted is not None:
                placed = self._placed[judgement.outer]
                yield replace(placed, predicted=np.array(judgement.predicted))

    @cached_property
    def _placed(self) -> dict[str, HeldOut]:
        """The validation rows of each outer split whose predictions are kept."""
        splits = {outer.key: self.plan.splits[outer.key] for outer in self.plan.outer}
        most = self.plan.n_predictions
        return {key: _placed(self.table, s.train, s.kept(most)) for key, s in splits.items()}


def _placed(table: Table, train: Rows, test: Rows) -> HeldOut:
    """Say where test rows lie relative to training rows."""
    spot = spot_in_table(table, train, test)
    is_between = spot.between.any(axis=1)
    column = np.full(len(test), "", dtype=object)
    way = np.zeros(len(test), dtype=np.int64)
    if spot.names:
        furthest = spot.ratio.argmax(axis=1)
        cut = np.where(spot.is_beyond, furthest, spot.between.argmax(axis=1))
        names = np.array(spot.names, dtype=object)[cut]
        column[:] = np.where(is_between | spot.is_beyond, names, "")
        way = np.sign(spot.distance[np.arange(len(test)), furthest]).astype(np.int64)
    for name, is_new in spot.unknown.items():
        column[is_new], way[is_new] = name, 0
    ratios = spot.ratio.max(axis=1, initial=1.0)
    question = question_names(ratios, is_between=is_between, is_unknown=spot.is_unknown)
    unknown = np.full(len(test), np.nan)
    return HeldOut(test, question, column.astype(str), _DIRECTIONS[way + 1], ratios, unknown)


def evidence_files(table: Table, target: str, held_out: Sequence[HeldOut]) -> dict[str, str]:
    """Write the runs, and the predictions of those held out, as two tables.

    The second names a run by its number in the first, counted from 1.
    """
    total = sum(len(h.rows) for h in held_out)
    share = MOST_PREDICTIONS / max(total, MOST_PREDICTIONS)
    # Every fold keeps its share, so that a sample still asks every question.
    sampled = [h.take(thinned(len(h.rows), max(1, int(share * len(h.rows))))) for h in held_out]
    needed = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(h.rows for h in sampled)]))
    others = np.setdiff1d(np.arange(len(table.y)), needed)
    rest = others[thinned(len(others), max(0, _MOST_RUNS - len(needed)))]
    kept = np.union1d(needed, rest).astype(np.int64)
    names = [c.name for c in table.feature_map.columns]
    frames = [
        pd.DataFrame({"run": np.searchsorted(kept, h.rows) + 1, **vars(h)})[list(_COLUMNS)]
        for h in sampled
        if len(h.rows)
    ]
    predictions = pd.concat(frames) if frames else pd.DataFrame(columns=_COLUMNS)
    runs = table.frame.iloc[kept][[*names, target]]
    return {
        # Texts in quotes: a table whose first name is <script> must not be taken for a web page.
        layout.RUNS: runs.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC),
        layout.REHEARSALS: predictions.to_csv(index=False, float_format="%.8g"),
    }


def read_runs(source: Path | pd.DataFrame | Dataset, model: SavedModel) -> pd.DataFrame:
    """Read measured runs under the names of training; drop failed ones, whose target is empty."""
    dataset = model.configurations(source)
    dataset.require([model.target])
    frame = dataset.frame[[*model.columns, model.target]].copy()
    frame[model.target] = as_numbers(frame[model.target])
    for name, levels in model.categories.items():
        frame[name] = trained_levels(frame[name], levels)
    measured: pd.DataFrame = frame[np.isfinite(frame[model.target])].dropna()
    if measured.empty:
        raise DatasetError(f"{dataset.name} has no row with a measured '{model.target}'")
    return measured.reset_index(drop=True)


def read_kept_runs(path: Path, model: SavedModel) -> pd.DataFrame:
    """Read the runs that a fit kept."""
    _check_file(path)
    try:
        return read_runs(path, model)
    except (DatasetError, ModelError) as error:
        raise _damaged(path, str(error)) from None


@dataclass(frozen=True)
class SeenRows:
    """How many rows of a table a model was fitted on.

    Attributes
    ----------
    is_at_least
        Whether there may be more, because only a sample of the runs behind the model is known.
    """

    n_seen: int
    n_rows: int
    is_at_least: bool

    def __str__(self) -> str:
        """Warn that errors on these rows are smaller than on new ones."""
        some = "at least " if self.is_at_least else ""
        text = f"{some}{self.n_seen} of {self.n_rows} rows were in the fit; "
        return f"{text}on those, the error is optimistic.".capitalize()


def seen_rows(path: Path, rows: Configurations, truth: Array) -> SeenRows | None:
    """Count the rows that the model of a file or directory was fitted on; None if not known.

    A row counts if its settings and its target are those of a run that the fit left beside the
    model. A new run of a known configuration has another target.
    """
    directory = path if path.is_dir() else path.parent
    runs = directory / layout.RUNS
    if not (directory / layout.RESULTS).is_file() or not runs.is_file():
        return None
    model = rows.model
    try:
        kept = read_kept_runs(runs, model)
        known = _keys(model.configurations(kept), kept[model.target].to_numpy(dtype=float))
    except (DatasetError, ModelError):
        return None
    n_seen = int(_keys(rows, truth).isin(known).sum())
    return SeenRows(n_seen, len(truth), len(kept) < model.n_rows)


def _keys(rows: Configurations, truth: Array) -> pd.MultiIndex:
    """Return settings and target of each row; numbers in the digits that survive a file."""
    values = [_rounded(own) if own.dtype == np.float64 else own for own in rows.values.values()]
    return pd.MultiIndex.from_arrays([*values, _rounded(truth)])


def _rounded(values: Array) -> Array:
    mantissa, exponent = np.frexp(values)
    rounded: Array = np.ldexp(np.round(mantissa * _KEPT_DIGITS), exponent)
    return rounded


def read_held_out(path: Path, runs: pd.DataFrame, target: str) -> pd.DataFrame:
    """Read what was predicted of runs held out.

    Returns the columns of rehearsals.csv, and ``row``, the position of the run, ``measured``, its
    target, and ``error``, the relative error. Rows without one are left out.
    """
    _check_file(path)
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
    frame["error"] = relative_errors(frame["predicted"].to_numpy(), frame["measured"].to_numpy())
    known: pd.DataFrame = frame[np.isfinite(frame["error"])]
    return known.reset_index(drop=True)


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise _damaged(path, "it is not a file")
    if path.stat().st_size > _MOST_BYTES:
        raise _damaged(path, f"it has more than {_MOST_BYTES:,} bytes")


def _damaged(path: Path, why: str) -> ModelError:
    return ModelError(
        f"{path} is not as `foretell fit` left it ({why}). Remove it, and the report leaves out "
        "what it shows; or fit again, into a new directory."
    )
