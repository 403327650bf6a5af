"""Pictures of impact: a heat map of settings and workloads, and what tuning reaches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foretell.report.pictures.drawing import Palette, add_legend, new_axes
from foretell.wording import rough_percent, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
#: How dark the cell of a level is; a level within noise has none.
_DEPTHS = {"high": 0.6, "medium": 0.35, "low": 0.14}


def draw_heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    ranges: Array,
    levels: Sequence[Sequence[str]],
    palette: Palette,
    is_modelled: NDArray[np.bool_] | None = None,
) -> Figure:
    """Draw one cell per setting and workload: darker where the impact is larger, with its range.

    A range that is NaN is not known, and its cell stays empty. One that is modelled is marked.
    """
    from matplotlib.patches import Rectangle

    n_rows, n_columns = ranges.shape
    figure, axes = new_axes(1.9 + 0.95 * n_columns, 0.75 + 0.32 * n_rows)
    for i in range(n_rows):
        for j in range(n_columns):
            depth = _DEPTHS.get(levels[i][j], 0.0)
            axes.add_patch(
                Rectangle((j - 0.48, i - 0.46), 0.96, 0.92, facecolor=palette.first, alpha=depth,
                          linewidth=0)
            )  # fmt: skip
            axes.add_patch(
                Rectangle((j - 0.48, i - 0.46), 0.96, 0.92, facecolor="none",
                          edgecolor=palette.line, linewidth=0.8)
            )  # fmt: skip
            is_known = np.isfinite(ranges[i, j])
            text = rough_percent(float(ranges[i, j])) if is_known else "–"
            text += " ~" if is_modelled is not None and is_modelled[i, j] else ""
            is_noise = depth == 0.0
            axes.text(
                j, i, text, ha="center", va="center", fontsize=8.5,
                color=palette.quiet if is_noise else palette.ink,
                fontweight="bold" if levels[i][j] == "high" else "normal",
            )  # fmt: skip
    axes.set_xticks(range(n_columns), [short(name, 14) for name in columns], fontsize=8.5)
    axes.set_yticks(range(n_rows), [short(name, 24) for name in rows])
    axes.set_xlim(-0.5, n_columns - 0.5)
    axes.set_ylim(n_rows - 0.5, -0.5)
    axes.tick_params(length=0)
    axes.xaxis.tick_top()
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure


def draw_tunings(
    workloads: Sequence[str],
    kinds: Sequence[str],
    values: Array,
    ends: Array,
    palette: Palette,
) -> Figure:
    """Draw what each way of tuning reaches in each workload, relative to its baseline.

    ``values`` has a row per workload and a column per way, ``ends`` the two ends of each interval.
    """
    figure, axes = new_axes(5.4, 0.9 + 0.55 * len(workloads))
    n = len(kinds)
    for j, kind in enumerate(kinds):
        at = np.arange(len(workloads)) + (j - (n - 1) / 2) * 0.8 / n
        axes.barh(at, values[:, j], height=0.72 / n, color=palette.series[j], label=kind)
        for i, place in enumerate(at):
            if np.isfinite(ends[i, j]).all():
                axes.plot(ends[i, j], [place, place], color=palette.ink, linewidth=1.0)
    axes.axvline(1.0, color=palette.quiet, linewidth=0.9, linestyle=(0, (2, 2)))
    axes.set_yticks(range(len(workloads)), [short(name, 24) for name in workloads])
    axes.set_ylim(len(workloads) - 0.5, -0.5)
    axes.set_xlim(0, None)
    axes.set_xlabel("relative to the baseline")
    axes.grid(visible=False, axis="y")
    add_legend(figure, axes, kinds, n_across=3)
    return figure
