"""The parts of results.json that a report shows, checked on reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pydantic

from foretell.errors import ModelError
from foretell.files.complaints import dotted, explain

_FORMAT = 1
_MOST_BYTES = 200_000_000


class _Part(pydantic.BaseModel):
    # Other keys are let be: results hold more than a report shows, and older ones hold less.
    model_config = pydantic.ConfigDict(extra="ignore", frozen=True)


class Data(_Part):
    """The table that was fitted."""

    name: str
    target: str
    n_rows: int
    columns: list[str]
    n_configurations: int
    noise: float | None = None


class Scores(_Part):
    """One score over validation splits."""

    mean: float | None = None
    spread: float | None = None


class Leader(_Part):
    """One row of the leaderboard, of automatic mode or of a campaign."""

    technique: str
    status: str
    reason: str | None = None
    votes: bool = True
    errors: dict[str, float | None] = {}
    formula: str | None = None
    hyperparameters: dict[str, Any] | None = None
    n_trials: int | None = None
    selection_error: float | None = None
    validation: dict[str, Scores] = {}
    coefficients: dict[str, float] | None = None
    intercept: float | None = None


class Trial(_Part):
    """One trial of a campaign."""

    split: str
    technique: str
    hyperparameters: dict[str, Any]
    status: str
    reason: str | None = None


class Plateau(_Part):
    """From this value of a column on, little changes."""

    column: str
    value: float


class Explanation(_Part):
    """What an automatic fit says in words."""

    law: str | None = None
    formula: str | None = None
    law_explains: float | None = None
    shares: dict[str, float] = {}
    totals: list[tuple[str, str]] = []
    plateaus: list[Plateau] = []


class Times(_Part):
    """What depends on the clock."""

    total_s: float | None = None
    fit_s: dict[str, float] = {}


class Rehearsals(_Part):
    """How many folds were rehearsed."""

    planned: int
    done: int


class Results(_Part):
    """What a fit came to."""

    format: int
    foretell: str
    versions: dict[str, str] = {}
    mode: str = "campaign"
    best: str | None = None
    data: Data
    search_cut_by_time_limit: bool = False
    notes: list[str] = []
    warnings: list[str] = []
    leaderboard: list[Leader] = pydantic.Field(min_length=1)
    trials: list[Trial] = []
    explanation: Explanation | None = None
    rehearsals: Rehearsals | None = None
    campaign: dict[str, Any] | None = None
    seed: int | None = None
    times: Times = Times()

    @property
    def is_automatic(self) -> bool:
        """Whether automatic mode wrote it."""
        return self.mode == "automatic"

    @property
    def leader(self) -> Leader:
        """The first of the leaderboard."""
        return self.leaderboard[0]


def read_results(path: Path) -> Results:
    """Read results.json; raise a ModelError where it is not what a fit writes."""
    again = "Fit again, into a new directory."
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ModelError(f"{path} has more than {_MOST_BYTES:,} bytes. {again}")
        values = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}; check the path") from None
    except (ValueError, RecursionError):
        raise ModelError(f"{path} is not JSON. {again}") from None
    if not isinstance(values, dict) or not isinstance(values.get("format"), int):
        raise ModelError(f"{path} is no results of foretell: it says no format. {again}")
    if values["format"] > _FORMAT:
        raise ModelError(
            f"{path} has format {values['format']}; this foretell reads up to {_FORMAT}. Upgrade "
            "foretell to read it."
        )
    try:
        return Results.model_validate(values)
    except pydantic.ValidationError as error:
        complaint = explain(error, values, Results)
        raise ModelError(f"{path}, {dotted(complaint.place)}: {complaint.text}. {again}") from None
