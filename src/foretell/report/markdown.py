"""A report as Markdown, with its pictures as SVG files beside it."""

from __future__ import annotations

import re

from foretell.report.document import Block, Code, Document, Paragraph, Picture, Table
from foretell.report.pictures.svg import to_standalone_svg


def to_markdown(document: Document, folder: str) -> tuple[str, dict[str, str]]:
    """Write a report as Markdown; also return the pictures by file name, to lie in the folder."""
    parts = [f"# {_text(document.title)}", _text(document.lead)]
    facts = [f"- **{_text(f.value)}** {_text(f.label)}: {_text(f.remark)}" for f in document.facts]
    parts += ["\n".join(facts)] if facts else []
    parts.append(f"**{_text(document.trust)}**")
    parts += [f"> {_text(note)}" for note in document.notes]
    pictures: dict[str, str] = {}
    for section in document.sections:
        parts.append(f"## {_text(section.title)}")
        for block in section.blocks:
            parts += _block(block, folder, pictures)
    parts.append(_text(document.foot))
    return "\n\n".join(parts) + "\n", pictures


def _block(block: Block, folder: str, pictures: dict[str, str]) -> list[str]:
    match block:
        case Paragraph():
            return [_text(block.text)]
        case Code():
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
            return [f"{fence}text\n{block.text}\n{fence}"]
        case Table():
            return _table(block)
        case Picture():
            file = f"{block.name}.svg"
            pictures[file] = to_standalone_svg(block)
            numbers = [] if block.numbers is None else _table(block.numbers)
            shown = f"![{_text(block.title)}](<{folder}/{file}>)"
            return [f"**{_text(block.title)}.** {_text(block.description)}", shown, *numbers]


def _table(table: Table) -> list[str]:
    sides = ["---" if i == 0 or i in table.words else "---:" for i in range(len(table.header))]
    rows = [table.header, tuple(sides), *table.rows]
    lines = [
        f"| {' | '.join(cells if n == 1 else map(_text, cells))} |" for n, cells in enumerate(rows)
    ]
    return [f"**{_text(table.caption)}**", "\n".join(lines)]


def _text(text: str) -> str:
    """Write text so that nothing in it is taken for markup."""
    escaped = re.sub(r"([\\`*_{}\[\]<>|#~$&])", r"\\\1", text)
    return re.sub(r"(?m)^(\s*)([-+]|\d+[.)])(\s)", r"\1\\\2\3", escaped)
