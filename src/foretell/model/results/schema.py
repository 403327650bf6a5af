"""The schema of results.json: the same types are written, read and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import pydantic

from foretell.errors import ModelError
from foretell.files.complaints import dotted, explain
from foretell.model.passports.known_errors import KnownError

#: Raised whenever a key is added, removed or changes its meaning. 1 was written by foretell 0.1.0.
FORMAT: Final = 2
_MOST_BYTES = 100_000_000
_AGAIN = "Fit again, into a new directory."

AUTOMATIC: Literal["automatic"] = "automatic"
CAMPAIGN: Literal["campaign"] = "campaign"

Count = Annotated[int, pydantic.Field(ge=0, le=10**12)]
Positive = Annotated[int, pydantic.Field(ge=1, le=10**12)]
#: Scores of one set of rows by name; None where a score is not defined.
ScoreValues = dict[str, float | None]
#: Mean relative errors by question; None where no run asked it.
Errors = dict[str, float | None]


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def __getitem__(self, name: str) -> Any:
        """Return a field by its key in results.json."""
        if name not in type(self).model_fields:
            raise KeyError(name)
        return getattr(self, name)


class Data(_Part):
    """The table that was fitted.

    Attributes
    ----------
    n_used
        Rows that models were fitted on: fewer than ``n_rows`` where a sample was drawn.
    n_lower_bounds
        Further runs that were stopped at a time limit, and taught how large the target is at least.
    noise
        The relative deviation of repeated runs; None if there are no repeats, or if a target is
        not positive.
    """

    name: str
    target: str
    n_rows: Positive
    n_used: Positive
    n_lower_bounds: Count = 0
    columns: list[str]
    n_features: Count
    n_configurations: Positive
    noise: float | None


class Spread(_Part):
    """A score over validation splits: its mean and its standard deviation between them."""

    mean: float | None
    spread: float | None


class SplitResult(_Part):
    """How the winner of one validation split did."""

    run: Count
    split: Count
    hyperparameters: dict[str, Any]
    selection_error: float | None
    training: ScoreValues | None
    validation: ScoreValues | None
    reason: str | None


class LeaderboardEntry(_Part):
    """One model, or a technique that gave none.

    Attributes
    ----------
    reason
        Why there is no model; None if there is one.
    votes
        Whether it is a member of the ensemble.
    errors
        Mean relative errors on runs held out, by question.
    selection_error, validation, training, splits
        Of a campaign: the error that ranks, and scores on the validation splits.
    all_rows
        Scores on the rows the model was fitted on.
    shares
        Of a campaign: the share of each column in the variance of the logarithm of predictions.
    """

    technique: str
    status: Literal["ok", "failed", "untried"]
    reason: str | None = None
    file: str | None = None
    votes: bool = False
    hyperparameters: dict[str, Any] | None = None
    errors: Errors = {}
    n_trials: Count = 0
    selection_error: float | None = None
    validation: dict[str, Spread] = {}
    training: dict[str, Spread] = {}
    splits: list[SplitResult] = []
    all_rows: ScoreValues | None = None
    features: list[str] = []
    formula: str | None = None
    coefficients: dict[str, float] | None = None
    intercept: float | None = None
    importances: dict[str, float] | None = None
    shares: dict[str, float] = {}
    notes: list[str] = []


class TrialResult(_Part):
    """One trial of a campaign."""

    split: str
    technique: str
    hyperparameters: dict[str, Any]
    status: Literal["ok", "failed", "stopped"]
    error: float | None
    folds: list[ScoreValues]
    reason: str | None


class Plateau(_Part):
    """From this value of a column on, the target changes little."""

    column: str
    value: float


class Cliff(_Part):
    """Where the target changes at once: from this value of a column or product on, by a factor.

    The factor is None if hardly any run on one of the sides ended.
    """

    product: str
    value: float
    factor: float | None


class Explanation(_Part):
    """What an automatic model says about the columns.

    Attributes
    ----------
    law, formula, law_explains
        The law nearest to the runs, and the share of the variance of the log target it explains.
    explains
        The same share for the ensemble, on held-out runs at known values; None if there are none.
    without_effect
        Columns that explain no more than shuffled copies of them would, and have no share.
    totals
        Pairs of columns whose product explains what neither does alone.
    """

    law: str | None
    formula: str | None
    law_explains: float | None
    explains: float | None = None
    shares: dict[str, float]
    without_effect: list[str] = []
    totals: list[tuple[str, str]]
    cliffs: list[Cliff]
    plateaus: list[Plateau]


class Rehearsals(_Part):
    """How many folds automatic mode rehearsed."""

    planned: Count
    done: Count


class Times(_Part):
    """Everything that depends on the clock."""

    total_s: float
    fit_s: dict[str, float]


class Results(_Part):
    """What a fit leaves behind, for people and programs.

    Attributes
    ----------
    best
        The technique of the best model; None if no technique gave one.
    reaches
        How far below and above its range errors of the best model were measured on runs held out,
        by column, as ratios.
    errors_by_column
        The mean error of the best model on those runs, by question, column and direction.
    campaign
        The campaign with all defaults; in automatic mode, the one that it stands for.
    drop_missing
        Whether rows with a missing value were to be left out.

    Fields can also be read as keys: ``results["data"]["n_rows"]`` is ``results.data.n_rows``.
    """

    format: Literal[2] = FORMAT
    foretell: str
    versions: dict[str, str]
    kind: Literal["automatic", "campaign"]
    best: str | None
    seed: int
    data: Data
    search_cut_by_time_limit: bool
    notes: list[str]
    warnings: list[str]
    leaderboard: list[LeaderboardEntry] = pydantic.Field(min_length=1)
    trials: list[TrialResult] = []
    rehearsals: Rehearsals | None = None
    explanation: Explanation | None = None
    reaches: dict[str, tuple[float, float]] = {}
    errors_by_column: list[KnownError] = []
    campaign: dict[str, Any] = {}
    drop_missing: bool = False
    times: Times

    @pydantic.model_validator(mode="after")
    def _check_best(self) -> Results:
        names = [e.technique for e in self.leaderboard if e.status == "ok"]
        if self.best is not None and self.best not in names:
            raise ValueError(f"best must be a model of the leaderboard, not '{self.best}'")
        return self

    @property
    def is_automatic(self) -> bool:
        """Whether automatic mode wrote them."""
        return self.kind == AUTOMATIC

    @property
    def models(self) -> list[LeaderboardEntry]:
        """The entries of the leaderboard that have a model, best first."""
        return [e for e in self.leaderboard if e.status == "ok"]

    def entry(self, technique: str) -> LeaderboardEntry:
        """Find the entry of a technique."""
        return next(e for e in self.leaderboard if e.technique == technique)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as results.json holds them."""
        return self.model_dump(mode="json")

    def to_text(self) -> str:
        """Write results.json."""
        return json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n"


