"""Results for people: the leaderboard, the law, what matters, and how far to trust a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from foretell.errors import listing
from foretell.model.passports.known_errors import KnownError
from foretell.model.passports.questions import (
    BEYOND_QUESTIONS,
    FURTHER,
    QUESTIONS,
    questions_within,
)
from foretell.model.results.schema import Explanation, LeaderboardEntry, Results, Spread
from foretell.wording import counted, percent, plain

if TYPE_CHECKING:
    import pandas as pd

#: What a question is called at the head of a column. *inside* is a word of trust, and there it
#: includes *between*.
HEADINGS = {q: q.replace("x", "× beyond") if q in BEYOND_QUESTIONS else q for q in QUESTIONS}
HEADINGS |= {"inside": "known values", FURTHER: "further out"}
_TOP_SHARES, _TOP_TERMS, _TOP_COLUMNS = 6, 6, 8
_BEARABLE = 0.25  # mean relative error up to which a prediction is of use
#: Share of the variance that a model must explain on held-out runs before its columns matter.
_LEAST_EXPLAINED = 0.05
NOTHING_MATTERS = (
    "no column, as far as these runs show. On held-out runs, the model is hardly better than a "
    "constant."
)
_SCORES = ("mape", "rmse", "r2", "median_ape", "p90_ape")
_MOST_LINE = 20_000

Rows = list[list[str]]


def leaderboard_frame(results: Results) -> pd.DataFrame:
    """Return one row per technique, best first, errors as fractions."""
    import pandas as pd

    return pd.DataFrame([_frame_row(results, entry) for entry in results.leaderboard])


def _frame_row(results: Results, entry: LeaderboardEntry) -> dict[str, Any]:
    row: dict[str, Any] = {"technique": entry.technique, "status": entry.status}
    errors = {f"error_{q}".replace(" ", "_"): entry.errors.get(q) for q in QUESTIONS}
    if results.is_automatic:
        fit_s = results.times.fit_s.get(entry.technique)
        return {**row, **errors, "fit_s": fit_s, "reason": entry.reason}
    row["selection_error"] = entry.selection_error
    for name in _SCORES:
        row[f"validation_{name}"] = _mean(entry.validation, name)
        row[f"validation_{name}_spread"] = _spread(entry.validation, name)
    row["training_mape"] = _mean(entry.training, "mape")
    return {
        **row,
        **errors,
        "n_trials": entry.n_trials,
        "hyperparameters": settings_text(entry.hyperparameters),
        "reason": entry.reason,
    }


def results_text(results: Results, *, details: bool = False) -> str:
    """Write the leaderboard and the best model; with details, the model of every technique."""
    parts = [data_line(results), "", _leaderboard_text(results), ""]
    parts += list(_model_lines(results, details=details))
    without = [e for e in results.leaderboard if e.status != "ok"]
    parts += [f"{e.technique} gave no model: {e.reason}" for e in without]
    parts += [f"Note: {note}" for note in results.notes]
    parts += [f"Warning: {warning}" for warning in results.warnings] if details else []
    return "\n".join(parts) + "\n"


def data_line(results: Results) -> str:
    """Describe the table in one line."""
    data = results.data
    columns = [plain(name) for name in data.columns]
    text = f"{counted(data.n_rows, 'run')}, {counted(len(columns), 'column')} "
    text += f"({listing(columns, _TOP_COLUMNS)})"
    if not results.is_automatic:
        text += f", {counted(data.n_features, 'feature')}"
    text += f"; {counted(data.n_configurations, 'configuration')}"
    if data.n_rows > data.n_configurations:
        text += f", {data.n_rows / data.n_configurations:.3g} repeats each"
    if data.noise is not None:
        text += f", noise {percent(data.noise)}"
    if data.n_lower_bounds:
        stopped = counted(data.n_lower_bounds, "more run")
        text += f"; {stopped} stopped at a time limit, used as lower bounds"
    return text


def _leaderboard_text(results: Results) -> str:
    header, *rows = leaderboard_rows(results)
    board = results.models if results.is_automatic else results.leaderboard
    marks = [_mark(results, entry) for entry in board]
    return align(
        [["relative error", *header[1:], ""], *([*r, m] for r, m in zip(rows, marks, strict=True))]
    )


def _mark(results: Results, entry: LeaderboardEntry) -> str:
    if entry.technique == results.best:
        return "← best"
    if results.is_automatic:
        return "" if entry.votes else "no vote"
    return entry.status.replace("ok", "")


def leaderboard_rows(results: Results) -> Rows:
    """Return the leaderboard as text, its header first.

    Automatic mode lists its models by their errors on each question; a campaign lists every
    technique by its scores.
    """
    return _rehearsed_rows(results) if results.is_automatic else _validated_rows(results)


def _rehearsed_rows(results: Results) -> Rows:
    board = results.models
    asked = asked_questions([e.errors for e in board])
    rows = [["model", *(HEADINGS[q] for q in asked), "fit"]]
    for entry in board:
        seconds = results.times.fit_s.get(entry.technique)
        fit = "–" if seconds is None else f"{seconds:.1f} s"
        rows.append([plain(entry.technique), *(percent(entry.errors.get(q)) for q in asked), fit])
    return rows


def _validated_rows(results: Results) -> Rows:
    is_relative = results.campaign.get("score", "mape") == "mape"
    rows = [["technique", "selection", "validation", "median", "90th pct", "RMSE", "R²", "trials"]]
    for entry in results.leaderboard:
        scores = entry.validation
        error, spread = entry.selection_error, _spread(scores, "mape")
        spread_text = "" if spread is None else f" ± {percent(spread)}"
        rows.append(
            [
                plain(entry.technique),
                percent(error) if is_relative else _number(error),
                percent(_mean(scores, "mape")) + spread_text,
                percent(_mean(scores, "median_ape")),
                percent(_mean(scores, "p90_ape")),
                _number(_mean(scores, "rmse")),
                _number(_mean(scores, "r2")),
                str(entry.n_trials),
            ]
        )
    return rows


def asked_questions(errors: Sequence[Mapping[str, float | None]]) -> list[str]:
    """List the questions that some run asked, from inside the data to far outside."""
    return [q for q in QUESTIONS if any(e.get(q) is not None for e in errors)]


def align(rows: Rows) -> str:
    """Write a table: the first column to the left, numbers to the right.

    A last column without a heading holds marks, which stand to the left.
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        if not rows[0][-1]:
            cells[-1] = row[-1]
        lines.append("   ".join(cells).rstrip())
    return "\n".join(lines)


