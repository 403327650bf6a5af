"""Pictures of co-runs: jobs over time, slowdowns of pairs, predicted against measured times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foretell.corun.predict import JobEnd, Together
from foretell.report.pictures.drawing import Palette, new_axes
from foretell.wording import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

_ROW = 0.72  # inches per job
_DRAWN_STRETCHES = 400


def draw_timeline(found: Together, palette: Palette) -> Figure:
    """Draw each job as a bar as thick as it is fast, with its end alone and its interval."""
    n = len(found.jobs)
    figure, axes = new_axes(6.4, 1.1 + _ROW * n)
    last = max(found.last_end_s, *(j.upper_s for j in found.jobs if math.isfinite(j.upper_s)))
    for k, job in enumerate(found.jobs):
        color = palette.series[k % len(palette.series)]
        y = n - 1 - k
        _draw_speed(axes, found, k, y, color)
        _draw_ends(axes, job, y, palette)
    axes.set_yticks(range(n), [short(job.name, 20) for job in reversed(found.jobs)])
    axes.set(xlim=(0, 1.04 * last), ylim=(-0.6, n - 0.25), xlabel="time (s)")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.annotate(
        "thickness: speed; pale: waits for others; tall line: end alone; bracket: 90 % interval",
        (0.0, 1.0), xycoords="axes fraction", xytext=(0, 4), textcoords="offset points",
        fontsize=8, color=palette.quiet,
    )  # fmt: skip
    return figure


def _draw_speed(axes: Axes, found: Together, k: int, y: float, color: str) -> None:
    for stretch in found.co_run.stretches[:_DRAWN_STRETCHES]:
        speed = stretch.speeds[k]
        if speed <= 0:
            continue
        is_slowed = bool(stretch.limits[k])
        axes.barh(
            y, stretch.end_s - stretch.start_s, left=stretch.start_s, height=0.56 * speed,
            color=color, alpha=0.45 if is_slowed else 0.9, linewidth=0,
        )  # fmt: skip


def _draw_ends(axes: Axes, job: JobEnd, y: float, palette: Palette) -> None:
    if math.isinf(job.end_s):
        return
    axes.plot([job.alone_s] * 2, [y - 0.36, y + 0.36], color=palette.ink, linewidth=1.2)
    if job.upper_s > job.lower_s:
        axes.errorbar(
            job.end_s, y - 0.44,
            xerr=[[job.end_s - job.lower_s], [job.upper_s - job.end_s]],
            fmt="none", ecolor=palette.quiet, elinewidth=1.0, capsize=3,
        )  # fmt: skip
