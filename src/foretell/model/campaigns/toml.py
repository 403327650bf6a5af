"""Writes campaigns as TOML, and the JSON schema that lets editors check them."""

from __future__ import annotations

from typing import Any

import tomli_w

from foretell.model.campaigns.schema import Campaign
from foretell.model.techniques import TECHNIQUES, Hyperparameter

_WIDEST = 100


def write_toml(campaign: Campaign) -> str:
    """Write a campaign as TOML without defaults; reading it back gives an equal campaign.

    >>> from foretell.model.campaigns.schema import read_campaign
    >>> techniques = {"LRRidge": {"alpha": [0.1, 1]}, "NNLS": {}}
    >>> campaign = read_campaign({"data": {"target": "y"}, "techniques": techniques, "seed": 3})
    >>> print(write_toml(campaign), end="")
    seed = 3
    <BLANKLINE>
    [data]
    target = "y"
    <BLANKLINE>
    [techniques.LRRidge]
    alpha = [0.1, 1]
    <BLANKLINE>
    [techniques.NNLS]
    """
    values = campaign.model_dump(exclude_defaults=True)
    scalars = {name: value for name, value in values.items() if name not in Campaign.sections}
    tables = {name: values[name] for name in Campaign.sections if name in values}
    return _short_lists(tomli_w.dumps({**scalars, **tables}))


def campaign_schema() -> dict[str, Any]:
    """Describe campaign files as a JSON schema, with every technique and hyperparameter."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Campaign.model_json_schema(),
        "title": "foretell campaign",
    }
    schema["properties"]["techniques"] |= {
        "properties": {name: _technique_schema(name) for name in TECHNIQUES.names()},
        "additionalProperties": False,
    }
    return schema


def _technique_schema(name: str) -> dict[str, Any]:
    technique = TECHNIQUES.get(name)
    return {
        "type": "object",
        "description": (technique.__doc__ or name).strip().splitlines()[0],
        "properties": {h.name: _hyperparameter_schema(h) for h in technique.hyperparameters},
        "additionalProperties": False,
    }


def _hyperparameter_schema(hyperparameter: Hyperparameter) -> dict[str, Any]:
    words = [f"A value, a list of values or a prior. Default: {hyperparameter.default}"]
    if hyperparameter.grid:
        words.append(f"searched on a grid: {', '.join(map(str, hyperparameter.grid))}")
    if hyperparameter.prior:
        words.append(f"searched with tpe: {hyperparameter.prior}")
    return {
        "description": "; ".join(words) + ".",
        "type": ["number", "boolean", "string", "array"],
    }


def _short_lists(text: str) -> str:
    """Put every list that fits on one line; the TOML writer uses one line per item."""
    lines: list[str] = []
    items: list[str] = []
    for line in text.removesuffix("\n").split("\n"):
        is_start = not items and not line.startswith("[") and line.endswith(" = [")
        if not (items or is_start):
            lines.append(line)
            continue
        items.append(line)
        if line == "]":
            joined = _joined(items)
            lines += [joined] if len(joined) <= _WIDEST else items
            items = []
    return "\n".join(lines) + "\n"


def _joined(items: list[str]) -> str:
    joined = items[0]
    for item in items[1:]:
        stripped = item.strip(" ")
        is_closing = stripped.startswith("]")
        joined = joined.removesuffix(",") if is_closing else joined
        joined += stripped if is_closing or joined.endswith("[") else f" {stripped}"
    return joined