def _model_lines(results: Results, *, details: bool) -> Iterator[str]:
    """Describe the best model, or with details every model, and how far to trust the best."""
    if results.explanation is not None:
        yield from explanation_lines(results.explanation)
    # An ensemble has an explanation instead.
    described = [] if results.explanation else results.models[: None if details else 1]
    for i, entry in enumerate(described):
        yield from [""] * (i > 0)
        yield from _technique_lines(entry, results.data.target, None if details else _TOP_TERMS)
    errors = results.leaderboard[0].errors
    if results.is_automatic or any(errors.get(q) is not None for q in BEYOND_QUESTIONS):
        yield trust_line(
            results.errors_by_column,
            results.reaches,
            {} if results.is_automatic else errors,
            is_cut=results.search_cut_by_time_limit,
        )


def explanation_lines(found: Explanation) -> Iterator[str]:
    """Give the law, the columns that matter, the products, and where columns stop to matter."""
    if found.formula:
        yield f"{plain(found.formula, _MOST_LINE)}   (explains {percent(found.law_explains)})"
    if nothing_matters(found):
        yield f"What matters: {NOTHING_MATTERS}"
    elif found.shares:
        yield f"What matters: {_shares_text(found.shares)}."
    yield from effect_lines(found)


def nothing_matters(found: Explanation) -> bool:
    """Whether the model is hardly better than a constant, so that shares of it say nothing."""
    return found.explains is not None and found.explains < _LEAST_EXPLAINED


def effect_lines(found: Explanation) -> Iterator[str]:
    """Name columns without effect, cliffs, products that matter, and where columns stop to."""
    if nothing_matters(found):
        return
    if found.without_effect:
        yield f"No effect was found of {listing(map(plain, found.without_effect), _TOP_SHARES)}."
    for cliff in found.cliffs:
        where = f"A cliff: once {plain(cliff.product)} reaches about {cliff.value:.3g}, "
        if cliff.factor is None:
            yield f"{where}nearly all runs were stopped at a time limit."
        else:
            yield f"{where}everything takes {cliff.factor:.2g} × as much."
    for a, b in found.totals:
        yield f"The product {plain(a)} × {plain(b)} explains what neither column does alone."
    for plateau in found.plateaus:
        yield f"{plain(plateau.column)} stops mattering beyond about {plateau.value:g}."


