"""JSON bodies and query parameters that fail validation, described in the words of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import pydantic
from pydantic_core import ErrorDetails, from_json

from foretell.adapters.http.server.problems import WRONG_INPUT, ProblemError
from foretell.files.complaints import Words, dotted, explain, is_rule, must_be, shown

Body = TypeVar("Body", bound=pydantic.BaseModel)

JSON_WORDS = Words(
    "an object", lambda *_: "add it to the body", lambda place: f"in the object {dotted(place)}"
)


def read_body(shape: type[Body], body: bytes) -> Body:
    """Read a JSON body of a certain shape; raise a problem that says what is wrong, and where."""
    if rb"\u0000" in body:
        _refuse_nul(_parsed(body), ())
    try:
        return shape.model_validate_json(body)
    except pydantic.ValidationError as error:
        found = explain(error, _parsed(body), shape, JSON_WORDS)
        place = (dotted(found.place)[:200],) if found.place else ("the body",)
        raise ProblemError(WRONG_INPUT, found.text, at=place) from None


def _parsed(body: bytes) -> Any:
    try:
        return from_json(body)
    except ValueError as error:
        raise ProblemError(WRONG_INPUT, f"the body is not valid JSON: {error}") from None


def _refuse_nul(value: Any, place: tuple[str | int, ...]) -> None:
    """Refuse NUL characters: no table can hold them, and numpy drops them at the end of a text."""
    if isinstance(value, str) and "\0" in value:
        raise ProblemError(
            WRONG_INPUT,
            f"{shown(value)} contains the character NUL, which no table can hold; remove it",
            at=(dotted(place)[:200],),
        )
    if isinstance(value, dict):
        for key, inner in value.items():
            _refuse_nul(key, place)
            _refuse_nul(inner, (*place, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            _refuse_nul(inner, (*place, i))


def describe_parameter(details: Mapping[str, Any]) -> str:
    """Say what is wrong with a query parameter.

    >>> describe_parameter({"type": "greater_than", "ctx": {"gt": 0.0}, "input": "-1"})
    "must be more than 0, not '-1'"
    """
    found = cast(ErrorDetails, details)
    if found["type"] == "missing":
        return "is required and missing; add it to the query"
    if found["type"] == "string_too_short":
        return "must not be empty"
    return must_be([found], JSON_WORDS) if is_rule(found) else found["msg"]
