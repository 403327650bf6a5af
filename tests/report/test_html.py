"""A report as HTML: everything is escaped, cells have heads, small pictures go in pairs."""

from foretell.report.document import Code, Document, Fact, Paragraph, Picture, Section, Table
from foretell.report.html import to_html
from foretell.report.pictures.drawing import new_axes

HOSTILE = "<script>alert('1')</script> & \"x\""


def draw(palette):
    figure, axes = new_axes()
    axes.plot([1, 2], [3, 4], color=palette.first)
    return figure


def document(*blocks, text="text", facts=()):
    section = Section("one", f"Heading {text}", blocks)
    return Document(f"Title {text}", text, facts, text, (text,), (section,), text)


def picture(name, text="text", *, is_small=True):
    return Picture(name, text, text, draw, Table(text, (text,), ((text,),)), is_small)


def test_text_is_escaped_wherever_it_stands():
    table = Table(HOSTILE, (HOSTILE, HOSTILE), ((HOSTILE, HOSTILE),))
    blocks = (Paragraph(HOSTILE), Code(HOSTILE), table, picture("p", HOSTILE))
    facts = (Fact(HOSTILE, HOSTILE, HOSTILE),)
    page = to_html(document(*blocks, text=HOSTILE, facts=facts))
    assert "<script" not in page
    assert page.count("&lt;script&gt;") > 20


def test_the_first_cell_heads_its_row_and_numbers_are_aligned_unlike_words():
    rows = (("a", "1", "yes"), ("b", "2", "no"))
    page = to_html(document(Table("", ("name", "n", "good"), rows, words=(2,), marked=1)))
    assert '<th scope="col">name</th><th scope="col" class=number>n</th>' in page
    assert '<tr><th scope="row">a</th><td class=number>1</td><td>yes</td></tr>' in page
    assert '<tr class=best><th scope="row">b</th>' in page


def test_small_pictures_that_follow_each_other_share_a_row():
    blocks = [picture("a"), picture("b"), Paragraph("between"), picture("c", is_small=False)]
    page = to_html(document(*blocks))
    assert page.count('<div class="pair">') == 1
    pair = page[page.index('<div class="pair">') : page.index("<p>between</p>")]
    assert '<figure id="a"' in pair
    assert '<figure id="b"' in pair
    assert '<figure id="c"' not in pair


def test_a_first_screen_without_facts_and_notes_has_no_empty_lists():
    page = to_html(Document("title", "lead", (), "trust", (), (), "foot"))
    assert "<dl" not in page
    assert 'class="notes"' not in page
