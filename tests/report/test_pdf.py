"""A report as PDF: pages of text, then one page per picture; long lines are broken, never cut."""

import re

from foretell.report.document import Code, Document, Paragraph, Picture, Section, Table
from foretell.report.pdf import _lines, to_pdf
from foretell.report.pictures.drawing import new_axes


def n_pages(*blocks):
    section = Section("one", "Heading", blocks)
    content = to_pdf(Document("T", "lead", (), "trust", (), (section,), "foot"))
    return len(re.findall(rb"/Type /Page\b", content))


def test_pictures_have_pages_of_their_own_behind_the_text():
    picture = Picture("a", "title", "what it shows", lambda _: new_axes()[0])
    assert n_pages(Paragraph("text")) == 1
    assert n_pages(Paragraph("text"), picture, picture) == 3


def test_text_that_does_not_fit_goes_on_on_the_next_page():
    assert n_pages(*[Paragraph("line")] * 40) == 2  # of 66 lines, with an empty one after each


def test_long_lines_are_broken_and_nothing_is_lost():
    words = [f"word{i}" for i in range(60)]
    for block in (Paragraph(" ".join(words)), Code(" ".join(words))):
        lines = _lines(block)
        assert len(lines) > 1
        assert max(map(len, lines)) <= 94  # 92, and the indent of code
        assert " ".join(lines).split() == words


def test_columns_of_a_table_line_up():
    table = Table("caption", ("name", "n", "why"), (("a", "100", "x"), ("bbb", "1", "yy")), (2,))
    caption, *rows = _lines(table)
    assert caption == "caption"
    assert rows == ["name    n  why", "a     100  x", "bbb     1  yy"]
