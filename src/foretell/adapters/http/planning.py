"""Plans over HTTP: the body in, the answer of the decide stage out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pydantic
from pydantic.json_schema import models_json_schema
from pydantic_core import from_json

from foretell.adapters.http.problems import ProblemError
from foretell.adapters.http.schemas import CurveRequest, Rows
from foretell.decide.plan.plan import make_plan
from foretell.decide.question.objective import PlanRequest, read_request
from foretell.errors import UsageError
from foretell.predictor import Predictor

REFERENCE = "#/components/schemas/{model}"
_MOST_MODELS = 5


class PlanBody(PlanRequest):
    """What to choose from, the limits, and what to minimize.

    ``models`` names further models, of energy or memory, that predict the same configurations.
    """

    models: list[str] = pydantic.Field(default=[], max_length=_MOST_MODELS)


def read_plan_body(body: bytes) -> tuple[list[str], PlanRequest]:
    """Read the names of further models, and what is asked."""
    try:
        values = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise ProblemError("wrong-input", f"the body is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise ProblemError("wrong-input", "the body must be an object, with what to vary and fix")
    models = values.pop("models", [])
    are_names = isinstance(models, list) and all(isinstance(name, str) for name in models)
    if not are_names or len(models) > _MOST_MODELS:
        raise ProblemError("wrong-input", f"models: must be at most {_MOST_MODELS} names")
    with _words():
        return models, read_request(values)


def plan_of(models: Sequence[Predictor], request: PlanRequest) -> dict[str, Any]:
    """Make a plan; numbers without end become null."""
    with _words():
        found: dict[str, Any] = _finite(make_plan(models, request).to_json())
    return {**found, "text": _in_a_body(found["text"])}


def request_schemas() -> dict[str, Any]:
    """Describe all bodies, for the server's own description."""
    wanted: list[Any] = [(kind, "validation") for kind in (Rows, CurveRequest, PlanBody)]
    _, found = models_json_schema(wanted, ref_template=REFERENCE)
    definitions: dict[str, Any] = found["$defs"]
    return definitions


@contextmanager
def _words() -> Iterator[None]:
    """Call options by their names in a body: ``--max-energy`` is ``max_energy`` there."""
    try:
        yield
    except UsageError as error:
        raise UsageError(_in_a_body(str(error))) from None


def _in_a_body(text: str) -> str:
    return re.sub(r"--([a-z][a-z-]*)", lambda m: m[1].replace("-", "_"), text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
