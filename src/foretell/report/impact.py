"""The report of an impact: the heat map, shares of variance, tuning, time against cost."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from foretell._version import __version__
from foretell.decide.impact.ranges import HIGH, NOISE
from foretell.decide.impact.tunings import BASELINE
from foretell.files.directory import check_new
from foretell.impact.result import Impact
from foretell.impact.text import (
    choice_lines,
    front_header,
    front_rows,
    front_words,
    ordered_settings,
    runs_line,
    tuning_header,
    tuning_rows,
    variance_lines,
)
from foretell.report.document import Block, Document, Fact, Paragraph, Picture, Section, Table
from foretell.report.pictures.bars import draw_bars
from foretell.report.pictures.impact import draw_tunings
from foretell.report.sections.impact import impact_section
from foretell.report.write import Report, choose_form, write_document
from foretell.wording import counted, percent, plain, rough_percent

_MOST_FRONT, _MOST_FACTS = 25, 4


def check_output(output: Path, *, force: bool) -> None:
    """Refuse a name or a place that a report cannot have, before the work."""
    choose_form(output, None)
    check_new(output, force=force)


def write_impact_report(found: Impact, output: str | Path, *, force: bool = False) -> Report:
    """Write an impact as one file to look at."""
    path, form = Path(output), choose_form(output, None)
    check_new(path, force=force)
    document = _document(found)
    sizes = [len(content) for content in write_document(document, path, form, force=force)]
    return Report(path, sum(sizes), tuple(s.title for s in document.sections), ())


def _document(found: Impact) -> Document:
    sections = [impact_section(found), _shares_section(found)]
    if found.tunings:
        sections.append(_tuning_section(found))
    if len(found.front) > 1:
        sections.append(_front_section(found))
    return Document(
        title=f"What matters for {plain(found.asked.target)}",
        lead=f"{runs_line(found)}.",
        facts=_facts(found),
        trust=_trust(found),
        notes=found.notes,
        sections=tuple(sections),
        foot=f"Written by foretell {__version__} from {plain(found.source)}.",
    )


def _facts(found: Impact) -> tuple[Fact, ...]:
    facts = []
    for name in ordered_settings(found)[:_MOST_FACTS]:
        own = found.of().impacts[name]
        if own is not None:
            facts.append(Fact(plain(name), own.level, f"range {rough_percent(own.median)}"))
    return tuple(facts)


def _trust(found: Impact) -> str:
    high = [plain(n) for n in ordered_settings(found) if found.level(n) == HIGH]
    noise = [plain(n) for n in ordered_settings(found) if found.level(n) == NOISE]
    parts = [f"High impact: {', '.join(high)}." if high else "No setting has a high impact."]
    parts += [f"Within noise: {', '.join(noise)}."] if noise else []
    return " ".join(parts)


def _shares_section(found: Impact) -> Section:
    blocks: list[Block] = []
    for i, outcome in enumerate(found.outcomes):
        blocks += [Paragraph(line) for line in variance_lines(outcome)]
        if outcome.shares is None:
            blocks.append(Paragraph(f"Shares of {plain(outcome.name)} are not known."))
            continue
        shares = outcome.shares.by_input()
        if not shares:
            continue
        first = next(iter(shares))
        rows = tuple(
            (
                plain(n),
                percent(s),
                percent(outcome.shares.first[n]),
                percent(outcome.shares.total[n]),
            )
            for n, s in shares.items()
        )
        blocks.append(
            Picture(
                f"impact-shares-{i + 1}", f"Shares of the variance of {plain(outcome.name)}",
                f"{plain(first)} explains most, {percent(shares[first])}.",
                partial(draw_bars, shares),
                Table("Shares of variance", ("setting", "share", "alone", "with others"), rows),
            )
        )  # fmt: skip
    return Section("variance", "Shares of variance", tuple(blocks))


def _tuning_section(found: Impact) -> Section:
    header, rows = tuning_header(found), tuple(tuning_rows(found))
    kinds = [t.kind for t in found.tunings if t.workload == found.tunings[0].workload][1:]
    names = list(dict.fromkeys(t.workload for t in found.tunings))
    start = {t.workload: t.value for t in found.tunings if t.kind == BASELINE}
    by = {(t.workload, t.kind): t for t in found.tunings}
    values = np.array([[by[w, k].value / start[w] for k in kinds] for w in names])
    ends = np.array(
        [[[by[w, k].lower / start[w], by[w, k].upper / start[w]] for k in kinds] for w in names]
    )
    return Section(
        "tuning",
        "What tuning reaches",
        (
            Paragraph(
                "Settings of high impact vary, the others stay at their baseline. Lines are 95 % "
                "intervals. Figures marked ~ are modelled, the others measured."
            ),
            *map(Paragraph, choice_lines(found)),
            Picture("impact-tuning", "Tuning one kind of settings, and both",
                    "Shorter is better where less is.",
                    partial(draw_tunings, names, kinds, values, ends)),
            Table("The best of each way of tuning", header, rows,
                  words=(*range(2 if len(found.workloads) > 1 else 1), len(header) - 1)),
        ),
    )  # fmt: skip


def _front_section(found: Impact) -> Section:
    rows = tuple(front_rows(found))
    header = front_header(found)
    more = f" The first {_MOST_FRONT} are shown." if len(rows) > _MOST_FRONT else ""
    text = (
        f"{counted(len(rows), 'configuration')} that no other of their workload beats at once in "
        f"{front_words(found)}.{more}"
    )
    table = Table("Beaten by none", header, rows[:_MOST_FRONT], words=(len(header) - 1,))
    return Section("front", "Time, cost and quality", (Paragraph(text), table))