def read_results(path: Path) -> Results:
    """Read results.json; raise a ModelError if it is not what a fit writes."""
    content = _content(path)
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        raise ModelError(f"{path} is not JSON. {_AGAIN}") from None
    if not isinstance(values, dict) or type(values.get("format")) is not int:
        raise ModelError(f"{path} is not a results file of foretell: it has no format. {_AGAIN}")
    if values["format"] < FORMAT:
        raise ModelError(
            f"{path} has format {values['format']}, which foretell 0.1.0 wrote, and this foretell "
            f"reads format {FORMAT}. {_AGAIN}"
        )
    if values["format"] > FORMAT:
        raise ModelError(
            f"{path} has format {values['format']}; this foretell reads format {FORMAT}. Upgrade "
            "foretell to read it."
        )
    try:
        return Results.model_validate_json(content, strict=True)
    except pydantic.ValidationError as error:
        complaint = explain(error, values, Results)
        raise ModelError(f"{path}, {dotted(complaint.place)}: {complaint.text}. {_AGAIN}") from None


def _content(path: Path) -> bytes:
    try:
        if not path.is_file():  # a device may have no end
            raise ModelError(f"{path} is not a file. {_AGAIN}")
        if path.stat().st_size > _MOST_BYTES:
            raise ModelError(f"{path} has more than {_MOST_BYTES:,} bytes. {_AGAIN}")
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}; check the path") from None
