"""Typed descriptions of work: from a TOML file, or from a dict of its shape."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import pydantic

from foretell.errors import UsageError
from foretell.files.complaints import TOML, Words, dotted, explain
from foretell.files.text_file import FileKind, read_toml_file

Typed = TypeVar("Typed", bound=pydantic.BaseModel)


def validated(
    shape: type[Typed], values: Mapping[str, Any], *at: str, words: Words = TOML
) -> Typed:
    """Check values; a UsageError names the place of what is wrong, below the steps ``at``."""
    try:
        return shape.model_validate(values)
    except pydantic.ValidationError as error:
        complaint = explain(error, values, shape, words)
        place = (*at, *complaint.place)
        where = f"{dotted(place)}: " if place else ""
        raise UsageError(f"{where}{complaint.text}") from None


def read_typed(
    source: Path | str | Mapping[str, Any] | Typed, shape: type[Typed], kind: FileKind
) -> Typed:
    """Read and check a description; a UsageError names the place of what is wrong."""
    if isinstance(source, shape):
        return source
    if isinstance(source, Mapping):
        values, place = dict(source), kind.name
    else:
        assert isinstance(source, str | Path)
        values, place = read_toml_file(Path(source), kind), str(source)
    try:
        return shape.model_validate(values)
    except pydantic.ValidationError as error:
        complaint = explain(error, values, shape)
        steps = [place, dotted(complaint.place)] if complaint.place else [place]
        raise UsageError(f"{', '.join(steps)}: {complaint.text}") from None
