"""A report as Markdown: names stay names, code keeps its backticks, pictures are files."""

from foretell.report.document import Code, Document, Paragraph, Picture, Section, Table
from foretell.report.markdown import to_markdown
from foretell.report.pictures.drawing import new_axes


def written(*blocks):
    section = Section("one", "Heading", blocks)
    return to_markdown(Document("T", "lead", (), "trust", (), (section,), "foot"), "p q")


def test_code_is_fenced_by_more_backticks_than_it_has():
    text, _ = written(Code("a ```` b"))
    assert "`````text\na ```` b\n`````" in text


def test_signs_of_markup_are_escaped_in_text_and_cells():
    text, _ = written(Paragraph("1. a*b_c|d"), Table("t", ("a|b", "n"), (("x`y", "2"),)))
    assert r"\1. a\*b\_c\|d" in text
    assert r"| a\|b | n |" in text
    assert r"| x\`y | 2 |" in text


def test_columns_of_numbers_are_aligned_to_the_right_and_words_are_not():
    text, _ = written(Table("t", ("name", "n", "why"), (("a", "1", "b"),), words=(2,)))
    assert "| --- | ---: | --- |" in text


def test_a_picture_is_a_file_in_the_folder_and_its_numbers_are_a_table():
    numbers = Table("numbers", ("x",), (("1",),))
    picture = Picture("curve-1", "Time", "It falls.", lambda _: new_axes()[0], numbers)
    text, pictures = written(picture)
    assert "![Time](<p q/curve-1.svg>)" in text
    assert "**numbers**\n\n| x |" in text
    assert list(pictures) == ["curve-1.svg"]
    assert pictures["curve-1.svg"].startswith("<svg")
