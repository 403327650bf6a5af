"""The impact of settings: how much each changes the target, with a heat map by workload."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from foretell.decide.impact.ranges import HIGH, MODELLED
from foretell.errors import DatasetError, Option, UsageError, suggest
from foretell.impact.analyze import analyze_source
from foretell.impact.modelled import KnownModel
from foretell.impact.result import Impact, OutcomeImpact
from foretell.impact.sources import ModelSource
from foretell.impact.text import (
    better_line,
    ordered_settings,
    setting_header,
    setting_rows,
    spread_line,
    workload_header,
    workload_rows,
)
from foretell.report.document import Block, Paragraph, Picture, Section, Table
from foretell.report.findings import Findings
from foretell.report.pictures.impact import draw_heat_map
from foretell.report.sections.explanation import by_share
from foretell.wording import plain

_MOST_WORKLOADS = 14


def fit_impact_section(findings: Findings, by: Sequence[str] = ()) -> Section | None:
    """Show the impact of the columns of a fit on its target; None if nothing can be said.

    By default the workloads are the levels of the category that matters most.
    """
    if findings.model is None:
        return None
    model, results = findings.model, findings.results
    for name in by:
        if name not in model.columns:
            raise UsageError(
                f"the model has no column '{name}'. {suggest(name, model.columns)}",
                option=Option("by", name),
            )
    explanation = None if results is None else results.explanation
    without = () if explanation is None else tuple(explanation.without_effect)
    runs = findings.runs
    if runs is not None:
        runs = runs[[*model.columns, model.target]]
    source = ModelSource(KnownModel(model, without), runs, str(findings.place))
    chosen = tuple(by) or _usual_workloads(findings)
    try:
        return impact_section(analyze_source(source, model.target, by=chosen))
    except DatasetError:  # targets that are not positive, or one column that tells workloads apart
        return None


def _usual_workloads(findings: Findings) -> tuple[str, ...]:
    model = findings.model
    assert model is not None
    known = [n for n, levels in model.categories.items() if 1 < len(levels) <= _MOST_WORKLOADS]
    if len(known) == 0 or len(model.columns) < 2:
        return ()
    return tuple(name for name in by_share(findings) if name in known)[:1]


def impact_section(found: Impact) -> Section:
    """Show the impact of settings, with a heat map of settings and workloads."""
    blocks: list[Block] = [
        Paragraph(
            "A range is by how much a setting alone changes a result, from its worst to its best "
            "level, in the median over all contexts: runs that are equal in all other settings. "
            f"A level counts if the lower end of its 90 % interval passes it. {better_line(found)}"
        ),
        Table("Impact of each setting", setting_header(found), tuple(setting_rows(found)),
              words=tuple(1 + 4 * i for i in range(len(found.outcomes)))),
    ]  # fmt: skip
    blocks += [_heat_map(found, outcome) for outcome in found.outcomes]
    if found.spreads:
        blocks.append(Paragraph(spread_line(found)))
    return Section("impact", "Impact of settings", tuple(blocks))


def _heat_map(found: Impact, outcome: OutcomeImpact) -> Picture:
    settings = ordered_settings(found)
    workloads = list(found.workloads[:_MOST_WORKLOADS]) if outcome.by_workload else []
    columns = [outcome.impacts, *(outcome.by_workload[w] for w in workloads)]
    names = ["all" if workloads else "range", *workloads]
    ranges = np.array(
        [[np.nan if (own := c.get(s)) is None else own.median for c in columns] for s in settings]
    )
    levels = [["" if (own := c.get(s)) is None else own.level for c in columns] for s in settings]
    modelled = np.array(
        [
            [(own := c.get(s)) is not None and own.label == MODELLED for c in columns]
            for s in settings
        ]
    )
    high = [plain(s) for s, row in zip(settings, levels, strict=True) if row[0] == HIGH]
    numbers = None
    if workloads:
        numbers = Table(
            f"Impact on {plain(outcome.name)}", workload_header(found),
            tuple(workload_rows(found, outcome)), words=tuple(range(1, len(found.workloads) + 1)),
        )  # fmt: skip
    return Picture(
        f"impact-{found.outcomes.index(outcome) + 1}",
        f"Impact on {plain(outcome.name)}",
        f"High over all: {', '.join(high) or 'nothing'}. Darker cells are larger; gray figures are "
        f"within noise{'; those marked ~ are modelled' if modelled.any() else ''}.",
        partial(draw_heat_map, settings, names, ranges, levels, is_modelled=modelled),
        numbers,
    )
