"""What the model says in words: the share of each column, the formula, plateaus."""

from __future__ import annotations

from functools import partial

from foretell.model.results.text import NOTHING_MATTERS, effect_lines, nothing_matters
from foretell.model.saved.export import formula_text
from foretell.model.saved.model import write_formula
from foretell.model.saved.shares import column_shares
from foretell.report.document import Block, Code, Paragraph, Picture, Section, Table
from foretell.report.findings import Findings
from foretell.report.pictures.bars import draw_bars
from foretell.wording import percent, plain

_MOST_BARS = 20
_MOST_TERMS, _MOST_FORMULA = 12, 20_000


def shares_of(findings: Findings) -> dict[str, float]:
    """Return the share of each column in the predictions; empty if the model has no shares."""
    results, model = findings.results, findings.model
    if results is not None and results.explanation is not None:
        return results.explanation.shares
    if results is not None and results.leaderboard and results.leaderboard[0].shares:
        return results.leaderboard[0].shares
    return {} if model is None else column_shares(model)


def by_share(findings: Findings) -> list[str]:
    """List the columns of the model, those that matter most first."""
    assert findings.model is not None
    shares = shares_of(findings)
    return sorted(findings.model.columns, key=lambda name: -shares.get(name, 0.0))


def explanation_section(findings: Findings) -> Section | None:
    """Say what matters, and give the formula."""
    if findings.model is None:
        return None
    blocks = _shares(findings)
    if findings.results is not None and findings.results.explanation is not None:
        blocks += [Paragraph(line) for line in effect_lines(findings.results.explanation)]
    blocks += _formula(findings)
    return Section("explanation", "What matters", tuple(blocks)) if blocks else None


def _shares(findings: Findings) -> list[Block]:
    shares, results = shares_of(findings), findings.results
    if results is not None and results.explanation and nothing_matters(results.explanation):
        return [Paragraph(NOTHING_MATTERS.capitalize())]
    if not shares:
        assert findings.model is not None
        return [Paragraph("Predictions are the same whatever the columns hold.")]
    shown = dict(list(shares.items())[:_MOST_BARS])
    numbers = Table(
        "Share of each column",
        ("column", "share"),
        tuple((plain(name), percent(share)) for name, share in shares.items()),
    )
    first = next(iter(shares))
    return [
        Picture(
            "shares",
            "Share of each column",
            f"{plain(first)} matters most, with {percent(shares[first])}.",
            partial(draw_bars, shown),
            numbers,
        )
    ]


def _formula(findings: Findings) -> list[Block]:
    results, model = findings.results, findings.model
    assert model is not None
    if results is not None and results.explanation is not None:
        found = results.explanation
        if found.formula is None:
            return []
        text = (
            f"The law nearest to the runs, {plain(found.law)}, explains "
            f"{percent(found.law_explains)} of the variance of their logarithms. The best model "
            "is more accurate than this formula."
        )
        return [Paragraph(text), Code(plain(found.formula, _MOST_FORMULA))]
    terms = model.coefficients()
    if terms is not None and len(terms[0]) > _MOST_TERMS:
        text = f"The model as a formula, the largest {_MOST_TERMS} of its {len(terms[0])} terms:"
        formula: str | None = write_formula(model.target, *terms, most=_MOST_TERMS)
    else:
        text, formula = "The model as a formula:", formula_text(model)
    if formula is None:
        return [Paragraph(f"{plain(model.technique)} has no formula.")]
    return [Paragraph(text), Code(plain(formula, _MOST_FORMULA))]
