"""Sprints as a class file describes them, with the budget that an earlier dispatcher left."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from foretell.adapters.dispatcher.jobs import now
from foretell.adapters.dispatcher.sprints import SPRINTS
from foretell.adapters.dispatcher.sprints.bucket import Bucket, level_after
from foretell.adapters.dispatcher.sprints.sprinter import Sprinter, restore_base
from foretell.decide.queueing.queue_file import SprintTable


def open_sprinter(
    table: SprintTable,
    folder: Path,
    last: Mapping[str, Any] | None,
    *,
    tell: Callable[[str], None],
) -> Sprinter:
    """Restore what a killed dispatcher changed, and get ready; ``last`` is the latest budget."""
    restore_base(folder, tell)
    mechanism = SPRINTS.get(table.mechanism)(table.settings)
    return Sprinter(mechanism, _bucket(table, last), folder, tell)


def _bucket(table: SprintTable, last: Mapping[str, Any] | None) -> Bucket:
    if table.budget_j is None:
        return Bucket(math.inf, 0.0, 0.0)
    assert table.refill_w is not None and table.sprint_w is not None and table.base_w is not None
    drain_w = table.sprint_w - table.base_w
    level_j = None if last is None else level_after(last, now(), table.refill_w, drain_w)
    return Bucket(table.budget_j, table.refill_w, drain_w, level_j)
