"""Scaling curves: one column varied, the others at chosen values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.errors import DatasetError, listing
from foretell.model.saved.model import SavedModel
from foretell.report.document import Block, Paragraph, Picture, Section, Table
from foretell.report.findings import Findings
from foretell.report.pictures.curve import Curve, Levels, draw_curve, draw_levels
from foretell.report.pictures.drawing import is_wide
from foretell.report.sections.explanation import by_share
from foretell.report.settings import at_settings, levels_of
from foretell.wording import counted, labeled, number, plain, short, with_unit

Array = NDArray[np.float64]

_MOST_CURVES = 8
_MOST_LEVELS = 20
_N_POINTS, _MOST_WHOLE = 90, 200
#: How far beyond the data a curve goes at least, and at most.
_LEAST_FACTOR, _MOST_FACTOR = 2.0, 4.0
_N_NUMBERS, _MOST_NUMBERS = 7, 10


def curves_section(findings: Findings, settings: Mapping[str, Any]) -> Section | None:
    """Draw the target against each of the columns that matter most."""
    model = findings.model
    if model is None:
        return None
    blocks: list[Block] = []
    failed: list[str] = []
    ordered = by_share(findings)
    for name in ordered[:_MOST_CURVES]:
        try:
            if name in model.ranges:
                blocks.append(_numeric(findings, model, settings, name, len(blocks) + 1))
            elif len(levels_of(model, name)) > 1:
                blocks.append(_levels(findings, model, settings, name, len(blocks) + 1))
        except DatasetError as error:
            failed.append(f"{plain(name)} is not varied: {plain(error)}")
    if not blocks and not failed:
        return None
    told = [Paragraph(_told(findings, settings))]
    told += [Paragraph(text, is_note=True) for text in failed]
    rest = ordered[_MOST_CURVES:]
    if rest:
        names = listing(map(plain, rest))
        text = f"Columns that matter less are not drawn: {names}."
        told.append(Paragraph(text, is_note=True))
    return Section("curves", "Scaling curves", (*told, *blocks))


def _told(findings: Findings, settings: Mapping[str, Any]) -> str:
    shown = {n: number(v) if isinstance(v, float) else short(v) for n, v in settings.items()}
    at = listing((f"{short(name)} = {value}" for name, value in shown.items()), 12)
    assert findings.model is not None
    text = f"One column is varied, the others stay at {at} (the option 'at' changes them)."
    if not findings.model.has_intervals:
        text += " This model has no intervals."
    text += " Beyond the data the background is shaded and the line is broken"
    if findings.model.has_intervals:
        text += ": dashed as far as errors were rehearsed, dotted further out"
    if findings.measured is None:
        return f"{text}. No measured runs are shown (the option 'data' adds those of a table)."
    source = plain(findings.measured_from)
    return f"{text}. Circles are runs measured at the same settings, from {source}."


def _numeric(
    findings: Findings, model: SavedModel, settings: Mapping[str, Any], name: str, i: int
) -> Picture:
    at = grid(findings, name)
    try:
        forecast = model.forecast(_frame(model, settings, name, at))
    except DatasetError:  # it has no value somewhere out there
        low, high = model.ranges[name]
        at = at[(at >= low) & (at <= high)]
        forecast = model.forecast(_frame(model, settings, name, at))
    runs_at, runs = _runs(findings, settings, name)
    is_near = (runs_at >= at.min()) & (runs_at <= at.max())
    low, high = model.ranges[name]
    curve = Curve(
        name, model.target, at, forecast, low, high, tuple(findings.levels(name)),
        runs_at[is_near].astype(float), runs[is_near],
    )  # fmt: skip
    change = forecast.value[-1] / forecast.value[0]
    factor = f", a factor of {number(change, 3)}" if change > 0 else ""
    described = (
        f"From {with_unit(number(at[0]), name)} to {with_unit(number(at[-1]), name)} the "
        f"prediction goes from {number(forecast.value[0])} to "
        f"{with_unit(number(forecast.value[-1]), model.target)}{factor}. "
        f"Measured: {number(low)} to {number(high)}."
    )
    return Picture(
        f"curve-{i}",
        f"{short(model.target)} against {short(name)}",
        described,
        partial(draw_curve, curve),
        _numbers(model, name, [number(v) for v in at], forecast, _told_at(curve)),
        is_small=True,
    )


def _told_at(curve: Curve) -> NDArray[np.int64]:
    """Choose the points to give in numbers: the measured values if they are few, and the ends."""
    levels = np.flatnonzero(np.isin(curve.at, curve.levels))
    if not 0 < len(levels) <= _MOST_NUMBERS:
        levels = np.linspace(0, len(curve.at) - 1, _N_NUMBERS).round().astype(np.int64)
    return np.union1d(levels, [0, len(curve.at) - 1]).astype(np.int64)


def _levels(
    findings: Findings, model: SavedModel, settings: Mapping[str, Any], name: str, i: int
) -> Picture:
    levels = list(levels_of(model, name))[:_MOST_LEVELS]
    forecast = model.forecast(_frame(model, settings, name, levels))
    runs_at, runs = _runs(findings, settings, name)
    position = {str(level): i for i, level in enumerate(levels)}
    of = np.array([position.get(str(v), -1) for v in runs_at], dtype=np.int64)
    drawn = Levels(model.target, tuple(map(str, levels)), forecast, of[of >= 0], runs[of >= 0])
    best, worst = int(np.argmin(forecast.value)), int(np.argmax(forecast.value))
    described = (
        f"The least is {number(forecast.value[best])} for {plain(levels[best])}, the most "
        f"{with_unit(number(forecast.value[worst]), model.target)} for {plain(levels[worst])}."
    )
    rest = len(levels_of(model, name)) - len(levels)
    verb = "is" if rest == 1 else "are"
    described += f" {counted(rest, 'more level')} {verb} not drawn." if rest else ""
    return Picture(
        f"curve-{i}",
        f"{short(model.target)} by {short(name)}",
        described,
        partial(draw_levels, drawn),
        _numbers(model, name, [plain(v) for v in levels], forecast, np.arange(len(levels))),
        is_small=True,
    )


def _numbers(
    model: SavedModel, name: str, at: list[str], forecast: Any, rows: NDArray[np.int64]
) -> Table:
    cells = tuple(
        (
            at[i],
            number(forecast.value[i]),
            f"{number(forecast.lower[i])} – {number(forecast.upper[i])}",
            str(forecast.trust[i]),
        )
        for i in rows
    )
    header = (labeled(name), f"predicted {labeled(model.target)}", "90 % interval", "trust")
    return Table(f"{short(model.target)} against {short(name)}", header, cells, words=(3,))


def _frame(model: SavedModel, settings: Mapping[str, Any], name: str, values: Any) -> Any:
    frame = pd.DataFrame({n: [settings[n]] * len(values) for n in model.columns})
    frame[name] = values
    return frame


def _runs(findings: Findings, settings: Mapping[str, Any], name: str) -> tuple[Any, Array]:
    if findings.measured is None:
        return np.zeros(0), np.zeros(0)
    found = at_settings(findings.measured, settings, name)
    return found[name].to_numpy(), found[findings.target].to_numpy(dtype=float)


def grid(findings: Findings, name: str) -> Array:
    """Return the values at which a column is drawn: its range, and some way beyond."""
    model = findings.model
    assert model is not None
    low, high = model.ranges[name]
    levels = np.array(findings.levels(name), dtype=float)
    if low <= 0:
        way = 0.25 * (high - low) or 1.0
        start = low if low == 0 else low - way
        return np.unique(np.concatenate([np.linspace(start, high + way, _N_POINTS), levels]))
    reach = (1.0, 1.0)
    if model.calibration is not None:
        reach = model.calibration.reaches.get(name, reach)
    below, above = (min(max(_LEAST_FACTOR, r), _MOST_FACTOR) for r in reach)
    start, end = low / below, high * above
    if findings.is_whole(name):  # there is no half thread
        start, end = max(1.0, np.ceil(start)), np.floor(end)
        if end - start <= _MOST_WHOLE:
            return np.arange(start, end + 1)
    spaced = np.geomspace if is_wide(start, end) else np.linspace
    points = spaced(start, end, _N_POINTS)
    return np.unique(np.concatenate([points, levels, [low, high]]))
