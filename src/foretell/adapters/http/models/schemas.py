"""The shapes of requests and answers; the OpenAPI description of the server comes from here."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

Value = bool | int | float | str
Row = dict[str, Value]
Trust = Literal["inside", "near", "far", "unknown level", "missing", "invalid"]
State = Literal["queued", "running", "done", "failed", "canceled"]
Share = Annotated[float, pydantic.Field(gt=0, lt=1)]


class _Request(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")


class Rows(_Request):
    """Configurations to predict, each with a value for every column of the model."""

    rows: list[Row] = pydantic.Field(min_length=1)


class CurveRequest(_Request):
    """A configuration, and the numeric column to vary."""

    row: Row
    column: str
    interval: Share = 0.9
    n_points: int = pydantic.Field(default=60, ge=2, le=500)
    beyond: float = pydantic.Field(default=2.0, ge=1, le=100)


class Prediction(pydantic.BaseModel):
    """A prediction and its passport.

    ``outside`` says which columns leave the measured range and how far; ``expected_error`` is the
    mean relative error measured at that distance. What the model does not know is null. A row
    with a value that is missing or cannot be used has no prediction, *missing* or *invalid* as its
    trust, and the reason in ``outside``.
    """

    value: float | None
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


class Run(pydantic.BaseModel):
    """A measured run: the value of the column of a curve, and the target."""

    x: float
    value: float


class Curve(pydantic.BaseModel):
    """Predictions along one column.

    ``low`` and ``high`` are the ends of the measured range. ``runs`` are the measured runs that
    differ from the configuration in this column only, where the fit left its runs.
    """

    model: str
    target: str
    column: str
    interval: float
    low: float
    high: float
    points: list[CurvePoint]
    runs: list[Run]


class Estimate(pydantic.BaseModel):
    """A predicted quantity with the interval that holds 90 % of such runs, in its base unit."""

    value: float | None
    lower: float | None
    upper: float | None


class Choice(pydantic.BaseModel):
    """A configuration that a plan compares.

    ``certainties`` are the probabilities that limits hold. ``margins`` are the shares of the limits
    that remain unused.
    """

    configuration: Row
    estimates: dict[str, Estimate]
    certainties: dict[str, float]
    margins: dict[str, float | None]
    trust: Trust
    outside: str
    expected_error: float | None


class PassedOver(pydantic.BaseModel):
    """A configuration that looks better, but is outside the data or never run, and too uncertain.

    ``chance`` is the probability that it really is better.
    """

    candidate: Choice
    chance: float


class Plan(pydantic.BaseModel):
    """The configuration to use; ``chosen`` is null where no configuration meets the limits."""

    model: str
    text: str
    minimize: str
    currency: str | None
    limits: dict[str, float]
    confidence: float
    risk: float
    chosen: Choice | None
    closest: Choice | None
    runners_up: list[Choice]
    by_certainty: dict[str, Choice | None]
    binding: list[str]
    passed_over: PassedOver | None
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
    """A fit that waits, runs or has ended; ``detail`` says why it failed."""

    id: str
    name: str
    target: str
    state: State
    n_done: int
    n_total: int | None
    created_at: str
    ended_at: str | None
    detail: str | None


class Jobs(pydantic.BaseModel):
    """The fits that the server knows, the latest first."""

    jobs: list[Job]


class Health(pydantic.BaseModel):
    """The state of the server."""

    status: Literal["ok", "degraded"]
    version: str
    n_workers: int
    needs_token: bool
    is_read_only: bool
