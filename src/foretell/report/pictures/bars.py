"""The share of each column, as bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from foretell.report.pictures.drawing import Palette, new_axes, write_percents
from foretell.wording import percent, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_bars(shares: Mapping[str, float], palette: Palette) -> Figure:
    """Draw one bar per name, the largest on top, each with its figure."""
    figure, axes = new_axes(5.4, 0.5 + 0.28 * len(shares))
    values = list(shares.values())
    position = range(len(shares))
    axes.barh(position, values, color=palette.first, height=0.62)
    for i, value in enumerate(values):
        axes.annotate(
            percent(value), (value, i), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=8.5,
        )  # fmt: skip
    axes.set_yticks(position, [short(name) for name in shares])
    axes.set_ylim(len(shares) - 0.5, -0.5)
    axes.set_xlim(0, 1.15 * max(values))
    write_percents(axes.xaxis)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("share")
    return figure
