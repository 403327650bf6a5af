"""Pictures of a queue: response times against load and dropping, by probability, and the front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foretell.queue.curves import DropCurve, Line
from foretell.report.pictures.drawing import (
    MARKERS,
    Palette,
    add_legend,
    fit_axis,
    new_axes,
    write_percents,
)
from foretell.wording import number, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
_STYLES = {True: "-", False: (0, (4, 2))}


def draw_loads(lines: Sequence[Line], today: str, now: float, palette: Palette) -> Figure:
    """Draw the p95 of each class against the load: with the plan, and as it is or would be."""
    figure, axes = new_axes(5.2, 3.6)
    names = _draw_lines(axes, lines, today, palette)
    axes.axvline(now, color=palette.quiet, linewidth=0.9, linestyle=(0, (2, 2)))
    axes.annotate(
        "load of the file", (now, 1.0), xycoords=("data", "axes fraction"), xytext=(-4, -2),
        textcoords="offset points", fontsize=8, ha="right", va="top", color=palette.quiet,
    )  # fmt: skip
    values = np.concatenate([line.values for line in lines])
    fit_axis(axes.yaxis, values[np.isfinite(values)])
    axes.set(xlabel="load before dropping and sprinting", ylabel="p95 of response time (s)")
    write_percents(axes.xaxis)
    add_legend(figure, axes, names, n_across=2)
    return figure


def draw_drops(curve: DropCurve, palette: Palette) -> Figure:
    """Draw the p95 of all classes against how much of one is dropped."""
    figure, axes = new_axes(5.2, 3.4)
    names = _draw_lines(axes, curve.lines, "", palette)
    right = float(curve.lines[0].at[-1])
    if right > curve.most:
        axes.axvspan(curve.most, right, color=palette.beyond, linewidth=0, zorder=0,
                     label="more than its error limit")  # fmt: skip
    axes.axvline(
        curve.chosen, color=palette.ink, linewidth=1.0, linestyle=(0, (2, 2)), label="shown plan"
    )
    values = np.concatenate([line.values for line in curve.lines])
    fit_axis(axes.yaxis, values[np.isfinite(values)])
    axes.set_xlim(0, right)
    axes.set(xlabel=f"dropped of {short(curve.name, 24)}", ylabel="p95 of response time (s)")
    write_percents(axes.xaxis)
    add_legend(figure, axes, [*names, "shown plan", "more than its error limit"], n_across=2)
    return figure


def draw_shares(lines: Sequence[Line], today: str, palette: Palette) -> Figure:
    """Draw which share of the jobs of each class is done by which time."""
    figure, axes = new_axes(5.2, 3.6)
    names = _draw_lines(axes, lines, today, palette, has_markers=False)
    axes.axhline(0.95, color=palette.quiet, linewidth=0.9, linestyle=(0, (2, 2)))
    fit_axis(axes.xaxis, np.concatenate([line.at[1:] for line in lines]))
    axes.set_ylim(0, 1.01)
    axes.set(xlabel="response time (s)", ylabel="jobs done")
    write_percents(axes.yaxis)
    add_legend(figure, axes, names, n_across=2)
    return figure


def draw_queue_front(
    kept: Array, front: Array, chosen: Array, axis: tuple[str, str], palette: Palette
) -> Figure:
    """Draw plans that keep their limits: a dot each, the front as circles, and the chosen one.

    Rows are pairs of latency and something else; ``axis`` has the label of that, and its unit.
    """
    figure, axes = new_axes(5.2, 3.4)
    axes.plot(kept[:, 0], kept[:, 1], ".", color=palette.quiet, markersize=4, alpha=0.6,
              label="keeps all limits")  # fmt: skip
    axes.plot(front[:, 0], front[:, 1], "o", color=palette.first, markerfacecolor="none",
              markersize=7, label="beaten by none")  # fmt: skip
    if len(chosen):
        axes.plot(
            chosen[:, 0], chosen[:, 1], "X", color=palette.second, markersize=8, label="chosen"
        )
    fit_axis(axes.xaxis, kept[:, 0])
    fit_axis(axes.yaxis, kept[:, 1])
    label, unit = axis
    axes.set(
        xlabel="weighted p95 of all classes (s)", ylabel=f"{label} ({unit})" if unit else label
    )
    axes.yaxis.set_major_formatter(lambda value, _: number(value, 4))
    if not unit:
        write_percents(axes.yaxis)
    add_legend(figure, axes, ["keeps all limits", "beaten by none", "chosen"], n_across=3)
    return figure


def _draw_lines(
    axes: Axes, lines: Sequence[Line], today: str, palette: Palette, *, has_markers: bool = True
) -> list[str]:
    """Draw lines: a color and a marker for each class, dashed without the plan; return names."""
    classes = list(dict.fromkeys(line.name for line in lines))
    names = []
    for line in lines:
        k = classes.index(line.name)
        name = short(line.name, 20)
        label = name if line.is_planned and not today else f"{name}, plan"
        if not line.is_planned:
            label = f"{name}, {today}"
        shown = np.where(np.isfinite(line.values), line.values, np.nan)
        axes.plot(
            line.at, shown, linestyle=_STYLES[line.is_planned], linewidth=1.6, markersize=4,
            marker=MARKERS[k % len(MARKERS)] if has_markers else None,
            color=palette.series[k % len(palette.series)],
            markerfacecolor=None if line.is_planned else "none", label=label,
        )  # fmt: skip
        names.append(label)
    return names
