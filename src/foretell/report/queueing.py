"""The report of a queue: the plan, response times against load and dropping, shares, the front."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from foretell._version import __version__
from foretell.decide.queueing.assess import Assessed, seconds_text
from foretell.files.directory import check_new
from foretell.queue.choice_text import (
    binding_line,
    class_rows,
    gain_line,
    header,
    headline,
    instruction,
    luck_line,
    near_lines,
    percent_text,
    today_cell,
    tried_line,
)
from foretell.queue.choose import QueueChoice
from foretell.queue.curves import (
    JOBS_OF_A_POINT,
    DropCurve,
    Line,
    against_drop,
    against_load,
    distributions,
    is_poisson,
    shown_plan,
    whole_load,
)
from foretell.report.document import Block, Document, Fact, Paragraph, Picture, Section, Table
from foretell.report.pictures.queueing import draw_drops, draw_loads, draw_queue_front, draw_shares
from foretell.report.write import Report, choose_form, write_document
from foretell.wording import counted, number, percent, plain

_MOST_ROWS = 25


def write_queue_report(found: QueueChoice, output: str | Path, *, force: bool = False) -> Report:
    """Write a choice as one file to look at."""
    path, form = Path(output), choose_form(output, None)
    check_new(path, force=force)
    document = _document(found)
    sizes = [len(content) for content in write_document(document, path, form, force=force)]
    return Report(path, sum(sizes), tuple(s.title for s in document.sections), ())


def _document(found: QueueChoice) -> Document:
    plan = shown_plan(found)
    sections = [_plan_section(found, plan), _load_section(found), *_drop_sections(found)]
    if shares := distributions(found):
        sections.append(_share_section(found, shares))
    if found.choice.front:
        sections.append(_front_section(found))
    kind = "simulated" if found.is_simulated else "computed"
    return Document(
        title="A queue of several priorities",
        lead=f"{headline(found)} Figures of the plan are {kind}.",
        facts=_facts(found, plan),
        trust=f"{binding_line(found)} {luck_line(found)}".strip() or tried_line(found),
        notes=found.notes,
        sections=tuple(sections),
        foot=f"Written by foretell {__version__}.",
    )


def _facts(found: QueueChoice, plan: Assessed) -> tuple[Fact, ...]:
    facts = []
    for k in reversed(range(len(plan.options))):
        figures = found.today.figures
        was = (
            ""
            if figures is None
            else f"{_today_word(found)} {seconds_text(figures.classes[k].p95_s)}"
        )
        value = seconds_text(plan.responses[k].p95_s) if plan.responses else "–"
        facts.append(Fact(f"p95 of {plain(found.queue.classes[k].name)}", value, was))
    return tuple(facts[:4])


def _today_word(found: QueueChoice) -> str:
    return "now" if found.today.is_of_file else "with evictions"


def _plan_section(found: QueueChoice, plan: Assessed) -> Section:
    blocks: list[Block] = []
    if plan.responses:
        rows = tuple(class_rows(found, plan))
        blocks.append(Table("What each class can expect", header(found), rows, words=(4, 5)))
    blocks += [Paragraph(line) for line in (gain_line(found), tried_line(found)) if line]
    if near := near_lines(found):
        blocks.append(
            Table("Why not a little different", ("choice and what it violates",),
                  tuple((line,) for line in near))
        )  # fmt: skip
    return Section("plan", "The plan", tuple(blocks))


def _load_section(found: QueueChoice) -> Section:
    lines = against_load(found)
    now = whole_load(found)
    word = _today_word(found)
    numbers = _numbers("p95 (s) by load", "load", lines, word)
    return Section(
        "load",
        "Response times against load",
        (
            Paragraph(
                "Rates of all classes are multiplied. The load is that of jobs of which nothing is "
                "dropped and which do not sprint. A line that ends has no end of waiting beyond."
                + _played_text(found)
            ),
            Picture(
                "queue-load", "The p95 of each class against the load",
                _at_load(found, now),
                partial(draw_loads, lines, word, now), numbers,
            ),
        ),
    )  # fmt: skip


def _played_text(found: QueueChoice) -> str:
    """Say that a curve is simulated, where no formula holds."""
    if is_poisson(found):
        return ""
    return (
        f" Arrivals are not Poisson: each point is a simulation of {JOBS_OF_A_POINT:,} jobs, and "
        "evictions are left out."
    )


def _at_load(found: QueueChoice, now: float) -> str:
    """Say what the picture shows at the load of the file."""
    plan, figures = shown_plan(found), found.today.figures
    parts = []
    for k in reversed(range(len(plan.responses))):
        was = today_cell(found.today) if figures is None else seconds_text(figures.classes[k].p95_s)
        own = f"{plain(found.queue.classes[k].name)} {seconds_text(plan.responses[k].p95_s)}"
        parts.append(f"{own} with the plan, {_today_word(found)} {was}")
    return f"At the load of the file, {percent_text(round(now, 3))}: {'; '.join(parts)}."


def _drop_sections(found: QueueChoice) -> list[Section]:
    curves = against_drop(found)
    if not curves:
        return []
    text = (
        "What dropping from one class does to all of them, with the rest of the plan as it is."
        + _played_text(found)
    )
    return [
        Section(
            "drop", "Response times against dropping",
            (Paragraph(text), *(_drop_picture(i, curve) for i, curve in enumerate(curves))),
        )
    ]  # fmt: skip


def _drop_picture(i: int, curve: DropCurve) -> Picture:
    return Picture(
        f"queue-drop-{i + 1}",
        f"Dropping from {plain(curve.name)}",
        f"Its error limit allows {percent_text(curve.most)}; the plan drops "
        f"{percent_text(curve.chosen)}.",
        partial(draw_drops, curve),
        _numbers("p95 (s) by share dropped", "dropped", curve.lines, ""),
    )


def _share_section(found: QueueChoice, lines: list[Line]) -> Section:
    word = _today_word(found)
    levels = (0.5, 0.9, 0.95, 0.99)
    rows = tuple(
        (
            plain(line.name),
            "plan" if line.is_planned else word,
            *(number(float(np.interp(level, line.values, line.at)), 3) for level in levels),
        )
        for line in lines
    )
    numbers = Table(
        "Response times (s)", ("class", "", *(percent_text(level) for level in levels)), rows,
        words=(1,),
    )  # fmt: skip
    return Section(
        "shares",
        "Who is done by when",
        (
            Paragraph(
                "Simulated with the seed of the choice, sprints with their bucket."
                + _unseen_text(found, lines)
            ),
            Picture(
                "queue-shares", "Jobs done by time", "The dotted line is 95 % of the jobs.",
                partial(draw_shares, lines, word), numbers,
            ),
        ),
    )  # fmt: skip


def _unseen_text(found: QueueChoice, lines: Sequence[Line]) -> str:
    """Name the classes that are so rare that none of their jobs was played."""
    seen = {line.name for line in lines}
    unseen = [plain(c.name) for c in found.queue.classes if c.name not in seen]
    return f" No job of {' and '.join(unseen)} was among those played." if unseen else ""


def _front_section(found: QueueChoice) -> Section:
    kept = [plan for plan in found.choice.tried if plan.is_kept]
    front = sorted(found.choice.front, key=lambda plan: plan.latency_s)
    rows = tuple(
        (instruction(found, plan), number(plan.latency_s, 3), percent(plan.error),
         f"{plan.power.total_w:.1f}")
        for plan in front[:_MOST_ROWS]
    )  # fmt: skip
    table = Table(
        "Plans that no other beats in latency, error and energy at once",
        ("plan", "weighted p95 (s)", "weighted error", "mean power (W)"), rows,
    )  # fmt: skip
    pictures = [
        _front_picture(found, kept, "error"),
        *([_front_picture(found, kept, "power")] if found.queue.sprint.base_w else []),
    ]
    more = f" The first {_MOST_ROWS} are shown." if len(front) > _MOST_ROWS else ""
    text = (
        f"{counted(len(kept), 'plan')} keep all limits, and {len(front)} of them are beaten by "
        f"none.{more} Power is modelled. They are compared as if no bucket ran dry."
    )
    return Section("front", "Latency, error and energy", (Paragraph(text), *pictures, table))


def _front_picture(found: QueueChoice, kept: list[Assessed], what: str) -> Picture:
    def row(plan: Assessed) -> tuple[float, float]:
        return plan.latency_s, plan.error if what == "error" else plan.power.total_w

    axis = ("weighted error", "") if what == "error" else ("mean power", "W")
    front = np.array([row(plan) for plan in found.choice.front])
    # All plans as they were compared; the figures of the chosen one may be simulated since.
    chosen = [plan for plan in kept if found.chosen and plan.options == found.chosen.options]
    return Picture(
        f"queue-front-{what}",
        f"Latency and {'error' if what == 'error' else 'energy'}",
        "Lower left is better.",
        partial(
            draw_queue_front,
            np.array([row(p) for p in kept]),
            front,
            np.array([row(p) for p in chosen]),
            axis,
        ),
        is_small=True,
    )


def _numbers(caption: str, first: str, lines: Sequence[Line], today: str) -> Table:
    """Return the values of lines along shares as a table, one row per place."""
    names = [
        plain(line.name) + (f", {today}" if not line.is_planned else ", plan" if today else "")
        for line in lines
    ]
    rows = tuple(
        (
            percent_text(round(float(at), 3)),
            *(_cell(float(line.values[i])) for line in lines),
        )
        for i, at in enumerate(lines[0].at)
    )
    return Table(caption, (first, *names), rows)


def _cell(value: float) -> str:
    return number(value, 3) if math.isfinite(value) else "no end"
