"""A report as a tree of plain blocks, independent of the format it is written in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretell.report.pictures.drawing import Palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Paragraph:
    """Text; a note is set apart."""

    text: str
    is_note: bool = False


@dataclass(frozen=True)
class Code:
    """Text to be kept as it is written: a command, a formula, a file."""

    text: str


@dataclass(frozen=True)
class Table:
    """Cells in rows.

    Attributes
    ----------
    words
        The columns that hold words and are aligned left, as the first one always is.
    marked
        The row that matters most, if one does.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: tuple[int, ...] = ()
    marked: int | None = None


@dataclass(frozen=True)
class Picture:
    """Something drawn, what it shows in words, and the same numbers as a table.

    Attributes
    ----------
    name
        What to call its file; unique in a report.
    description
        What the picture shows, for readers who cannot see it.
    is_small
        Whether two of them are shown side by side where there is room.
    """

    name: str
    title: str
    description: str
    draw: Callable[[Palette], Figure]
    numbers: Table | None = None
    is_small: bool = False


Block = Paragraph | Code | Table | Picture


@dataclass(frozen=True)
class Section:
    """Blocks under a heading; ``slug`` names it in addresses."""

    slug: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Fact:
    """A figure on the first screen: what it is, and what it means."""

    label: str
    value: str
    remark: str


@dataclass(frozen=True)
class Document:
    """A whole report.

    Attributes
    ----------
    lead, facts, trust, notes
        The first screen: what was modeled, how good it is, how far to trust it, what to know.
    foot
        What wrote it, and from what.
    """

    title: str
    lead: str
    facts: tuple[Fact, ...]
    trust: str
    notes: tuple[str, ...]
    sections: tuple[Section, ...]
    foot: str
