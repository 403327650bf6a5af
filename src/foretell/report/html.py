"""A report as one HTML file: no script, nothing from elsewhere, light, dark and on paper."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib.resources import files
from itertools import groupby

from foretell.report.document import Block, Code, Document, Paragraph, Picture, Section, Table
from foretell.report.pictures.drawing import DARK, LIGHT
from foretell.report.pictures.svg import to_svg, variables

#: Even if a name slipped through unescaped: no script runs, and nothing is fetched.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def to_html(document: Document) -> str:
    """Write a report as a page."""
    body = "\n".join([_first_screen(document), *map(_section, document.sections)])
    title = escape(document.title)
    rules = files("foretell.report").joinpath("page.css").read_text(encoding="utf-8")
    dark = f"@media (prefers-color-scheme: dark) {{ {variables(DARK)} }}"
    paper = f"@media print {{ {variables(LIGHT)} }}"
    style = f"{variables(LIGHT)}\n{dark}\n{paper}\n{rules}"
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"{body}\n</main>\n<footer><p>{escape(document.foot)}</p></footer>\n</body>\n</html>\n"
    )


def _first_screen(document: Document) -> str:
    facts = "".join(
        f'<div><dt>{escape(fact.label)}</dt><dd class="figure">{escape(fact.value)}</dd>'
        f'<dd class="remark">{escape(fact.remark)}</dd></div>'
        for fact in document.facts
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in document.notes)
    links = "".join(
        f'<li><a href="#{escape(s.slug)}">{escape(s.title)}</a></li>' for s in document.sections
    )
    return (
        f"<header>\n<h1>{escape(document.title)}</h1>\n"
        f'<p class="lead">{escape(document.lead)}</p>\n'
        + (f'<dl class="facts">{facts}</dl>\n' if facts else "")
        + f'<p class="trust">{escape(document.trust)}</p>\n'
        + (f'<ul class="notes">{notes}</ul>\n' if notes else "")
        + f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n</header>'
    )


def _section(section: Section) -> str:
    slug = escape(section.slug)
    return (
        f'<section id="{slug}" aria-labelledby="{slug}-heading">\n'
        f'<h2 id="{slug}-heading">{escape(section.title)}</h2>\n{_blocks(section.blocks)}\n'
        "</section>"
    )


def _blocks(blocks: Iterable[Block]) -> str:
    """Write blocks; small pictures that follow each other go side by side."""
    parts = []
    for is_small, group in groupby(blocks, lambda b: isinstance(b, Picture) and b.is_small):
        written = "\n".join(_block(block) for block in group)
        parts.append(f'<div class="pair">\n{written}\n</div>' if is_small else written)
    return "\n".join(parts)


def _block(block: Block) -> str:
    match block:
        case Paragraph():
            return f"<p{' class=note' * block.is_note}>{escape(block.text)}</p>"
        case Code():
            return f'<pre tabindex="0">{escape(block.text)}</pre>'
        case Table():
            return _table(block)
        case Picture():
            return _picture(block)


def _table(table: Table) -> str:
    head = "".join(
        f'<th scope="col"{_side(table, i)}>{escape(name)}</th>'
        for i, name in enumerate(table.header)
    )
    rows = "\n".join(_row(table, n, cells) for n, cells in enumerate(table.rows))
    caption = escape(table.caption)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table>\n'
        f"<caption>{caption}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _row(table: Table, n: int, cells: tuple[str, ...]) -> str:
    first = f'<th scope="row">{escape(cells[0])}</th>'
    rest = "".join(
        f"<td{_side(table, i + 1)}>{escape(cell)}</td>" for i, cell in enumerate(cells[1:])
    )
    return f"<tr{' class=best' * (n == table.marked)}>{first}{rest}</tr>"


def _side(table: Table, column: int) -> str:
    return "" if column == 0 or column in table.words else " class=number"


def _picture(picture: Picture) -> str:
    numbers = ""
    if picture.numbers is not None:
        numbers = (
            f"<details><summary>The numbers: {escape(picture.title)}</summary>"
            f"{_table(picture.numbers)}</details>"
        )
    return (
        f'<figure id="{escape(picture.name)}"{" class=small" * picture.is_small}>\n'
        f"<figcaption><strong>{escape(picture.title)}.</strong> {escape(picture.description)}"
        f"</figcaption>\n{to_svg(picture)}\n{numbers}\n</figure>"
    )
