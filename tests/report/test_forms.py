"""Reports as Markdown and as PDF."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import foretell
from foretell.errors import StorageError, UsageError


@pytest.fixture(scope="module")
def markdown(hostile, tmp_path_factory):
    folder = tmp_path_factory.mktemp("markdown")
    return foretell.write_report(hostile, folder / "report.md").path


def test_markdown_shows_its_pictures_from_a_folder_beside_it(markdown):
    shown = re.findall(r"!\[[^\n]*\]\(<([^>]+)>\)", markdown.read_text())
    folder = markdown.with_name("report-pictures")
    assert {f"report-pictures/{p.name}" for p in folder.iterdir()} == set(shown)
    for path in folder.iterdir():
        root = ElementTree.parse(path).getroot()
        assert root.tag.endswith("svg")
        assert "prefers-color-scheme:dark" in path.read_text()
        assert not re.search(r"<script|onerror=\W*document(?!.*</t)", path.read_text())


def test_tables_of_markdown_keep_their_columns_whatever_the_names(markdown):
    tables = re.findall(r"(?:^\|.*\|$\n?)+", markdown.read_text(), re.MULTILINE)
    assert len(tables) > 5
    for table in tables:
        widths = {len(re.split(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1


def test_names_in_markdown_are_no_markup(markdown):
    text = re.sub(r"```.*?```", "", markdown.read_text(), flags=re.DOTALL)
    assert not re.search(r"(?<!\\)<script|(?<!\\)\]\(javascript", text)


def test_pdf_is_one_and_the_same(automatic, tmp_path):
    written = [
        foretell.write_report(automatic, tmp_path / name).path.read_bytes()
        for name in ("one.pdf", "two.pdf")
    ]
    assert written[0] == written[1]
    assert written[0].startswith(b"%PDF-")
    n_pages = int(re.search(rb"/Count (\d+)", written[0])[1])
    assert n_pages >= 8  # text, and one for each picture


def test_form_is_taken_from_the_name_unless_given(automatic, tmp_path):
    path = foretell.write_report(automatic, tmp_path / "r.txt", form="pdf").path
    assert path.read_bytes().startswith(b"%PDF")
    with pytest.raises(UsageError, match="no format 'docx'"):
        foretell.write_report(automatic, tmp_path / "r.docx", form="docx")


def test_nothing_is_written_over_unless_forced(automatic, tmp_path):
    (tmp_path / "r.html").write_text("mine")
    with pytest.raises(StorageError, match="exists already"):
        foretell.write_report(automatic, tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text() == "mine"
    (tmp_path / "r-pictures").mkdir()
    with pytest.raises(StorageError, match="r-pictures exists already"):
        foretell.write_report(automatic, tmp_path / "r.md")
    assert not (tmp_path / "r.md").exists()
    assert foretell.write_report(automatic, tmp_path / "r.md", force=True).path.exists()


@pytest.mark.parametrize("name", ["nowhere/r.html", "nowhere/r.md", "nowhere/r.pdf"])
def test_place_that_does_not_exist_is_refused(automatic, tmp_path, name):
    with pytest.raises(StorageError, match="nowhere"):
        foretell.write_report(automatic, tmp_path / name)
