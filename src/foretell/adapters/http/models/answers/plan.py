"""Plans over HTTP: the shape of the body, and the answer of the decide stage as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pydantic

from foretell.adapters.http.server.problems import in_json
from foretell.decide.plan.plan import make_plan
from foretell.decide.question.objective import PlanRequest
from foretell.predictor import Predictor

_MAX_MODELS = 5


class PlanBody(PlanRequest):
    """What to choose from, the limits, and what to minimize.

    ``models`` names further models, of energy or memory, that predict the same configurations.
    """

    models: list[str] = pydantic.Field(default=[], max_length=_MAX_MODELS)


def plan_of(models: Sequence[Predictor], request: PlanRequest) -> dict[str, Any]:
    """Make a plan, with options written as in JSON; numbers that JSON cannot write become null."""
    found: dict[str, Any] = _finite(make_plan(models, request).to_json(in_json))
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
