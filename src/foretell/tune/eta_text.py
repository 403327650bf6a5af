"""Predictions of searches for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from foretell.spaces.quantities import duration
from foretell.wording import counted, rough_percent

if TYPE_CHECKING:
    from foretell.tune.draws import Range90
    from foretell.tune.eta import Change, SearchForecast


def forecast_text(found: SearchForecast) -> str:
    """Write the answer first, then what would save, then remarks."""
    search = found.search
    each = counted(found.threads, "thread")
    epochs = f"{found.n_epochs:,.0f}"
    of = "" if search.scheduler == "random" else f" of at most {found.most_epochs:,}"
    lines = [
        f"About {duration(found.time.median_s)} ({span(found.time)}, 90 %), simulated.",
        f"{search.scheduler}: {counted(search.n_trials, 'trial')}, {search.n_slots} at a time with "
        f"{each} each; {epochs} epochs{of}.",
    ]
    if found.changes:
        header = ("what if", "time", "90 %", "saves")
        rows = [header, *[_row(change) for change in found.changes]]
        lines += ["", *_aligned(rows)]
    return "\n".join([*lines, *([""] if found.notes else []), *found.notes])


def span(time: Range90) -> str:
    """Write the ends of an interval."""
    return f"{duration(time.lower_s)} – {duration(time.upper_s)}"


def _row(change: Change) -> tuple[str, ...]:
    saves = rough_percent(abs(change.saves)) if abs(change.saves) >= 0.005 else "0"
    if change.saves <= -0.005:
        saves = f"{saves} longer"
    return (change.text, duration(change.time.median_s), span(change.time), saves)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
