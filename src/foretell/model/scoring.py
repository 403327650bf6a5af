"""How far off a model is: as rehearsed, on measured runs, by trust, and whether it has drifted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from foretell.dataset import describe_rows
from foretell.errors import DatasetError, ModelError, Option, UsageError
from foretell.model import directory as layout
from foretell.model.drift import Drift, Since, check_drift, is_since
from foretell.model.evidence import SeenRows, seen_rows
from foretell.model.passports.calibration import log_of_predictions, relative_error
from foretell.model.passports.known_errors import Judged, KnownError, known_errors
from foretell.model.passports.passport import Places, places
from foretell.model.passports.questions import QUESTIONS, mean_by_question, question_names
from foretell.model.results.schema import Errors, read_results
from foretell.model.results.text import HEADINGS, align, asked_questions, column_rows
from foretell.model.saved.model import Configurations, SavedModel, load_model
from foretell.predictor import TRUST_FAR, TRUST_INSIDE, TRUST_NEAR, TRUST_UNKNOWN, Forecast
from foretell.wording import counted, percent, rough_percent

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

INTERVAL = 0.9  # share of runs that the intervals are meant to hold
_TRUST = (TRUST_INSIDE, TRUST_NEAR, TRUST_FAR, TRUST_UNKNOWN)


@dataclass(frozen=True)
class TrustScore:
    """How a model did on runs of one trust class.

    Attributes
    ----------
    error, rehearsed_error
        The mean relative error, and the one expected from rehearsals; None where none went so far.
    n_held
        How many runs lie in their interval; None if the model has no intervals.
    """

    trust: str
    n_runs: int
    error: float
    rehearsed_error: float | None
    n_held: int | None

    @property
    def coverage(self) -> float | None:
        """The share of runs in their interval."""
        return None if self.n_held is None else self.n_held / self.n_runs


@dataclass(frozen=True)
class Score:
    """How far off models are.

    Attributes
    ----------
    source
        Where the errors come from: rehearsals of automatic mode, the validation rows of a campaign,
        or measured runs.
    errors
        For each model the mean relative error by question; None where no run asked it.
    n_rows
        With measured runs: how many ask each question.
    n_unmeasured, n_incomplete
        How many rows were left out because they have no target, or because a value of another
        column is missing or invalid.
    seen
        How many of the runs the model was fitted on; None if that is not known.
    by_trust
        With measured runs: errors and coverage of the intervals by trust class.
    by_column
        Errors of the best model, or on measured runs, between the values of each column and beyond
        its range.
    drift
        Whether the runs since a given one are further off than rehearsed, if that was asked.
    """

    source: Literal["rehearsed", "validation", "measured"]
    errors: dict[str, Errors]
    n_rows: dict[str, int] | None = None
    n_unmeasured: int = 0
    n_incomplete: int = 0
    seen: SeenRows | None = None
    by_trust: tuple[TrustScore, ...] = ()
    by_column: tuple[KnownError, ...] = ()
    drift: Drift | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        found: dict[str, Any] = {
            "source": self.source,
            "errors": self.errors,
            "by_column": [error.model_dump() for error in self.by_column],
        }
        if self.n_rows is not None:
            found |= {
                "n_rows": self.n_rows,
                "n_unmeasured": self.n_unmeasured,
                "n_incomplete": self.n_incomplete,
                "n_in_fit": None if self.seen is None else self.seen.n_seen,
                "interval": INTERVAL,
                "by_trust": {
                    s.trust: {k: v for k, v in asdict(s).items() if k != "trust"}
                    | {"coverage": s.coverage}
                    for s in self.by_trust
                },
            }
        return found | ({} if self.drift is None else {"drift": asdict(self.drift)})

    def __str__(self) -> str:
        asked = asked_questions(list(self.errors.values()))
        rows = [["relative error", *(HEADINGS[q] for q in asked)]]
        rows += [[name, *(percent(e.get(q)) for q in asked)] for name, e in self.errors.items()]
        if self.n_rows is not None:
            rows.append(["rows", *(str(self.n_rows[q]) for q in asked)])
        parts = [align(rows)]
        if any(error.columns for error in self.by_column):
            parts.append(align(column_rows(self.by_column)))
        if self.by_trust:
            parts.append(trust_text(self.by_trust))
        if self.seen is not None and self.seen.n_seen:
            parts.append(str(self.seen))
        if self.n_unmeasured:
            parts.append(f"{counted(self.n_unmeasured, 'row')} without a target left out.")
        if self.n_incomplete:
            parts.append(
                f"{counted(self.n_incomplete, 'row')} with missing or invalid values left out."
            )
        if self.drift is not None:
            parts.append(str(self.drift))
        return "\n\n".join(parts)


def score_model(
    model: str | Path,
    data: str | Path | pd.DataFrame | None = None,
    *,
    since: Since | None = None,
) -> Score:
    """Tell how far off a model is: as rehearsed in its fit, or on measured runs.

    Parameters
    ----------
    model
        An output directory of a fit, or a model file.
    data
        Runs with the measured target. By default, errors are those on runs held out in the fit.
    since
        Score only these runs, and check whether the model has drifted: a number of last
        rows, or the rows with at least this value of a column, as ``{"date": "2026-06-01"}``.

    >>> import foretell
    >>> score = foretell.score_model("models/", "new.csv", since=40)      # doctest: +SKIP
    >>> score.drift.has_drifted                                           # doctest: +SKIP
    False
    """
    path = Path(model)
    if data is not None:
        return _measured(path, Path(data) if isinstance(data, str) else data, since)
    if since is not None:
        raise UsageError("needs a table of measured runs", option=Option("since"))
    if path.is_dir() and (path / layout.RESULTS).exists():
        results = read_results(path / layout.RESULTS)
        by_column = results.errors_by_column
        errors = {e.technique: e.errors for e in results.models}
        source: Literal["rehearsed", "validation"] = (
            "rehearsed" if results.is_automatic else "validation"
        )
    else:
        loaded = load_model(path)
        by_column = loaded.errors
        errors = {_name(path, loaded): loaded.scores.get("rehearsed", {})}
        source = "rehearsed"
    if not asked_questions(list(errors.values())):
        raise ModelError(
            f"{path} has no errors on runs held out. Give a table of measured runs to score it on."
        )
    return Score(source, errors, by_column=tuple(by_column))


def _measured(path: Path, data: Path | pd.DataFrame, since: Since | None) -> Score:
    """Score a model on measured runs, by where these lie."""
    model = load_model(path)
    table = model.configurations(data)
    if since is not None:  # whatever is wrong with the other rows does not matter
        table = table.take(is_since(table, since))
    is_measured, truth = _targets(table)
    is_scored = is_measured & table.is_usable
    if not is_scored.any():
        is_scored = is_measured  # and reading them says what is wrong
    rows, truth = table.take(is_scored), truth[is_scored]
    forecast = model.forecast(rows, INTERVAL)
    place = places(model, rows.values, len(rows.frame))
    is_between = place.spot.between.any(axis=1)
    kinds = question_names(place.ratio, is_between=is_between, is_unknown=place.spot.is_unknown)
    # Rows with equal settings are one configuration.
    groups = rows.frame.groupby(model.columns, sort=False, dropna=False, observed=True).ngroup()
    errors = relative_error(log_of_predictions(forecast.value), np.log(truth))
    return Score(
        "measured",
        {_name(path, model): mean_by_question([errors], [kinds])},
        n_rows={name: int((kinds == name).sum()) for name in QUESTIONS},
        n_unmeasured=int((~is_measured).sum()),
        n_incomplete=int((is_measured & ~is_scored).sum()),
        seen=seen_rows(path, rows, truth),
        by_column=tuple(_by_column(place, errors)),
        by_trust=coverage_by_trust(forecast, truth),
        drift=None
        if since is None
        else check_drift(forecast, truth, groups.to_numpy().astype(np.int64), since),
    )


def _by_column(place: Places, errors: Array) -> list[KnownError]:
    """Average errors by the column along which rows leave the data."""
    return known_errors(
        [
            Judged(kind, (name,), direction, place.ratio[rows], errors[rows])
            for kind, name, direction, rows in place.spot.by_column()
            if rows.any()
        ]
    )


def _targets(table: Configurations) -> tuple[NDArray[np.bool_], Array]:
    """Return which rows have a target, as failed runs have none, and all targets."""
    target = table.model.target
    table.require([target])
    kept, truth = table.measurements(target, np.ones(len(table.frame), dtype=bool))
    is_bad = kept & ~(truth > 0)
    if is_bad.any():
        told = describe_rows(is_bad, table.row_numbers, "other value")
        raise DatasetError(f"{table.name}, column '{target}' must be positive; it has {told}")
    if not kept.any():
        raise DatasetError(f"{table.name} has no row with a measured '{target}'")
    return kept, truth


def _name(path: Path, model: SavedModel) -> str:
    """Name a model like its file: several members of an ensemble may share one technique."""
    return model.technique if path.is_dir() or path.name == layout.BEST else path.stem


def coverage_by_trust(forecast: Forecast, truth: Array) -> tuple[TrustScore, ...]:
    """Tell for each trust class how far off predictions are, and how many intervals hold."""
    errors = relative_error(log_of_predictions(forecast.value), np.log(truth))
    has_intervals = bool(np.isfinite(forecast.lower).all() and np.isfinite(forecast.upper).all())
    is_held = (forecast.lower <= truth) & (truth <= forecast.upper)
    found = []
    for trust in _TRUST:
        of = np.asarray(forecast.trust == trust, dtype=bool)
        if not of.any():
            continue
        rehearsed = forecast.expected_error[of]
        found.append(
            TrustScore(
                trust,
                int(of.sum()),
                float(errors[of].mean()),
                float(rehearsed.mean()) if np.isfinite(rehearsed).all() else None,
                int(is_held[of].sum()) if has_intervals else None,
            )
        )
    return tuple(found)


def trust_text(scores: tuple[TrustScore, ...], interval: float = INTERVAL) -> str:
    """Write errors and coverage by trust class as a table."""
    rows = [["trust", "runs", "off", "rehearsed", f"in the {100 * interval:g} % interval"]]
    for s in scores:
        held = "–" if s.n_held is None else f"{s.n_held} ({rough_percent(s.coverage)})"
        rows.append([s.trust, str(s.n_runs), percent(s.error), percent(s.rehearsed_error), held])
    return align(rows)


def since_of(text: str) -> Since:
    """Read what runs to take: ``40`` or ``COLUMN=VALUE``.

    >>> since_of("40"), since_of("date=2026-06-01")
    (40, {'date': '2026-06-01'})
    """
    name, equals, value = text.partition("=")
    if equals and name.strip() and value.strip():
        return {name.strip(): value.strip()}
    if text.strip().isdecimal():
        return int(text)
    raise UsageError(
        f"must be a number of rows, or COLUMN=VALUE, not '{text}'", option=Option("since")
    )
