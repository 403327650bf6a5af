"""Pictures as small SVG that a page can style.

They are drawn in stand-in colors, which become variables of the page: it knows whether it is light,
dark or paper. Text stays text. The same numbers give the same bytes.
"""

from __future__ import annotations

import io
import re
from dataclasses import asdict
from xml.etree import ElementTree

from foretell.report.document import Picture
from foretell.report.pictures.drawing import DARK, LIGHT, STAND_INS, Palette, styled

_NAMESPACE = "http://www.w3.org/2000/svg"
_HREF = "{http://www.w3.org/1999/xlink}href"
_SCALE = 4 / 3  # points to pixels, so that letters are of one size in all pictures
_VARIABLES = {color: f"var(--{name})" for name, color in asdict(STAND_INS).items()}
_PAPER = {LIGHT: "#ffffff", DARK: "#14191d"}


def to_svg(picture: Picture) -> str:
    """Draw a picture as SVG whose colors are variables, with its title and description inside."""
    written = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with styled(STAND_INS):
        picture.draw(STAND_INS).savefig(written, format="svg", metadata=nothing)
    root = ElementTree.fromstring(written.getvalue())  # noqa: S314 - our own drawing
    box = root.get("viewBox", "")
    references = (e.get(_HREF, "") + e.get("clip-path", "") for e in root.iter())
    wanted = {name for text in references for name in re.findall(r"#([\w.-]+)", text)}
    for element in root.iter():
        _tidy(element, picture.name, wanted)
    for defs in root.findall("defs"):
        if defs.find("style") is not None:
            root.remove(defs)  # it would apply to the whole page
    title = ElementTree.Element("title", {"id": f"{picture.name}-title"})
    title.text = f"{picture.title}. {picture.description}"
    root.insert(0, title)
    root.attrib = {
        "xmlns": _NAMESPACE,
        "viewBox": box,
        "width": f"{_SCALE * float(box.split()[2]):.0f}",
        "role": "img",
        "aria-labelledby": f"{picture.name}-title",
    }
    return ElementTree.tostring(root, encoding="unicode")


def _tidy(element: ElementTree.Element, name: str, wanted: set[str]) -> None:
    """Name things for this picture alone, let the page choose colors and fonts, and round."""
    element.tag = element.tag.rpartition("}")[2]
    if element.tag != "text":
        element.text = None
    element.tail = None
    found = element.attrib
    own = found.pop("id", None)
    if own in wanted:
        found["id"] = f"{name}-{own}"
    if (href := found.pop(_HREF, None)) is not None:
        found["href"] = f"#{name}-{href[1:]}"
    if "clip-path" in found:
        found["clip-path"] = found["clip-path"].replace("#", f"#{name}-")
    if "style" in found:
        style = re.sub(r" ?font-family: [^;]*;?", "", found["style"])
        found["style"] = re.sub(r"#fe01\w\w", lambda m: _VARIABLES[m[0]], style)
    if found.get("transform", "").startswith("rotate(-0 "):
        del found["transform"]
    for part in found.keys() & {"d", "x", "y", "transform"}:
        rounded = re.sub(r"\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}", found[part])
        found[part] = " ".join(rounded.split())


def to_standalone_svg(picture: Picture) -> str:
    """Draw a picture as a file of its own, light or dark as its reader is."""
    dark = f"@media (prefers-color-scheme:dark){{{variables(DARK, 'svg')}}}"
    letters = "svg{font-family:sans-serif;background:var(--paper)}"
    style = f"<style>{variables(LIGHT, 'svg')}{dark}{letters}</style>"
    return to_svg(picture).replace("</title>", f"</title>{style}", 1) + "\n"


def variables(palette: Palette, selector: str = ":root") -> str:
    """Write the colors of a palette as the page's variables."""
    colors = {"paper": _PAPER[palette], **asdict(palette)}
    return f"{selector}{{{''.join(f'--{n}:{c};' for n, c in colors.items())}}}"
