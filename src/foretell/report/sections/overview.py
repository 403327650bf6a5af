"""The first screen: what was modeled, how good it is, and how far to trust it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from foretell.errors import listing
from foretell.model.passports.known_errors import KnownError
from foretell.model.passports.questions import BEYOND_QUESTIONS
from foretell.model.results.text import HEADINGS, times, trust_line
from foretell.report.document import Fact
from foretell.report.findings import Findings
from foretell.report.sections.data import why_no_noise
from foretell.wording import counted, percent, plain, short

_COLUMNS_NAMED = 8


def lead(findings: Findings) -> str:
    """Say what predicts what, and from how many runs it was learned."""
    results, model = findings.results, findings.model
    target = plain(findings.target)
    if model is None:
        assert results is not None
        tried = listing(plain(e.technique) for e in results.leaderboard)
        return (
            f"No technique gave a model of {target} from {counted(results.data.n_rows, 'run')} of "
            f"{plain(results.data.name)}. Tried: {tried}."
        )
    columns = listing([short(name) for name in model.columns], _COLUMNS_NAMED)
    named, members = plain(model.technique), model.hyperparameters.get("members")
    if isinstance(members, list) and members:
        named = f"an {model.technique} of {listing(map(plain, members))}"
    text = f"Predicts {target} from {columns}. The model is {named}, learned from "
    if results is None:
        return f"{text}{counted(model.n_rows, 'run')}."
    data = results.data
    runs = f"{model.n_rows:,} of {data.n_rows:,} runs"
    if model.n_rows == data.n_rows:
        runs = counted(model.n_rows, "run")
    of = counted(data.n_configurations, "configuration")
    return f"{text}{runs} of {of} in {plain(data.name)}."


def facts(findings: Findings) -> list[Fact]:
    """Give the figures that answer: how good is it?"""
    results, model = findings.results, findings.model
    found: list[Fact] = []
    if model is not None:
        rehearsed = model.scores.get("rehearsed")
        found += (
            [*_rehearsed(rehearsed), *_furthest(model.errors)]
            if rehearsed
            else _known(
                model.scores.get("validation", {}),
                mape=("off on validation rows", "mean relative error"),
                median_ape=("median error", "half of the validation rows are closer"),
                p90_ape=("90th percentile", "nine in ten validation rows are closer"),
            )
        )
    if results is not None:
        noise, repeats = results.data.noise, results.data.n_rows / results.data.n_configurations
        if noise is None:
            found.append(Fact("noise is not known", "–", why_no_noise(results.data)))
        else:
            remark = "no model of these runs can be better than their noise"
            found.append(Fact(f"noise, {repeats:.3g} repeats each", percent(noise), remark))
    return found


def _rehearsed(errors: dict[str, float | None]) -> list[Fact]:
    return _known(
        errors,
        inside=("off at known values", "a new combination of measured values"),
        between=("off between known values", "the mean over columns"),
    )


def _furthest(known: Sequence[KnownError]) -> list[Fact]:
    """Return the error furthest beyond the data; of several, the largest."""
    beyond = [e for e in known if e.question in BEYOND_QUESTIONS]
    if not beyond:
        return []
    worst = max(beyond, key=lambda e: (BEYOND_QUESTIONS.index(e.question), e.error))
    columns = short(" + ".join(worst.columns))
    label = f"off {times(worst.question)} {worst.direction} {columns}"
    return [Fact(label, percent(worst.error), "the worst of the furthest that were rehearsed")]


def _known(scores: dict[str, float | None], **labels: tuple[str, str]) -> list[Fact]:
    """Return the scores that are known, with their labels and remarks."""
    return [
        Fact(label, percent(scores[name]), remark)
        for name, (label, remark) in labels.items()
        if scores.get(name) is not None
    ]


def trust(findings: Findings) -> str:
    """Say how far to trust it."""
    model, results = findings.model, findings.results
    if model is None:
        return "There is no model to trust: see what failed."
    if results is None or results.is_automatic:
        is_cut = results is not None and results.search_cut_by_time_limit
        return trust_line(model.errors, model.reaches, {}, is_cut=is_cut)
    errors = {} if results.best is None else results.entry(results.best).errors
    if any(errors.get(question) is not None for question in BEYOND_QUESTIONS):
        text = trust_line(model.errors, model.reaches, errors)
    else:
        text = "Errors outside the data are not known: no validation row lies there."
    if findings.held_out is not None:
        text += f" Validation rows: {_asked(findings)}."
    if not model.has_intervals:
        text += (
            f" Its predictions have no intervals: {plain(model.no_intervals or 'no reason given')}."
        )
    return text


def _asked(findings: Findings) -> str:
    """Say where validation rows lie relative to training rows."""
    assert findings.held_out is not None
    held_out = findings.held_out
    counts = Counter(zip(held_out["question"], held_out["column"], strict=True))
    parts = []
    for (question, column), n in counts.most_common(4):
        where = HEADINGS.get(question, plain(question))
        along = f" along {plain(column)}" if column else ""
        parts.append(f"{counted(n, 'run')} {where}{along}")
    return listing(parts)


def notes(findings: Findings) -> list[str]:
    """List what a reader must know to judge the figures."""
    results = findings.results
    said = [] if results is None else [*results.notes, *results.warnings]
    return [plain(text) for text in [*said, *findings.missing]]
