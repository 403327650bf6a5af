"""Pictures of a simulated cluster: nodes over time, what the weight H costs, and the front."""

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
    fit_axis,
    new_axes,
    write_percents,
)
from foretell.wording import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
_CLOSE = 0.06  # of the width and height of a picture: labels would overlap


@dataclass(frozen=True, eq=False)
class Load:
    """The share of CPUs in use over time, by node type."""

    at_s: Array
    shares: dict[str, Array]


def draw_load(load: Load, palette: Palette) -> Figure:
    """Draw one line per node type."""
    figure, axes = new_axes(5.2, 2.6)
    styles = ("-", "--", ":", "-.")
    for i, (name, shares) in enumerate(load.shares.items()):
        axes.plot(
            load.at_s, shares, linestyle=styles[i % len(styles)], linewidth=1.6,
            color=palette.series[i % len(palette.series)], label=short(name, 20),
            drawstyle="steps-post",
        )  # fmt: skip
    axes.set_ylim(0, 1.04)
    axes.set_xlim(0, float(load.at_s[-1]))
    write_percents(axes.yaxis)
    axes.set(xlabel="time (s)", ylabel="CPUs in use")
    add_legend(figure, axes, [short(name, 20) for name in load.shares], n_across=4)
    return figure


@dataclass(frozen=True, eq=False)
class Weights:
    """Energy and completion time against H, relative to a policy without predictions."""

    H: Array
    energy: Array
    energy_ends: tuple[Array, Array]
    time: Array
    time_ends: tuple[Array, Array]
    against: str


def draw_weights(weights: Weights, palette: Palette) -> Figure:
    """Draw two lines with their 95 % intervals."""
    figure, axes = new_axes(5.2, 3.2)
    lines = (
        ("total energy", weights.energy, weights.energy_ends, palette.first, "o"),
        ("mean completion time", weights.time, weights.time_ends, palette.second, "s"),
    )
    for name, values, (low, high), color, marker in lines:
        axes.fill_between(weights.H, low, high, color=color, alpha=0.18, linewidth=0)
        axes.plot(weights.H, values, marker=marker, color=color, linewidth=1.6, label=name)
    axes.axhline(0, color=palette.quiet, linewidth=0.9, linestyle=(0, (2, 2)))
    axes.set(xlabel="H (0 speed, 1 energy)", ylabel=f"against {short(weights.against, 24)}")
    write_percents(axes.yaxis)
    add_legend(figure, axes, [line[0] for line in lines], n_across=2)
    return figure


@dataclass(frozen=True)
class Point:
    """One policy: its mean completion time and total energy, and the family it belongs to."""

    label: str
    family: str
    time_s: float
    energy_j: float


def draw_front(points: Sequence[Point], palette: Palette) -> Figure:
    """Draw energy against time, one marker per policy; lower left is better."""
    figure, axes = new_axes(5.2, 3.6)
    families = list(dict.fromkeys(p.family for p in points))
    for i, family in enumerate(families):
        own = sorted((p for p in points if p.family == family), key=lambda p: p.time_s)
        axes.plot(
            [p.time_s for p in own], [p.energy_j / 1e3 for p in own],
            marker=MARKERS[i % len(MARKERS)], color=palette.series[i % len(palette.series)],
            linewidth=1.0 if len(own) > 1 else 0.0, label=short(family, 24),
        )  # fmt: skip
        for label, time_s, energy_j in _apart(own, points):
            # Below the marker where the line to the next point would cross the label.
            rises = any(p.time_s > time_s and p.energy_j > energy_j for p in own)
            axes.annotate(
                short(label, 24), (time_s, energy_j / 1e3), xytext=(5, -12 if rises else 5),
                textcoords="offset points", fontsize=8,
            )  # fmt: skip
    fit_axis(axes.xaxis, np.array([p.time_s for p in points]))
    fit_axis(axes.yaxis, np.array([p.energy_j for p in points]) / 1e3)
    for axis, values in (
        (axes.set_xlim, [p.time_s for p in points]),
        (axes.set_ylim, [p.energy_j / 1e3 for p in points]),
    ):
        room = 0.15 * (max(values) - min(values)) or 0.1 * max(values)
        axis(min(values) - room, max(values) + room)
    axes.set(xlabel="mean completion time (s)", ylabel="total energy (kJ)")
    add_legend(figure, axes, [short(family, 24) for family in families], n_across=3)
    return figure


def _apart(own: Sequence[Point], points: Sequence[Point]) -> list[tuple[str, float, float]]:
    """Return labels and their places; points that lie close together share one."""
    times, energies = ([getattr(p, name) for p in points] for name in ("time_s", "energy_j"))
    found: list[tuple[str, float, float]] = []
    for p in own:
        label = p.label.removeprefix(p.family).strip() or p.family
        near = [
            i for i, (_, t, e) in enumerate(found)
            if abs(t - p.time_s) <= _CLOSE * (max(times) - min(times))
            and abs(e - p.energy_j) <= _CLOSE * (max(energies) - min(energies))
        ]  # fmt: skip
        if near:
            joined, t, e = found[near[0]]
            found[near[0]] = (f"{joined}, {label.removeprefix('H=')}", t, e)
        else:
            found.append((label, p.time_s, p.energy_j))
    return found
