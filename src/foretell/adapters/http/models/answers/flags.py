"""Refuse true and false where a column holds numbers, before Python takes them for 1 and 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from foretell.adapters.http.server.problems import WRONG_INPUT, ProblemError

if TYPE_CHECKING:
    from foretell.model.saved.model import SavedModel


def refuse_flags_in_rows(
    model: SavedModel, rows: Sequence[Mapping[str, Any]], place: str = "rows[{}]"
) -> None:
    """Check rows; ``place`` is what a row is called in messages, with ``{}`` for its position."""
    numeric = set(model.feature_map.numbers)
    numeric |= {old for old, new in model.rename.items() if new in numeric}
    for i, row in enumerate(rows):
        for name in numeric:
            if isinstance(row.get(name), bool):
                text = "true" if row[name] else "false"
                at = (place.format(i), name)
                raise ProblemError(WRONG_INPUT, f"must be a number, not {text}", at=at)
