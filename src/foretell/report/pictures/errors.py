"""Pictures of errors: predicted against measured, by question, and by the value of a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foretell.report.pictures.drawing import (
    MARKERS,
    Palette,
    add_legend,
    is_wide,
    new_axes,
    scale_axis,
    write_percents,
)
from foretell.wording import labeled, percent, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Measured and predicted values that answer one question."""

    label: str
    measured: Array
    predicted: Array


def draw_pairs(pairs: Sequence[Pairs], target: str, palette: Palette) -> Figure:
    """Draw predicted against measured; on the line, they are the same."""
    figure, axes = new_axes(5.6, 4.6)
    every = np.concatenate([np.concatenate([p.measured, p.predicted]) for p in pairs])
    low, high = float(every.min()), float(every.max())
    is_log = is_wide(low, high)
    gap = 0.04 * (high - low) or 0.1 * abs(high) or 1.0
    ends = (low / 1.2, high * 1.2) if is_log else (low - gap, high + gap)
    line = np.geomspace(*ends, 30) if is_log else np.linspace(*ends, 30)
    axes.plot(line, line, color=palette.ink, linewidth=1.0, label="predicted = measured")
    if low > 0:
        axes.plot(line, 1.25 * line, color=palette.quiet, linewidth=0.8, linestyle="--",
                  label="25 % off")  # fmt: skip
        axes.plot(line, 0.75 * line, color=palette.quiet, linewidth=0.8, linestyle="--")
    looks = list(zip(pairs, MARKERS, palette.series, strict=False))
    for p, marker, color in reversed(looks):  # those inside the data on top
        axes.plot(
            p.measured, p.predicted, marker, color=color, markerfacecolor="none", markersize=4.2,
            markeredgewidth=0.9, label=p.label,
        )  # fmt: skip
    axes.set(xlim=ends, ylim=ends)
    for axis in (axes.xaxis, axes.yaxis):
        scale_axis(axis, is_log=is_log)
    axes.set(xlabel=f"measured {labeled(target, 32)}", ylabel=f"predicted {labeled(target, 32)}")
    names = ["predicted = measured", "25 % off", *(p.label for p in pairs)]
    add_legend(figure, axes, names, n_across=4)
    return figure


@dataclass(frozen=True, eq=False)
class Rung:
    """The errors on one question: the best model's, and the means of the others."""

    label: str
    mean: float
    middle: tuple[float, float, float] | None  # 10th percentile, median, 90th
    others: tuple[float, ...]


def draw_ladder(rungs: Sequence[Rung], palette: Palette) -> Figure:
    """Draw errors by how far a question leads from the data."""
    figure, axes = new_axes(6.4, 3.3)
    position = np.arange(len(rungs), dtype=float)
    ranged = [(i, r.middle) for i, r in enumerate(rungs) if r.middle is not None]
    if ranged:
        at = [float(i) for i, _ in ranged]
        lows, medians, highs = np.array([m for _, m in ranged]).T
        axes.vlines(at, lows, highs, color=palette.first, linewidth=6, alpha=0.25,
                    label="80 % of the runs")  # fmt: skip
        axes.plot(at, medians, "_", color=palette.first, markersize=16, markeredgewidth=1.6,
                  label="median")  # fmt: skip
    others = [(i + 0.18, e) for i, r in enumerate(rungs) for e in r.others]
    if others:
        axes.plot(*np.array(others).T, ".", color=palette.quiet, markersize=5,
                  label="other models, mean")  # fmt: skip
    means = [r.mean for r in rungs]
    axes.plot(position, means, "D", color=palette.first, markersize=6, label="mean")
    values = [v for r in rungs for v in (r.mean, *(r.middle or ())[1:], *r.others)]
    top = max([*values, 0.01])
    is_log = top > 1.0
    if is_log:
        least = min(v for v in [*values, top] if v > 0)
        axes.set_ylim(max(least, 0.002) / 1.6, top * 1.6)
    else:
        axes.set_ylim(0, 1.12 * top)
    for i, r in enumerate(rungs):
        axes.annotate(
            percent(r.mean), (i, r.mean), xytext=(-7, 0), textcoords="offset points",
            ha="right", va="center", fontsize=8.5,
        )  # fmt: skip
    scale_axis(axes.yaxis, is_log=is_log)
    write_percents(axes.yaxis)
    axes.set_xticks(position, [r.label for r in rungs])
    axes.set_xlim(-0.6, len(rungs) - 0.4)
    axes.set(xlabel="where the run lies", ylabel="relative error")
    axes.grid(visible=False, axis="x")
    names = ["mean", "median", "80 % of the runs", "other models, mean"]
    add_legend(figure, axes, names, n_across=4)
    return figure


@dataclass(frozen=True, eq=False)
class ErrorsOf:
    """Errors of runs by the value of one column: the median and the 90th percentile of each."""

    column: str
    labels: tuple[str, ...]
    median: Array
    p90: Array
    n_runs: NDArray[np.int64]


def draw_errors_of(errors: Sequence[ErrorsOf], palette: Palette) -> Figure:
    """Draw one panel per column, all to the same scale."""
    from matplotlib.figure import Figure

    n_across = min(3, len(errors))
    n_down = -(-len(errors) // n_across)
    figure = Figure(figsize=(2.7 * n_across + 0.4, 2.3 * n_down), layout="constrained")
    grid = figure.subplots(n_down, n_across, squeeze=False, sharey=True)
    top = max(float(e.p90.max()) for e in errors)
    for axes, of in zip(grid.flat, errors, strict=False):
        _draw_panel(axes, of, palette)
        axes.set_ylim(0, 1.1 * top or 1.0)
    for axes in list(grid.flat)[len(errors) :]:
        axes.set_axis_off()
    for row in grid:
        row[0].set_ylabel("relative error")
    add_legend(figure, grid[0][0], ["median", "90th percentile"], n_across=2)
    return figure


def _draw_panel(axes: Axes, of: ErrorsOf, palette: Palette) -> None:
    at = np.arange(len(of.labels))
    axes.vlines(at, of.median, of.p90, color=palette.first, linewidth=1.2)
    axes.plot(at, of.p90, "_", color=palette.first, markersize=9, label="90th percentile")
    axes.plot(at, of.median, "o", color=palette.first, markersize=4, label="median")
    is_long = max(len(label) for label in of.labels) * len(of.labels) > 30
    labels = [short(label, 12) for label in of.labels]
    axes.set_xticks(at, labels, rotation=60 if is_long else 0, ha="right" if is_long else "center",
                    rotation_mode="anchor" if is_long else "default", fontsize=8)  # fmt: skip
    axes.set_xlim(-0.5, len(of.labels) - 0.5)
    write_percents(axes.yaxis)
    axes.set_xlabel(labeled(of.column, 24))
    axes.grid(visible=True, axis="y")
