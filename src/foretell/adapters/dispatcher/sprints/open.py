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
from foretell.decide.queueing.queue_file import NO_SPRINT, Queue, SprintTable
from foretell.errors import listing


def open_sprinter(
    queue: Queue,
    folder: Path,
    last: Mapping[str, Any] | None,
    *,
    tell: Callable[[str], None],
) -> Sprinter:
    """Restore what a killed dispatcher changed, and get ready; ``last`` is the latest budget."""
    restore_base(folder, tell)
    table = queue.sprint
    mechanism = SPRINTS.get(table.mechanism)(table.settings)
    if text := _unsprinted(queue):
        tell(text)
    return Sprinter(mechanism, open_bucket(table, last), folder, tell)


def _unsprinted(queue: Queue) -> str:
    """Say that sprints which the file asks for do not happen; empty if it asks for none."""
    reasons = [
        f"{c.name} has sprint_after_s" for c in queue.classes if c.sprint_after_s is not None
    ]
    if queue.run.replan and queue.sprint.speedup > 1:
        reasons.append("plans of replan may have sprints")
    if queue.sprint.settings:
        reasons.append("settings are given")
    if queue.sprint.mechanism != NO_SPRINT or not reasons:
        return ""
    others = listing(f'"{name}"' for name in SPRINTS.names() if name != NO_SPRINT)
    return (
        f'no sprints: mechanism under [sprint] is "{NO_SPRINT}", and {listing(reasons)}; write one '
        f"of {others}"
    )


def open_bucket(table: SprintTable, last: Mapping[str, Any] | None) -> Bucket:
    """Return the budget of a queue: full, or what the last record of it makes of it by now."""
    if table.budget_j is None:
        return Bucket(math.inf, 0.0, 0.0)
    assert table.refill_w is not None and table.sprint_w is not None and table.base_w is not None
    drain_w = table.sprint_w - table.base_w
    level_j = None if last is None else level_after(last, now(), table.refill_w, drain_w)
    return Bucket(table.budget_j, table.refill_w, drain_w, level_j)
