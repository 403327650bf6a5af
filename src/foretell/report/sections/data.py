"""The data at a glance: ranges, levels, repeats and noise."""

from __future__ import annotations

import pandas as pd

from foretell.errors import listing
from foretell.model.results.schema import Data
from foretell.model.saved.model import SavedModel
from foretell.report.document import Block, Paragraph, Section, Table
from foretell.report.findings import Findings
from foretell.report.settings import levels_of
from foretell.wording import counted, number, percent, plain, unit_of

_LEVELS_NAMED = 10


def data_section(findings: Findings) -> Section | None:
    """Describe the columns, the target first."""
    model = findings.model
    if model is None:
        return None
    blocks: list[Block] = []
    if findings.results is not None:
        blocks.append(Paragraph(_counts(findings)))
        n_kept = 0 if findings.runs is None else len(findings.runs)
        if 0 < n_kept < findings.results.data.n_rows:
            text = f"The target and the different values are those of a sample of {n_kept:,} runs."
            blocks.append(Paragraph(text, is_note=True))
    rows = [_column(findings, model, name) for name in model.columns]
    target = _target(findings)
    header = ("column", "unit", "measured", "different values", "kind")
    blocks.append(
        Table("What was measured", header, (*([target] if target else []), *rows), words=(1, 2, 4))
    )
    return Section("data", "The data", tuple(blocks))


def _counts(findings: Findings) -> str:
    assert findings.results is not None
    data = findings.results.data
    repeats = data.n_rows / data.n_configurations
    text = (
        f"{counted(data.n_rows, 'run')} of {counted(data.n_configurations, 'configuration')}, "
        f"so {repeats:.3g} of each on average."
    )
    if data.n_used < data.n_rows:
        text += f" Models were fitted on {data.n_used:,} of them, drawn at random."
    if data.noise is None:
        return f"{text} The noise is not known: {why_no_noise(data)}."
    return f"{text} Repeats differ by {percent(data.noise)} (the median deviation, relative)."


def why_no_noise(data: Data) -> str:
    """Say why the noise of a table is not known."""
    if data.n_rows == data.n_configurations:
        return "no configuration was measured twice"
    return "it is relative, so it needs repeats and a positive target"


def _known(findings: Findings) -> pd.DataFrame | None:
    return findings.measured if findings.runs is None else findings.runs


def _target(findings: Findings) -> tuple[str, ...] | None:
    runs, target = _known(findings), findings.target
    if runs is None:
        return None
    values = runs[target]
    low, middle, high = (number(v) for v in (values.min(), values.median(), values.max()))
    measured = f"{low} to {high}, median {middle}"
    unit = unit_of(target)
    return (f"{plain(target)} (target)", unit, measured, str(values.nunique()), "number")


def _column(findings: Findings, model: SavedModel, name: str) -> tuple[str, ...]:
    runs = _known(findings)
    n_different = "–" if runs is None else str(runs[name].nunique())
    if name not in model.ranges:
        levels = [plain(level) for level in levels_of(model, name)]
        kind = "category" if name in model.categories else "true or false"
        return (plain(name), "", listing(levels, _LEVELS_NAMED), str(len(levels)), kind)
    low, high = model.ranges[name]
    measured = f"{number(low)} to {number(high)}"
    levels = [number(v) for v in findings.levels(name)]
    if 0 < len(levels) <= _LEVELS_NAMED:
        measured = ", ".join(levels)
        n_different = str(len(levels))
    return (plain(name), unit_of(name), measured, n_different, "number")
