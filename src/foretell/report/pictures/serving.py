"""Pictures of a deployment: batch times by size, and latency against the rate of requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from foretell.decide.deployment.batch_times import Times
from foretell.deploy.curves import LatencyCurve
from foretell.report.pictures.drawing import MARKERS, Palette, add_legend, fit_axis, new_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_batch_times(times: Times, palette: Palette) -> Figure:
    """Draw measured batch times as marks, and modelled ones as lines."""
    figure, axes = new_axes(5.2, 3.4)
    names = []
    for k, (threads, own) in enumerate(times.items()):
        color = palette.series[k % len(palette.series)]
        name = f"{threads} thread{'' if threads == 1 else 's'}"
        sizes = np.arange(own.batches[0], own.batches[-1] + 1)
        axes.plot(sizes, 1e3 * own.median_s(sizes), color=color, linewidth=1.4, label=name)
        axes.plot(
            own.batches, 1e3 * own.median_s(own.batches), linestyle="", color=color,
            marker=MARKERS[k % len(MARKERS)], markersize=5,
        )  # fmt: skip
        names.append(name)
    values = [1e3 * p.median_s for own in times.values() for p in own.points]
    fit_axis(axes.yaxis, np.array(values))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set(xlabel="batch size", ylabel="time of a batch (ms)")
    add_legend(figure, axes, names, n_across=3)
    return figure


def draw_latencies(
    curves: Sequence[LatencyCurve], limit_s: float | None, now: float, palette: Palette
) -> Figure:
    """Draw mean and p99 against the rate, and the limit."""
    figure, axes = new_axes(5.2, 3.6)
    names = []
    for k, curve in enumerate(curves):
        color = palette.series[k % len(palette.series)]
        marker = MARKERS[k % len(MARKERS)]
        for values, word, style in (
            (curve.p99_s, "p99", "-"),
            (curve.mean_s, "mean", (0, (4, 2))),
        ):
            name = f"{word}, batch up to {curve.batch}"
            axes.plot(
                curve.per_s, 1e3 * values, color=color, linestyle=style, linewidth=1.4,
                marker=marker, markersize=4, label=name,
            )  # fmt: skip
            names.append(name)
    if limit_s is not None:
        axes.axhline(1e3 * limit_s, color=palette.quiet, linewidth=0.9, linestyle=(0, (2, 2)))
        axes.annotate(
            "limit of the p99", (0.0, 1e3 * limit_s), xycoords=("axes fraction", "data"),
            xytext=(4, 3), textcoords="offset points", fontsize=8, color=palette.quiet,
        )  # fmt: skip
    axes.axvline(now, color=palette.quiet, linewidth=0.9, linestyle=(0, (2, 2)))
    fit_axis(axes.yaxis, np.concatenate([1e3 * c.p99_s for c in curves]))
    axes.set(xlabel="requests per second", ylabel="latency (ms)")
    add_legend(figure, axes, names, n_across=2)
    return figure
