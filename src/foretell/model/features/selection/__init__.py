"""Feature selection, always inside the rows that train."""

from __future__ import annotations

from foretell.model.features.selection.forward import select_forward
from foretell.model.features.selection.importance import select_by_importance

__all__ = ["select_by_importance", "select_forward"]
