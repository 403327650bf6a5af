"""Pictures of a simulated cluster: nodes over time, what the weight H costs, and the front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    """One policy: its mean completion time and total energy.

    Attributes
    ----------
    family, tag
        What it has in common with others, and what tells it apart from them, such as its H.
    """

    label: str
    family: str
    tag: str
    time_s: float
    energy_j: float


def draw_front(points: Sequence[Point], palette: Palette) -> Figure:
    """Draw energy against time, one marker per policy; lower left is better."""
    figure, axes = new_axes(5.2, 3.6)
    families = list(dict.fromkeys(p.family for p in points))
    placed: list[Point] = []
    for i, family in enumerate(families):
        own = sorted((p for p in points if p.family == family), key=lambda p: p.time_s)
        color = palette.series[i % len(palette.series)]
        axes.plot(
            [p.time_s for p in own], [p.energy_j / 1e3 for p in own],
            marker=MARKERS[i % len(MARKERS)], color=color, linewidth=0.0, label=short(family, 36),
        )  # fmt: skip
        for p in _apart(own, points):
            # Above labels that are there already; to the left in the right half, to stay inside.
            n_below = sum(_is_near(p, q, points) for q in placed)
            placed.append(p)
            is_right = (
                p.time_s > (min(q.time_s for q in points) + max(q.time_s for q in points)) / 2
            )
            axes.annotate(
                short(p.tag, 40), (p.time_s, p.energy_j / 1e3), textcoords="offset points",
                xytext=(-5 if is_right else 5, 5 + 10 * n_below), fontsize=8, color=color,
                ha="right" if is_right else "left",
            )  # fmt: skip
    best = front(points)
    axes.plot(
        [p.time_s for p in best], [p.energy_j / 1e3 for p in best], color=palette.quiet,
        linewidth=1.0, drawstyle="steps-post", zorder=1,
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
    add_legend(figure, axes, [short(family, 36) for family in families], n_across=2)
    return figure


def front(points: Sequence[Point]) -> list[Point]:
    """Return the points than which none is better in both, from the fastest on."""
    found: list[Point] = []
    for p in sorted(points, key=lambda p: (p.time_s, p.energy_j)):
        if not found or p.energy_j < found[-1].energy_j:
            found.append(p)
    return found


def _apart(own: Sequence[Point], points: Sequence[Point]) -> list[Point]:
    """Return the labels of a family, each at its place; points that are close share one."""
    found: list[Point] = []
    for p in own:
        near = [i for i, q in enumerate(found) if _is_near(p, q, points)]
        if near:
            q = found[near[0]]
            found[near[0]] = replace(q, tag=f"{q.tag}, {p.tag.removeprefix('H=')}")
        else:
            found.append(p)
    return found


def _is_near(p: Point, q: Point, points: Sequence[Point]) -> bool:
    """Whether the labels of two points would overlap."""

    def is_close(name: str) -> bool:
        values = [getattr(r, name) for r in points]
        return bool(
            abs(getattr(p, name) - getattr(q, name)) <= _CLOSE * (max(values) - min(values))
        )

    return is_close("time_s") and is_close("energy_j")
