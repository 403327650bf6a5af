"""Writing a report, the one path: results in, one file out, or one with a folder of pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from foretell._version import __version__
from foretell.errors import Option, UsageError, suggest
from foretell.files.directory import check_free, check_new, make_folder, write_new
from foretell.report.document import Document
from foretell.report.findings import Findings, read_findings
from foretell.report.html import to_html
from foretell.report.markdown import to_markdown
from foretell.report.pdf import to_pdf
from foretell.report.sections.accuracy import ladder_section, leaderboard_section, predicted_section
from foretell.report.sections.curves import curves_section
from foretell.report.sections.data import data_section
from foretell.report.sections.explanation import explanation_section
from foretell.report.sections.impact import fit_impact_section
from foretell.report.sections.overview import facts, lead, notes, trust
from foretell.report.sections.provenance import failures_section, provenance_section
from foretell.report.settings import choose_settings
from foretell.wording import plain

FORMATS = ("html", "md", "pdf")


@dataclass(frozen=True)
class Report:
    """A report that was written: its file and size with all pictures, and titles of its sections.

    ``missing`` says what it could not show, and how to get it.
    """

    path: Path
    n_bytes: int
    sections: tuple[str, ...]
    missing: tuple[str, ...]


def write_report(
    models: str | Path,
    output: str | Path | None = None,
    *,
    data: str | Path | pd.DataFrame | None = None,
    at: Mapping[str, Any] | None = None,
    by: Sequence[str] = (),
    form: str | None = None,
    force: bool = False,
) -> Report:
    """Write the results of a fit as one file to look at.

    Parameters
    ----------
    models
        An output directory of a fit, or a model file, which shows less.
    output
        The file to write; by default ``report.html``, ``report.md`` or ``report.pdf``.
    data
        Measured runs to show beside predictions, with those that the fit kept.
    at
        Values that columns keep while another one is varied; by default those of a measured
        configuration near the middle.
    by
        Columns that tell workloads apart in the heat map of impacts; by default the category that
        matters most.
    form
        ``html``, ``md`` or ``pdf``; by default the ending of the output's name, or HTML.
    force
        Write over an existing file.

    >>> import foretell
    >>> foretell.write_report("models/", "report.html")          # doctest: +SKIP
    """
    chosen = choose_form(output, form, may_name_form=True)
    path = Path(f"report.{chosen}" if output is None else output)
    if not path.is_dir():
        check_new(path, force=force)  # before the work, not after it
    source = Path(data) if isinstance(data, str) else data
    findings = read_findings(Path(models), source)
    document = _document(findings, at or {}, by)
    sizes = [len(content) for content in write_document(document, path, chosen, force=force)]
    return Report(path, sum(sizes), tuple(s.title for s in document.sections), findings.missing)


def choose_form(output: str | Path | None, form: str | None, *, may_name_form: bool = False) -> str:
    """Return the format of a report: the one asked for, or that of the file's name."""
    if form is None:
        ending = "" if output is None else Path(output).suffix.lower().lstrip(".")
        if ending and ending not in FORMATS:
            raise UsageError(
                f"a report ends in {', '.join(f'.{f}' for f in FORMATS)}, not .{ending}",
                option=Option("output", str(output)),
                remedy=("rename it, or add ", Option("form", FORMATS[0])) if may_name_form else (),
            )
        return ending or "html"
    if form not in FORMATS:
        raise UsageError(
            f"there is no format '{form}'. {suggest(form, FORMATS)}", option=Option("form")
        )
    return form


def _document(findings: Findings, at: Mapping[str, Any], by: Sequence[str]) -> Document:
    """Put a report together; ``at`` has the values that columns keep while another is varied."""
    if findings.model is None and at:
        raise UsageError("no technique gave a model to draw", option=Option("at"))
    settings = {} if findings.model is None else choose_settings(findings, at)
    sections = (
        data_section(findings),
        leaderboard_section(findings),
        curves_section(findings, settings),
        predicted_section(findings),
        ladder_section(findings),
        explanation_section(findings),
        fit_impact_section(findings, by),
        failures_section(findings),
        provenance_section(findings),
    )
    return Document(
        title=f"A model of {plain(findings.target)}",
        lead=lead(findings),
        facts=tuple(facts(findings)),
        trust=trust(findings),
        notes=tuple(notes(findings)),
        sections=tuple(section for section in sections if section is not None),
        foot=f"Written by foretell {__version__} from {plain(findings.place)}.",
    )


def write_document(document: Document, path: Path, form: str, *, force: bool) -> list[bytes]:
    """Write the files of a report, the main one last; return their contents."""
    contents: dict[Path, bytes] = {}
    match form:
        case "html":
            contents[path] = to_html(document).encode()
        case "pdf":
            contents[path] = to_pdf(document)
        case _:
            folder = path.with_name(f"{path.stem}-pictures")
            text, pictures = to_markdown(document, folder.name)
            check_free(folder, force=force)
            make_folder(folder)
            contents = {folder / name: svg.encode() for name, svg in pictures.items()}
            contents[path] = text.encode()
    for file, content in contents.items():
        write_new(file, content, force=force)
    return list(contents.values())