def _technique_lines(entry: LeaderboardEntry, target: str, most_terms: int | None) -> Iterator[str]:
    from foretell.model.saved.model import write_formula

    yield f"{entry.technique}({settings_text(entry.hyperparameters)})"
    if entry.coefficients is not None and entry.intercept is not None:
        formula = write_formula(target, entry.coefficients, entry.intercept, most=most_terms)
        yield f"  {plain(formula, _MOST_LINE)}"
    if entry.shares:
        yield f"  what matters: {_shares_text(entry.shares)}"
    for note in entry.notes:
        yield f"  {plain(note)}"


def _shares_text(shares: Mapping[str, float]) -> str:
    return listing((f"{plain(n)} {percent(s)}" for n, s in shares.items()), _TOP_SHARES)


def settings_text(params: Mapping[str, Any] | None) -> str:
    """Write hyperparameters as in a call."""
    return ", ".join(
        f"{plain(k)}={f'{v:.6g}' if isinstance(v, float) else plain(v, 200)}"
        for k, v in (params or {}).items()
    )


def column_rows(known: Sequence[KnownError]) -> Rows:
    """Return a table of errors along columns: its head, and a row for each column and side."""
    cut = [error for error in known if error.columns]
    asked = [q for q in QUESTIONS if any(error.question == q for error in cut)]
    rows = [["along", "side", *(HEADINGS[q] for q in asked)]]
    for columns, direction in sorted({(error.columns, error.direction) for error in cut}):
        of = {e.question: e for e in cut if (e.columns, e.direction) == (columns, direction)}
        cells = [f"{percent(of[q].error)} ({of[q].n_runs})" if q in of else "–" for q in asked]
        rows.append([plain(" + ".join(columns)), direction or "–", *cells])
    return rows


def trust_line(
    known: Sequence[KnownError],
    reaches: Mapping[str, Sequence[float]],
    errors: Mapping[str, float | None],
    *,
    is_cut: bool = False,
) -> str:
    """Say along which columns, on which side and how far outside the data errors are bearable.

    Parameters
    ----------
    known
        The mean errors on runs held out.
    reaches
        How far below and above its range each column has enough such runs, as ratios.
    errors
        The mean errors by question alone, for models of which no more is known.
    """
    parts = list(_by_column(known, reaches))
    pooled = [(q, e) for q in BEYOND_QUESTIONS if (e := errors.get(q)) is not None]
    if not parts and pooled:
        return f"Outside the data, over all columns: {_one_way(pooled, 'beyond')}."
    if not parts:
        why = (
            "the time limit left no rehearsal" if is_cut else "no column has enough values to tell"
        )
        return f"Errors outside the data are not known: {why}."
    told = {name for error in known if error.direction for name in error.columns}
    others = listing([plain(name) for name in reaches if name not in told], _TOP_COLUMNS)
    unknown = f" Errors along {others} are not known." if others else ""
    return f"Outside the data: {'; '.join(parts)}.{unknown}"


def _by_column(
    known: Sequence[KnownError], reaches: Mapping[str, Sequence[float]]
) -> Iterator[str]:
    """Say of each column how far errors are bearable above and below its range."""
    for columns in dict.fromkeys(e.columns for e in known if e.direction):
        ways = []
        for way, word, side in ((1, "more", "above"), (0, "less", "below")):
            within = questions_within(max(reaches.get(n, (1.0, 1.0))[way] for n in columns))
            found = {
                e.question: e.error for e in known if e.columns == columns and e.direction == side
            }
            rungs = [(question, found[question]) for question in within if question in found]
            ways += [_one_way(rungs, word)] if rungs else []
        if ways:
            yield f"{plain(' + '.join(columns))} {', '.join(ways)}"


def _one_way(rungs: Sequence[tuple[str, float]], word: str) -> str:
    """Say how far errors are bearable on one side of the range, and where they no longer are."""
    bearable = list(takewhile(lambda rung: rung[1] <= _BEARABLE, rungs))
    if not bearable:
        question, error = rungs[0]
        return f"not {word} ({percent(error)} off at {times(question)})"
    question, error = bearable[-1]
    text = f"up to {times(question)} {word} ({percent(error)} off)"
    if len(bearable) < len(rungs):
        question, error = rungs[len(bearable)]
        text += f" but not {times(question)} ({percent(error)})"
    return text


def times(question: str) -> str:
    """Write how far beyond the range a question lies: ``1.5x`` as ``1.5×``."""
    return question.replace("x", "×")


def _mean(scores: Mapping[str, Spread], name: str) -> float | None:
    return scores[name].mean if name in scores else None


def _spread(scores: Mapping[str, Spread], name: str) -> float | None:
    return scores[name].spread if name in scores else None


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
