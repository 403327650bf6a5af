"""Checks of rows that come as JSON, where a value may have the wrong type for its column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from foretell.adapters.http.server.problems import WRONG_INPUT, ProblemError
from foretell.model.features import NUMBER

if TYPE_CHECKING:
    from foretell.model.saved.model import SavedModel


def check_numbers(
    model: SavedModel, rows: Sequence[Mapping[str, Any]], place: str = "rows[{}]"
) -> None:
    """Refuse true and false in numeric columns: a table of several rows would read them as 1 and 0.

    Parameters
    ----------
    place
        How a row is called in messages, with ``{}`` for its position.
    """
    numeric = {column.name for column in model.feature_map.columns if column.kind == NUMBER}
    numeric |= {old for old, new in model.rename.items() if new in numeric}
    for i, row in enumerate(rows):
        for name in numeric:
            if isinstance(row.get(name), bool):
                value = "true" if row[name] else "false"
                raise ProblemError(
                    WRONG_INPUT, f"must be a number, not {value}", at=(place.format(i), name)
                )
