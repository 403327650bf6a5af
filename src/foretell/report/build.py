"""From findings to a document: the first screen, then the sections in the order of questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretell.errors import Option, UsageError
from foretell.report.document import Document
from foretell.report.findings import Findings
from foretell.report.sections.accuracy import ladder_section, leaderboard_section, predicted_section
from foretell.report.sections.curves import curves_section
from foretell.report.sections.data import data_section
from foretell.report.sections.explanation import explanation_section
from foretell.report.sections.overview import facts, lead, notes, trust
from foretell.report.sections.provenance import failures_section, provenance_section
from foretell.report.settings import choose_settings
from foretell.wording import plain


def build_document(findings: Findings, at: Mapping[str, Any]) -> Document:
    """Put a report together; ``at`` has the values that columns keep while another is varied."""
    from foretell._version import __version__

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
