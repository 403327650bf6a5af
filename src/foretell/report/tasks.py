"""The report of a foreseen task graph: its makespan, other settings, and its timeline."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from foretell._version import __version__
from foretell.decide.deployment.wording import time_text
from foretell.files.directory import check_new
from foretell.report.document import Block, Document, Fact, Paragraph, Picture, Section, Table
from foretell.report.pictures.tasks import draw_makespans, draw_timeline
from foretell.report.write import Report, choose_form, write_document
from foretell.tasks.forecast.foresee import GraphForecast
from foretell.tasks.forecast.text import (
    between,
    headline,
    limits_line,
    settings_text,
    source_line,
    table_rows,
)
from foretell.wording import counted, rough_percent

_MOST_BARS = 20_000


def write_tasks_report(found: GraphForecast, output: str | Path, *, force: bool = False) -> Report:
    """Write a forecast as one file to look at."""
    path, form = Path(output), choose_form(output, None)
    check_new(path, force=force)
    document = _document(found)
    sizes = [len(content) for content in write_document(document, path, form, force=force)]
    return Report(path, sum(sizes), tuple(s.title for s in document.sections), ())


def _document(found: GraphForecast) -> Document:
    best = found.best
    interval = "recorded times"
    if best.lower_s is not None and best.upper_s is not None:
        interval = f"{between(best.lower_s, best.upper_s)} with 90 %"
    facts = (
        Fact("makespan", time_text(best.makespan_s), interval),
        Fact("critical path", time_text(best.critical_path_s), "no number of workers beats it"),
        Fact("overhead", rough_percent(best.overhead), "of what workers do"),
    )
    sections = [timeline_section(found)]
    if len(found.cells) > 1:
        sections.insert(0, _settings_section(found))
    return Document(
        title="A task graph, foreseen",
        lead=f"{headline(found)} {limits_line(found)}",
        facts=facts,
        trust=source_line(found),
        notes=found.notes,
        sections=tuple(sections),
        foot=f"Written by foretell {__version__}.",
    )


def _settings_section(found: GraphForecast) -> Section:
    header, *rows = table_rows(found)
    table = Table(
        "Makespans, simulated",
        ("setting", *header[1:]),
        tuple(tuple(c.replace("*", "").strip() for c in row) for row in rows),
    )
    blocks: list[Block] = [table]
    if len({cell.workers for cell in found.cells}) > 1:
        blocks.insert(0, makespan_picture(found))
    return Section("settings", "Settings and workers", tuple(blocks))


def makespan_picture(found: GraphForecast) -> Picture:
    """Return makespan against workers, a line for each setting."""
    curves: dict[str, dict[int, float]] = {}
    for cell in found.cells:
        curves.setdefault(settings_text(cell.settings, found.varied), {})[cell.workers] = (
            cell.makespan_s
        )
    return Picture(
        "makespans",
        "Makespan against workers, simulated",
        "The circle marks what to use.",
        partial(draw_makespans, curves, (found.best.workers, found.best.makespan_s)),
    )


def timeline_section(found: GraphForecast) -> Section:
    """Return the timeline of the best setting."""
    if len(found.bars) > _MOST_BARS:
        told = f"{counted(len(found.bars), 'task')} are too many for a picture; write a .json."
        return Section("timeline", "Timeline", (Paragraph(told),))
    return Section("timeline", "Timeline", (timeline_picture(found),))


def timeline_picture(found: GraphForecast) -> Picture:
    """Return which worker runs which task when."""
    where = ", ".join(
        filter(None, (settings_text(found.best.settings, found.varied),
                      counted(found.best.workers, "worker")))
    )  # fmt: skip
    return Picture(
        "timeline",
        f"What each worker does, simulated: {where}",
        "A row for each worker, and a bar for each task; gaps are waits for other tasks.",
        partial(draw_timeline, found.bars),
    )
