"""Scaling curves: the target against one column, with intervals, runs, and where the data end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foretell.predictor import TRUST_FAR, TRUST_INSIDE, Forecast
from foretell.report.pictures.drawing import (
    Palette,
    add_legend,
    fit_axis,
    is_wide,
    new_axes,
    scale_axis,
)
from foretell.wording import labeled, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
_MOST_RUNS = 200
_FEWEST_BETWEEN = 3  # points between measured values that make a band of their own
_FEW_VALUES = 8
#: How a line is called and drawn inside the data, as far as errors were rehearsed, and further.
_STYLES = (("predicted", "-"), ("near the data", "--"), ("far from the data", ":"))
_LEGEND = (*(name for name, _ in _STYLES), "90 % interval", "measured", "beyond the data")


@dataclass(frozen=True, eq=False)
class Curve:
    """Predictions along one numeric column.

    Attributes
    ----------
    low, high
        Where the data begin and end.
    levels
        The values measured, where they are few.
    runs_at, runs
        Measured runs at the same settings.
    """

    column: str
    target: str
    at: Array
    forecast: Forecast
    low: float
    high: float
    levels: tuple[float, ...]
    runs_at: Array
    runs: Array

    @property
    def is_banded(self) -> bool:
        """Whether the model has intervals."""
        return bool(np.isfinite(self.forecast.lower).all())


def draw_curve(curve: Curve, palette: Palette) -> Figure:
    """Draw a curve: solid inside the data, dashed beyond, dotted where nothing was rehearsed."""
    figure, axes = new_axes(5.2, 3.4)
    axes.set_xlim(float(curve.at.min()), float(curve.at.max()))
    _shade(axes, curve, palette)
    if curve.is_banded:
        _draw_band(axes, curve, palette)
    _draw_line(axes, curve, palette)
    shown = thinned(len(curve.runs))
    if len(shown):
        axes.plot(
            curve.runs_at[shown], curve.runs[shown], "o", markersize=4, color=palette.ink,
            markerfacecolor="none", label="measured",
        )  # fmt: skip
    _scale(axes, curve)
    axes.set(xlabel=labeled(curve.column, 32), ylabel=labeled(curve.target, 32))
    add_legend(figure, axes, _LEGEND, n_across=3)
    return figure


def thinned(n: int) -> NDArray[np.int64]:
    """Choose which of many runs are drawn, evenly."""
    return np.linspace(0, n - 1, min(n, _MOST_RUNS)).astype(np.int64)


def _shade(axes: Axes, curve: Curve, palette: Palette) -> None:
    """Shade where no run was made."""
    left, right = axes.get_xlim()
    label: str | None = "beyond the data"
    for start, end, edge in ((left, curve.low, curve.low), (curve.high, right, curve.high)):
        if end > start:
            axes.axvspan(start, end, color=palette.beyond, linewidth=0, zorder=0, label=label)
            axes.axvline(edge, color=palette.quiet, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
            label = None


def _draw_band(axes: Axes, curve: Curve, palette: Palette) -> None:
    """Draw intervals: a band between measured values, and at these bars, which may be shorter."""
    f = curve.forecast
    low, high = np.log(f.lower / f.value), np.log(f.upper / f.value)
    is_level = np.isin(curve.at, curve.levels)
    if (~is_level & (curve.at > curve.low) & (curve.at < curve.high)).sum() >= _FEWEST_BETWEEN:
        low, high = (np.interp(curve.at, curve.at[~is_level], v[~is_level]) for v in (low, high))
        ends = np.vstack([f.value - f.lower, f.upper - f.value])[:, is_level]
        axes.errorbar(
            curve.at[is_level], f.value[is_level], yerr=ends, fmt="none", ecolor=palette.first,
            elinewidth=1.0, capsize=2.5,
        )  # fmt: skip
    axes.fill_between(
        curve.at, f.value * np.exp(low), f.value * np.exp(high), color=palette.first, alpha=0.2,
        linewidth=0, label="90 % interval",
    )  # fmt: skip


def _draw_line(axes: Axes, curve: Curve, palette: Palette) -> None:
    trust = curve.forecast.trust
    kind = np.where(trust == TRUST_INSIDE, 0, np.where(trust == TRUST_FAR, 2, 1))
    starts = [0, *(np.flatnonzero(np.diff(kind)) + 1), len(kind)]
    labeled: set[str] = set()
    for start, end in pairwise(starts):
        label, style = _STYLES[kind[start]]
        # A less certain part starts at the last point of its neighbor, to leave no gap.
        first = start - (start > 0 and kind[start - 1] < kind[start])
        last = end + (end < len(kind) and kind[min(end, len(kind) - 1)] < kind[start])
        axes.plot(
            curve.at[first:last], curve.forecast.value[first:last], linestyle=style,
            color=palette.first, linewidth=1.8, label=None if label in labeled else label,
        )  # fmt: skip
        labeled.add(label)


def _scale(axes: Axes, curve: Curve) -> None:
    f = curve.forecast
    parts = [f.value, curve.runs, *([f.lower, f.upper] if curve.is_banded else [])]
    fit_axis(axes.yaxis, np.concatenate(parts))
    is_log = is_wide(float(curve.at.min()), float(curve.at.max()))
    beyond = {v for v in axes.get_xlim() if not curve.low <= v <= curve.high}
    known = sorted({*curve.levels, *beyond}) if curve.levels else []
    ticks = curve.at if len(curve.at) <= _FEW_VALUES else known
    scale_axis(axes.xaxis, is_log=is_log, ticks=[float(v) for v in ticks])


@dataclass(frozen=True, eq=False)
class Levels:
    """Predictions for each level of a column that is not a number."""

    target: str
    names: tuple[str, ...]
    forecast: Forecast
    runs_of: NDArray[np.int64]  # the position of each run's level
    runs: Array


def draw_levels(levels: Levels, palette: Palette) -> Figure:
    """Draw one dot per level, with its interval, and the runs measured at the same settings."""
    n = len(levels.names)
    figure, axes = new_axes(5.2, 1.3 + 0.26 * n)
    f = levels.forecast
    position = np.arange(n)
    if np.isfinite(f.lower).all():
        axes.errorbar(
            f.value, position, xerr=np.vstack([f.value - f.lower, f.upper - f.value]),
            fmt="none", ecolor=palette.first, elinewidth=1.4,
            capsize=4, label="90 % interval",
        )  # fmt: skip
    axes.plot(f.value, position, "D", color=palette.first, markersize=6, label="predicted")
    shown = thinned(len(levels.runs))
    if len(shown):
        axes.plot(
            levels.runs[shown], levels.runs_of[shown] + 0.22, "o", markersize=4, color=palette.ink,
            markerfacecolor="none", label="measured",
        )  # fmt: skip
    ends = [e[np.isfinite(e)] for e in (f.lower, f.upper)]
    fit_axis(axes.xaxis, np.concatenate([f.value, levels.runs, *ends]))
    axes.set_yticks(position, [short(name, 24) for name in levels.names])
    axes.set_ylim(n - 0.5, -0.6)
    axes.set_xlabel(labeled(levels.target, 32))
    add_legend(figure, axes, _LEGEND, n_across=3)
    return figure
