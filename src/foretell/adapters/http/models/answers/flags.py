"""Refuse true and false where a column holds numbers, before Python takes them for 1 and 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from foretell.adapters.http.server.problems import WRONG_INPUT, ProblemError
from foretell.model.features import NUMBER

if TYPE_CHECKING:
    from foretell.decide.question.objective import PlanRequest
    from foretell.model.saved.model import SavedModel


def refuse_flags_in_rows(
    model: SavedModel, rows: Sequence[Mapping[str, Any]], place: str = "rows[{}]"
) -> None:
    """Check rows; ``place`` is what a row is called in messages, with ``{}`` for its position."""
    numeric = _numeric(model)
    for i, row in enumerate(rows):
        for name in numeric:
            _refuse_flag(row.get(name), (place.format(i), name))


def refuse_flags_in_plan(model: SavedModel, request: PlanRequest) -> None:
    """Check the values that a plan is given, and those it may choose from."""
    refuse_flags_in_rows(model, [request.fix], "fix")
    for name in _numeric(model) & request.vary.keys():
        values = request.vary[name]
        for i, value in enumerate(values if isinstance(values, list) else []):
            _refuse_flag(value, ("vary", f"{name}[{i}]"))


def _numeric(model: SavedModel) -> set[str]:
    """Return the names of numeric columns, also those that the model renames."""
    names = {column.name for column in model.feature_map.columns if column.kind == NUMBER}
    return names | {old for old, new in model.rename.items() if new in names}


def _refuse_flag(value: Any, at: tuple[str, ...]) -> None:
    if isinstance(value, bool):
        text = "true" if value else "false"
        raise ProblemError(WRONG_INPUT, f"must be a number, not {text}", at=at)
