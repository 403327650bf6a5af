"""A report as PDF, drawn with matplotlib alone: pages of plain text, then one per picture."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from foretell.report.document import Block, Code, Document, Paragraph, Picture, Table
from foretell.report.pictures.drawing import LIGHT, styled
from foretell.wording import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PAGE = (8.27, 11.69)  # inches, A4
_COLUMNS, _LINES = 92, 66
_MOST_CELL = 40


def to_pdf(document: Document) -> bytes:
    """Write a report as PDF."""
    from matplotlib.backends.backend_pdf import PdfPages

    written = io.BytesIO()
    about = {"Title": document.title, "CreationDate": None, "Producer": None, "Creator": "foretell"}
    with styled(LIGHT), PdfPages(written, metadata=about) as pages:
        for page in _pages(document):
            pages.savefig(page)
    return written.getvalue()


def _pages(document: Document) -> Iterator[Figure]:
    lines = [document.title, "=" * min(len(document.title), _COLUMNS), ""]
    lines += [*_wrapped(document.lead), ""]
    facts = [f"{f.value}  {f.label}: {f.remark}" for f in document.facts]
    lines += [line for fact in facts for line in _wrapped(fact)]
    lines += ["", *_wrapped(document.trust), ""]
    lines += [line for note in document.notes for line in _wrapped(f"Note: {note}")]
    for section in document.sections:
        lines += ["", section.title, "-" * len(section.title), ""]
        lines += [line for block in section.blocks for line in (*_lines(block), "")]
    yield from _text_pages([*lines, *_wrapped(document.foot)])
    for block in [b for section in document.sections for b in section.blocks]:
        if isinstance(block, Picture):
            figure = block.draw(LIGHT)
            figure.supxlabel(block.title, fontsize=9, x=0.02, ha="left")  # below: above is a legend
            yield figure


def _text_pages(lines: list[str]) -> Iterator[Figure]:
    from matplotlib.figure import Figure

    for start in range(0, len(lines), _LINES):
        figure = Figure(figsize=_PAGE)
        text = "\n".join(lines[start : start + _LINES])
        figure.text(0.07, 0.95, text, va="top", family="monospace", fontsize=9, linespacing=1.3)
        yield figure


def _lines(block: Block) -> list[str]:
    match block:
        case Paragraph():
            return _wrapped(block.text)
        case Code():
            return [f"  {part}" for line in block.text.splitlines() for part in _wrapped(line, 2)]
        case Table():
            return _table(block)
        case Picture():
            numbers = [] if block.numbers is None else ["", *_table(block.numbers)]
            return [*_wrapped(f"{block.title}. {block.description}"), *numbers]


def _table(table: Table) -> list[str]:
    """Write a table; a line that is too long for the page is broken, never cut."""
    rows = [tuple(short(c, _MOST_CELL) if len(table.header) > 4 else c
                  for c in row) for row in (table.header, *table.rows)]  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.header))]
    lines = _wrapped(table.caption)
    for row in rows:
        cells = [
            cell.ljust(width) if i == 0 or i in table.words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines += _wrapped("  ".join(cells).rstrip(), indent=4)
    return lines


def _wrapped(text: str, indent: int = 0) -> list[str]:
    if len(text) <= _COLUMNS:
        return [text]
    return textwrap.wrap(text, _COLUMNS, subsequent_indent=" " * indent, drop_whitespace=False)
