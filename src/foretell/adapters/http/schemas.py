"""What is asked and what is answered, typed: the server's OpenAPI description comes from here."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

Value = bool | int | float | str
Row = dict[str, Value]
Trust = Literal["inside", "near", "far", "unknown level"]
Share = Annotated[float, pydantic.Field(gt=0, lt=1)]


class _Asked(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")


class Problem(pydantic.BaseModel):
    """What went wrong, in the shape of RFC 9457."""

    type: str
    title: str
    status: int
    detail: str


class Rows(_Asked):
    """Configurations to predict, each with a value for every column of the model."""

    rows: list[Row] = pydantic.Field(min_length=1)


class CurveRequest(_Asked):
    """A configuration, and the numeric column to vary."""

    row: Row
    column: str
    interval: Share = 0.9
    n_points: int = pydantic.Field(default=60, ge=2, le=500)
    beyond: float = pydantic.Field(default=2.0, ge=1, le=100)


class Prediction(pydantic.BaseModel):
    """A prediction and its passport.

    ``outside`` says which columns leave the data and how far; ``expected_error`` is the mean
    relative error measured on such questions. What the model does not know is null.
    """

    value: float
    lower: float | None
    upper: float | None
    trust: Trust
    outside: str
    expected_error: float | None


class Predictions(pydantic.BaseModel):
    """One prediction per row, in the order of the rows."""

    model: str
    target: str
    interval: float
    predictions: list[Prediction]


class CurvePoint(Prediction):
    """A point of a curve."""

    x: float


class Curve(pydantic.BaseModel):
    """Predictions along one column; ``low`` and ``high`` are the ends of what was measured."""

    model: str
    target: str
    column: str
    interval: float
    low: float
    high: float
    points: list[CurvePoint]


class Estimate(pydantic.BaseModel):
    """A predicted quantity with the interval that holds 90 % of such runs, in its base unit."""

    value: float | None
    lower: float | None
    upper: float | None


class Choice(pydantic.BaseModel):
    """A configuration that a plan speaks of.

    ``certainties`` are the probabilities that limits hold, ``margins`` the shares of them that are
    left over.
    """

    configuration: Row
    estimates: dict[str, Estimate]
    certainties: dict[str, float]
    margins: dict[str, float | None]
    trust: Trust
    outside: str
    expected_error: float | None


class Plan(pydantic.BaseModel):
    """The configuration to use; none is chosen where nothing keeps the limits."""

    model: str
    text: str
    minimize: str
    currency: str | None
    limits: dict[str, float]
    confidence: float
    chosen: Choice | None
    closest: Choice | None
    runners_up: list[Choice]
    by_certainty: dict[str, Choice | None]
    binding: list[str]
    far: Choice | None
    n_configurations: int
    n_far: int
    is_searched: bool
    has_estimated_energy: bool


class Column(pydantic.BaseModel):
    """A column that the model needs: a number, a flag (true or false) or a category."""

    name: str
    kind: Literal["number", "flag", "category"]
    low: float | None = None
    high: float | None = None
    levels: list[float | str] = []


class Model(pydantic.BaseModel):
    """A model: what it predicts, from what, and how far off it was."""

    name: str
    target: str
    technique: str
    n_rows: int
    columns: list[Column]
    errors: dict[str, dict[str, float | None]]
    has_intervals: bool
    formula: str | None


class BrokenModel(pydantic.BaseModel):
    """A model that cannot be read, and why."""

    name: str
    problem: str


class Models(pydantic.BaseModel):
    """The models that are there now."""

    models: list[Model | BrokenModel]


class Job(pydantic.BaseModel):
    """A fit: waiting, under way, or ended. ``detail`` says why it failed."""

    id: str
    name: str
    target: str
    state: Literal["queued", "running", "done", "failed", "canceled"]
    n_done: int
    n_total: int | None
    created_at: str
    ended_at: str | None
    detail: str | None


class Jobs(pydantic.BaseModel):
    """The fits that the server remembers, the latest first."""

    jobs: list[Job]


class Health(pydantic.BaseModel):
    """Whether the server is well."""

    status: Literal["ok", "degraded"]
    version: str
    n_workers: int
    needs_token: bool
    is_read_only: bool
