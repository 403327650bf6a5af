"""Pydantic's validation errors in plain words: the place, the rule, the value, a remedy."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, LiteralString, get_args, get_origin

import pydantic
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from foretell.errors import suggest

Place = tuple[str | int, ...]

#: What each of pydantic's error types requires, to follow "must be".
_RULES = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_parsing_size": "a smaller whole number",
    "string_type": "a text in quotes",
    "list_type": "a list",
    "dict_type": "{table}",
    "model_type": "{table}",
    "model_attributes_type": "{table}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "string_too_short": "a text that is not empty",
    "string_too_long": "at most {max_length} characters long",
    "literal_error": "{expected}",
}

#: A value of each simple type, as TOML writes it.
_EXAMPLES = {int: "1", float: "1", bool: "true", str: '"..."', list: "[...]", tuple: "[...]"}


@dataclass(frozen=True)
class Words:
    """What a format calls its parts.

    Attributes
    ----------
    table
        A mapping from names to values.
    missing, elsewhere
        Where to write an entry of some type that is missing, and in which table an unknown one
        belongs.
    """

    table: str
    missing: Callable[[Place, Any], str]
    elsewhere: Callable[[Place], str]


def _missing_in_toml(place: Place, annotation: Any) -> str:
    name = str(place[-1])
    example = _example(name, annotation)
    if place[1:]:
        return f"write it under {_table_name(place[:-1])}{example and f', such as {example}'}"
    if _is_list_of_tables(annotation):
        return f"write it as tables [[{name}]]"
    return f"write it, such as {example}" if example else f"write it as a table [{name}]"


def _table_name(place: Place) -> str:
    """Write the header of a table; that of one in a list has two brackets.

    >>> _table_name(("data",)), _table_name(("class", 0)), _table_name(("class", 0, "service"))
    ('[data]', '[[class]]', '[class.service]')
    """
    name = dotted(tuple(step for step in place if isinstance(step, str)))
    return f"[[{name}]]" if isinstance(place[-1], int) else f"[{name}]"


def _example(name: str, annotation: Any) -> str:
    """Write an entry of a simple type; empty for a table, and where any value may be written."""
    if _is_list_of_tables(annotation):
        return ""
    value = _EXAMPLES.get(get_origin(annotation) or annotation)
    if get_origin(annotation) is Literal:
        value = json.dumps(get_args(annotation)[0])
    return f"{name} = {value}" if value else ""


def _is_list_of_tables(annotation: Any) -> bool:
    return get_origin(annotation) is list and bool(_models_in(annotation))


TOML = Words("a table", _missing_in_toml, lambda place: f"under [{dotted(place)}]")


@dataclass(frozen=True)
class Complaint:
    """What is wrong, and where.

    Attributes
    ----------
    place
        The steps from the top of the file to the value.
    rule
        What was expected and what came.
    remedy
        What to do, in the terms of a TOML file; empty where the rule says it.
    kind
        A name for the rule, for callers that word the remedy for another format.
    """

    place: Place
    rule: str
    kind: str
    remedy: str = ""

    @property
    def text(self) -> str:
        """The rule and the remedy."""
        return "; ".join(part for part in (self.rule, self.remedy) if part)


def refusal(
    kind: LiteralString, rule: str, *, at: tuple[str, ...], remedy: str = ""
) -> PydanticCustomError:
    """Make the error that a validator raises; ``at`` is the path from its field to the fault."""
    return PydanticCustomError(kind, "{rule}", {"rule": rule, "remedy": remedy, "at": at})


def dotted(place: Place) -> str:
    """Write a place the way TOML names it.

    >>> dotted(("data", "use_columns", 1))
    'data.use_columns[1]'
    """
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".") or "the top level"


def explain(
    error: pydantic.ValidationError,
    source: Any,
    model: type[pydantic.BaseModel],
    words: Words = TOML,
) -> Complaint:
    """Choose the most helpful of the errors, and word it in the terms of a format."""
    found = [(_place(details, source), details) for details in error.errors(include_url=False)]
    for place, details in found:
        # A misspelled name also makes the right one missing, so report the misspelling first.
        if details["type"] == "extra_forbidden":
            return Complaint(place, _unknown(place, source, model, words), "unknown")
    first = found[0][0]
    deepest = max((p for p, _ in found if p[: len(first)] == first), key=len)
    details = next(d for p, d in found if p == deepest)
    if is_rule(details):
        same = [d for p, d in found if p == deepest and is_rule(d)]
        return Complaint(deepest, must_be(same, words), details["type"])
    if details["type"] == "missing":
        remedy = words.missing(deepest, _annotation_at(deepest, source, model))
        return Complaint(deepest, f"is required and missing; {remedy}", details["type"])
    rule = _special(deepest, details, source, model)
    return Complaint(deepest, rule, details["type"], details.get("ctx", {}).get("remedy", ""))


def _place(details: ErrorDetails, source: Any) -> Place:
    """Drop the steps that pydantic adds for types and tags; they are not in the source."""
    place: list[str | int] = []
    for position, step in enumerate(details["loc"]):
        is_missing_one = details["type"] == "missing" and position == len(details["loc"]) - 1
        is_index = isinstance(source, list | tuple) and step in range(len(source))
        if is_index or (isinstance(source, Mapping) and step in source):
            source = source[step]
        elif not is_missing_one:
            continue
        place.append(step)
    return (*place, *details.get("ctx", {}).get("at", ()))


def is_rule(details: ErrorDetails) -> bool:
    """Whether a fault is that of a simple rule, such as a type or a bound."""
    return details["type"] in _RULES


def must_be(alternatives: list[ErrorDetails], words: Words = TOML) -> str:
    """Say what was expected and what came."""
    rules = []
    for details in alternatives:
        context = details.get("ctx", {})
        known = {k: f"{v:g}" if isinstance(v, float) else v for k, v in context.items()}
        rules.append(_RULES[details["type"]].format(table=words.table, **known))
    value = alternatives[0]["input"]
    text = f"must be {' or '.join(dict.fromkeys(rules))}, not {shown(value)}"
    is_lone = isinstance(value, str) and value and alternatives[0]["type"] == "list_type"
    return f'{text}; write ["{value}"]' if is_lone else text


def _special(
    place: Place, details: ErrorDetails, source: Any, model: type[pydantic.BaseModel]
) -> str:
    match details["type"]:
        case "too_short":
            least, n_there = details["ctx"]["min_length"], details["ctx"]["actual_length"]
            if least > 1:
                return f"at least {least} are needed, not {n_there}"
            return "must not be empty"
        case "too_long":
            return f"must have at most {details['ctx']['max_length']} entries"
        case "union_tag_not_found":
            methods = _methods(_models_at(place, source, model))
            return f"has no method; write method = one of {', '.join(methods)}"
        case "union_tag_invalid":
            tag = details["ctx"]["tag"]
            known = _methods(_models_at(place, source, model))
            return f"unknown method '{tag}'. {suggest(tag, known)}"
        case _:
            return details["msg"].removeprefix("Value error, ")


def _unknown(place: Place, source: Any, model: type[pydantic.BaseModel], words: Words) -> str:
    name, table = str(place[-1]), place[:-1]
    here = _models_at(table, source, model)[0]
    homes = _tables_with(name, model, (), is_vague=False)
    homes = _tables_with(name, here, table, is_vague=True) + homes if table else homes
    if name in _fields(model):
        hint = "It belongs at the top level."
    elif homes and len(table) < 2:
        hint = f"It belongs {words.elsewhere(homes[0])}."
    else:
        hint = suggest(name, _fields(here))
    return f"unknown option '{name}'. {hint}"


def _tables_with(
    name: str, model: type[pydantic.BaseModel], place: Place, *, is_vague: bool
) -> list[Place]:
    """Find the tables right below a model that have an option; if vague, with any method."""
    found: list[Place] = []
    for step, field in _fields(model).items():
        models = _models_in(field.annotation)
        if (is_vague or len(models) == 1) and any(name in _fields(m) for m in models):
            found.append((*place, step))
    return found


def _models_at(
    place: Place, source: Any, model: type[pydantic.BaseModel]
) -> list[type[pydantic.BaseModel]]:
    """List the models that may describe a table: one, or several while its method is unknown."""
    models, is_key = [model], False
    for step in place:
        source = source[step]
        if is_key or isinstance(step, int):  # of a table or a list: all values have these models
            is_key = False
            continue
        annotation = _fields(models[0])[str(step)].annotation
        models, is_key = _models_in(annotation), get_origin(annotation) in (dict, list)
        if isinstance(source, Mapping) and len(models) > 1:
            chosen = [m for m in models if source.get("method") in _methods([m])]
            models = chosen or models
    return models


def _annotation_at(place: Place, source: Any, model: type[pydantic.BaseModel]) -> Any:
    """Return the type of an entry; None if it is not known."""
    for found in _models_at(place[:-1], source, model):
        if field := _fields(found).get(str(place[-1])):
            return field.annotation
    return None


def _fields(model: type[pydantic.BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model by the names that they have in a file."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _methods(models: list[type[pydantic.BaseModel]]) -> list[str]:
    return [tag for m in models for tag in get_args(m.model_fields["method"].annotation)]


def _models_in(annotation: Any) -> list[type[pydantic.BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def shown(value: Any, most: int = 60) -> str:
    """Write a value for a message; a long one is cut."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"
