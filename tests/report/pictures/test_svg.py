"""Pictures as SVG: colors are the page's to choose, names are those of the picture alone."""

import re
from xml.etree import ElementTree

from foretell.report.document import Picture
from foretell.report.pictures.drawing import DARK, LIGHT, new_axes
from foretell.report.pictures.svg import to_standalone_svg, to_svg, variables


def picture(name="a"):
    def draw(palette):
        figure, axes = new_axes()
        axes.plot([1, 2], [3, 4], "o-", color=palette.second)
        axes.set_xlabel("<b>&")
        return figure

    return Picture(name, "Title", "What <it> shows", draw)


def test_colors_become_variables_of_the_page():
    svg = to_svg(picture())
    assert "var(--second)" in svg
    assert "#fe01" not in svg


def test_ids_of_two_pictures_on_one_page_never_meet():
    found = [set(re.findall(r'\bid="([^"]+)"', to_svg(picture(name)))) for name in "ab"]
    assert found[0]
    assert not found[0] & found[1]
    for ids, name in zip(found, "ab", strict=True):
        used = set(re.findall(r'(?:href="#|url\(#)([\w.-]+)', to_svg(picture(name))))
        assert used <= ids


def test_title_and_labels_are_text_that_a_reader_can_search():
    root = ElementTree.fromstring(to_svg(picture()))
    texts = ["".join(e.itertext()) for e in root.iter()]
    assert "Title. What <it> shows" in texts
    assert "<b>&" in texts


def test_a_file_of_its_own_brings_the_colors_of_both_palettes():
    svg = to_standalone_svg(picture())
    assert variables(LIGHT, "svg") in svg
    assert variables(DARK, "svg") in svg
    assert LIGHT.second in svg
    assert DARK.second in svg
    ElementTree.fromstring(svg)
