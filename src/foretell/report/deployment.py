"""The report of a deployment: the setting, why not another, batch times and latencies."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from foretell._version import __version__
from foretell.decide.deployment.scenario import SERVER
from foretell.decide.deployment.wording import rate_text, time_text
from foretell.deploy.answer import Deployment
from foretell.deploy.curves import latency_curve
from foretell.deploy.text import (
    energy_line,
    headline,
    limits_lines,
    other_rows,
    source_line,
    time_rows,
)
from foretell.files.directory import check_new
from foretell.report.document import Block, Document, Fact, Paragraph, Picture, Section, Table
from foretell.report.pictures.serving import draw_batch_times, draw_latencies
from foretell.report.write import Report, choose_form, write_document
from foretell.wording import rough_percent


def write_deployment_report(
    found: Deployment, output: str | Path, *, force: bool = False
) -> Report:
    """Write a deployment as one file to look at."""
    path, form = Path(output), choose_form(output, None)
    check_new(path, force=force)
    document = _document(found)
    sizes = [len(content) for content in write_document(document, path, form, force=force)]
    return Report(path, sum(sizes), tuple(s.title for s in document.sections), ())


def _document(found: Deployment) -> Document:
    sections = [_setting_section(found), _times_section(found)]
    if found.question.scenario.name == SERVER:
        sections.append(_latency_section(found))
    return Document(
        title="Serving a network",
        lead=headline(found),
        facts=_facts(found),
        trust=source_line(found),
        notes=tuple(found.measured.notes),
        sections=tuple(sections),
        foot=f"Written by foretell {__version__}.",
    )


def _facts(found: Deployment) -> tuple[Fact, ...]:
    figures, low_high = found.figures, found.choice.p99_s
    limit = found.question.limit_s
    return (
        Fact(
            "p99",
            time_text(figures.p99_s),
            f"{time_text(low_high[0])} to {time_text(low_high[1])}"
            + ("" if limit is None else f"; limit {time_text(limit)}"),
        ),
        Fact("mean", time_text(figures.mean_s), "simulated"),
        Fact("busy", rough_percent(figures.busy), f"at {rate_text(figures.per_s)}"),
    )


def _setting_section(found: Deployment) -> Section:
    blocks: list[Block] = [Paragraph(line) for line in limits_lines(found)]
    blocks.append(Paragraph(energy_line(found, str)))
    rows = tuple(other_rows(found))
    if rows:
        blocks.append(Table("Why not another", ("instead", "what speaks against it"), rows, (1,)))
    return Section("setting", "The setting", tuple(blocks))


def _times_section(found: Deployment) -> Section:
    times = found.measured.times
    rows = tuple(
        (str(threads), str(p.batch), time_text(p.median_s), f"± {rough_percent(p.error)}")
        for threads, own in times.items()
        for p in sorted(own.points, key=lambda p: p.batch)
    )
    header = ("threads", "batch", "median, measured", "error")
    model = tuple(time_rows(found))
    return Section(
        "times",
        "Times of batches",
        (
            Table("Models", ("threads", "measured", "line"), model, (1, 2)),
            Picture(
                "batch-times",
                "The time of a batch against its size",
                "Marks are measured, lines are modelled.",
                partial(draw_batch_times, times),
                Table("Measured batch times", header, rows),
            ),
        ),
    )


def _latency_section(found: Deployment) -> Section:
    batches = dict.fromkeys([found.setting.batch, 1])
    curves = [latency_curve(found, batch) for batch in batches]
    rows = tuple(
        (str(c.batch), rate_text(float(r)), time_text(float(m)), time_text(float(p)))
        for c in curves
        for r, m, p in zip(c.per_s, c.mean_s, c.p99_s, strict=True)
    )
    rate = found.question.scenario.rate_per_s
    picture = Picture(
        "latencies",
        "Latency against the rate of requests, simulated",
        f"The vertical line is the rate that was asked for, {rate_text(rate)}.",
        partial(draw_latencies, curves, found.question.limit_s, rate),
        Table("Latencies", ("batch up to", "rate", "mean", "p99"), rows),
    )
    return Section("latency", "Latency against the rate", (picture,))
