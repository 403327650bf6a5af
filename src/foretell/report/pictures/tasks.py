"""Pictures of task graphs: the timeline of workers, and makespan against their number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from foretell.report.pictures.drawing import (
    MARKERS,
    Palette,
    add_legend,
    fit_axis,
    new_axes,
    scale_axis,
)
from foretell.tasks.trace import Bar
from foretell.wording import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_LABELS = 6
_UNITS = ((1.0, "s"), (1e3, "ms"), (1e6, "µs"))


def unit_for(seconds: float) -> tuple[float, str]:
    """Return the unit in which a time has few digits, and how many of it a second has.

    >>> unit_for(0.02)
    (1000.0, 'ms')
    """
    return next(((f, name) for f, name in _UNITS if seconds * f >= 1), _UNITS[-1])


def draw_timeline(bars: Sequence[Bar], palette: Palette) -> Figure:
    """Draw a row for each worker, and a bar for each task in the color of its label."""
    from matplotlib.collections import PolyCollection

    workers = sorted({bar.worker for bar in bars})
    figure, axes = new_axes(7.2, 0.9 + 0.34 * min(len(workers), 24) + 0.3)
    end = max(bar.end_s for bar in bars)
    factor, unit = unit_for(end)
    labels = list(dict.fromkeys(bar.name for bar in bars))
    shown = labels[: _MOST_LABELS - 1] if len(labels) > _MOST_LABELS else labels
    rows = {worker: k for k, worker in enumerate(workers)}
    names = [*shown, "others"] if len(shown) < len(labels) else shown
    for k, name in enumerate(names):
        own = [b for b in bars if (b.name == name if name in shown else b.name not in shown)]
        boxes = [
            [(b.start_s * factor, y - 0.4), (b.end_s * factor, y - 0.4),
             (b.end_s * factor, y + 0.4), (b.start_s * factor, y + 0.4)]
            for b in own
            for y in [rows[b.worker]]
        ]  # fmt: skip
        axes.add_collection(
            PolyCollection(
                boxes, facecolors=palette.series[k], edgecolors=palette.beyond, linewidths=0.3,
                label=short(name, 20),
            )
        )  # fmt: skip
    axes.set_xlim(0, end * factor)
    axes.set_ylim(len(workers) - 0.4, -0.6)
    axes.set_yticks(range(len(workers)), [str(worker + 1) for worker in workers])
    axes.grid(visible=False, axis="y")
    axes.set(xlabel=f"time ({unit})", ylabel="worker")
    add_legend(figure, axes, [short(name, 20) for name in names], n_across=_MOST_LABELS)
    return figure


def draw_makespans(
    curves: Mapping[str, Mapping[int, float]], best: tuple[int, float], palette: Palette
) -> Figure:
    """Draw makespan against the number of workers, a line for each setting."""
    figure, axes = new_axes(5.4, 3.4)
    every = np.array([time_s for curve in curves.values() for time_s in curve.values()])
    factor, unit = unit_for(float(every.max()))
    names = []
    for k, (name, curve) in enumerate(list(curves.items())[: len(palette.series)]):
        label = short(name or "makespan", 24)
        axes.plot(
            list(curve), [factor * time_s for time_s in curve.values()], linewidth=1.4,
            color=palette.series[k], marker=MARKERS[k % len(MARKERS)], markersize=4, label=label,
        )  # fmt: skip
        names.append(label)
    axes.plot(
        [best[0]], [factor * best[1]], linestyle="", marker="o", markersize=11, fillstyle="none",
        color=palette.ink,
    )  # fmt: skip
    fit_axis(axes.yaxis, factor * every)
    counts = sorted({count for curve in curves.values() for count in curve})
    axes.set_xlim(counts[0] - 0.3, counts[-1] + 0.3)
    scale_axis(axes.xaxis, is_log=False, ticks=counts)
    axes.set(xlabel="workers", ylabel=f"makespan ({unit})")
    add_legend(figure, axes, names, n_across=3)
    return figure
