"""The report of a co-run: when each job ends, what they wait for, and the timeline."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

from foretell._version import __version__
from foretell.corun.predict import Together
from foretell.corun.text import time_text, together_text
from foretell.errors import Option, UsageError
from foretell.files.directory import write_new
from foretell.report.document import Code, Document, Fact, Picture, Section, Table
from foretell.report.pictures.corun import draw_timeline
from foretell.report.pictures.svg import to_standalone_svg
from foretell.report.write import FORMATS, choose_form, write_document

_PICTURE = ".svg"


def check_form(output: Path) -> None:
    """Refuse a file that is neither a picture nor a report."""
    if output.suffix not in {_PICTURE, *(f".{form}" for form in FORMATS)}:
        raise UsageError(
            f"a timeline ends in .svg, a report in {', '.join(f'.{f}' for f in FORMATS)}, not "
            f"{output.suffix or 'nothing'}",
            option=Option("output", str(output)),
            remedy=("name it so",),
        )


def write_together(found: Together, output: Path, *, force: bool = False) -> int:
    """Write the timeline as a picture, or a report with it; return how many bytes."""
    check_form(output)
    if output.suffix == _PICTURE:
        content = to_standalone_svg(_timeline(found)).encode()
        write_new(output, content, force=force)
        return len(content)
    form = choose_form(output, None)
    return sum(map(len, write_document(_document(found), output, form, force=force)))


def _timeline(found: Together) -> Picture:
    rows = tuple(
        (j.name, *map(time_text, (j.start_s, j.end_s, j.lower_s, j.upper_s, j.alone_s)))
        for j in found.jobs
    )
    header = ("job", "starts", "ends", "from", "to", "alone")
    return Picture(
        "timeline",
        "Jobs over time, modelled",
        "Each job is a bar as thick as it is fast; where it waits for others it is pale.",
        partial(draw_timeline, found),
        Table("When jobs end", header, rows),
    )


def _document(found: Together) -> Document:
    facts = tuple(
        Fact(j.name, time_text(j.end_s), f"alone {time_text(j.alone_s)}")
        for j in found.jobs[:4]
        if math.isfinite(j.end_s)
    )
    return Document(
        title="Jobs that share a machine",
        lead=f"All is done at {time_text(found.last_end_s)}.",
        facts=facts,
        trust="Ends are modelled, from one run of each job alone.",
        notes=found.notes,
        sections=(Section("together", "Together", (Code(together_text(found)), _timeline(found))),),
        foot=f"Written by foretell {__version__}.",
    )
