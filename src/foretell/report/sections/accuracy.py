"""How good the models are: the leaderboard, runs held out, errors by distance and by column."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd

from foretell.model.passports.known_errors import KnownError
from foretell.model.results.schema import LeaderboardEntry, Results
from foretell.model.results.text import HEADINGS, column_rows, leaderboard_rows, settings_text
from foretell.report.document import Block, Paragraph, Picture, Section, Table
from foretell.report.findings import Findings
from foretell.report.pictures.errors import (
    ErrorsOf,
    Pairs,
    Rung,
    draw_errors_of,
    draw_ladder,
    draw_pairs,
)
from foretell.report.sections.explanation import by_share
from foretell.wording import counted, number, percent, plain, short, unit_of

_MOST_DRAWN = 700
_MOST_PANELS = 6
_MOST_VALUES, _N_BINS = 10, 5


def leaderboard_section(findings: Findings) -> Section | None:
    """List the models, best first."""
    results = findings.results
    if results is None:
        return None
    ranking = (
        "The ensemble combines the models that vote, weighted by their rehearsed error on the "
        "question asked."
        if results.is_automatic
        else "Techniques are ranked by the error on selection splits, which chose them; the error "
        "on validation rows, which chose nothing, is what to expect."
    )
    return Section("leaderboard", "The leaderboard", (Paragraph(ranking), _board(results)))


def _board(results: Results) -> Table:
    header, *rows = leaderboard_rows(results)
    if results.is_automatic:
        caption = "Mean relative error on runs held out, by where they lie"
        last = ["", *(_mark(e, results) for e in results.models)]
    else:
        caption = "Relative errors of each technique"
        unit = unit_of(results.data.target)
        header = [f"{name} ({unit})" if unit and name == "RMSE" else name for name in header]
        last = ["hyperparameters"]
        last += [
            settings_text(e.hyperparameters) if e.status == "ok" else e.status
            for e in results.leaderboard
        ]
    header, *rows = ([*row, cell] for row, cell in zip([header, *rows], last, strict=True))
    marked = None if results.best is None else 0
    return Table(
        caption, tuple(header), tuple(map(tuple, rows)), words=(len(header) - 1,), marked=marked
    )


def _mark(entry: LeaderboardEntry, results: Results) -> str:
    return "best" if entry.technique == results.best else "votes" if entry.votes else "no vote"


def predicted_section(findings: Findings) -> Section | None:
    """Show predictions of runs held out beside what was measured."""
    held_out = findings.held_out
    if held_out is None:
        return None
    labels = {q: name for q, name in HEADINGS.items() if (held_out["question"] == q).any()}
    drawn = held_out
    if len(held_out) > _MOST_DRAWN:
        drawn = held_out.iloc[np.linspace(0, len(held_out) - 1, _MOST_DRAWN).astype(int)]
    pairs = [
        Pairs(label, of["measured"].to_numpy(), of["predicted"].to_numpy())
        for question, label in labels.items()
        if len(of := drawn[drawn["question"] == question])
    ]
    numbers = _by_question(held_out, labels)
    sample = f" {_MOST_DRAWN} of them are drawn." if len(held_out) > _MOST_DRAWN else ""
    picture = Picture(
        "predicted-against-measured",
        f"Predicted against measured {short(findings.target)}",
        f"{counted(len(held_out), 'prediction')}.{sample} Each question has its own marker.",
        partial(draw_pairs, pairs, findings.target),
        numbers,
    )
    text = f"{_points(findings)} Below the line, more was measured than predicted."
    return Section("predicted", "Predicted against measured", (Paragraph(text), picture))


def _points(findings: Findings) -> str:
    if findings.judges_on_training_rows:
        return "Every point is a run that the model was fitted on; errors on new runs are larger."
    if findings.results is not None and not findings.results.is_automatic:
        return (
            "Every point is a validation run, predicted by a model fitted on the training rows of "
            "its split."
        )
    return "Every point is a run held out: the model that predicts it never saw its configuration."


def _by_question(held_out: pd.DataFrame, labels: dict[str, str]) -> Table:
    rows = []
    for question, label in labels.items():
        of = held_out[held_out["question"] == question]
        signed = float((of["predicted"] / of["measured"] - 1).median())
        rows.append(
            (
                label,
                str(len(of)),
                percent(of["error"].mean()),
                percent(of["error"].median()),
                percent(float(of["error"].quantile(0.9))),
                f"{'+' if signed > 0 else '−'}{percent(abs(signed))}",
            )
        )
    header = ("where the run lies", "predictions", "mean error", "median", "90th pct", "bias")
    return Table("Relative errors on runs held out", header, tuple(rows))


def ladder_section(findings: Findings) -> Section | None:
    """Show errors by distance, and by column."""
    rungs = _rungs(findings)
    blocks: list[Block] = []
    if len(rungs) > 1:
        blocks += [
            Paragraph(
                "How errors grow from runs inside the data to runs beyond its range. Runs beyond "
                "the range are rehearsed by holding out those at the end of a column's range."
            ),
            _ladder(rungs),
        ]
    if findings.model is not None:
        blocks += _by_column(findings.model.errors)
    if findings.held_out is not None:
        blocks += _by_value(findings)
    return Section("errors", "Errors by distance and by column", tuple(blocks)) if blocks else None


def _rungs(findings: Findings) -> list[Rung]:
    held_out, results, model = findings.held_out, findings.results, findings.model
    if model is None:
        return []
    own = model.scores.get("rehearsed") or {}
    if not own and held_out is not None:
        means = held_out.groupby("question")["error"].mean()
        own = {str(question): float(mean) for question, mean in means.items()}
    board = results.leaderboard[1:] if results is not None else []
    rungs = []
    for question, label in HEADINGS.items():
        mean = own.get(question)
        if mean is None:
            continue
        middle = None
        if held_out is not None and len(of := held_out[held_out["question"] == question]):
            low, median, high = of["error"].quantile([0.1, 0.5, 0.9])
            middle = (float(low), float(median), float(high))
        others = tuple(e for entry in board if (e := entry.errors.get(question)) is not None)
        rungs.append(Rung(label, float(mean), middle, others))
    return rungs


def _ladder(rungs: list[Rung]) -> Picture:
    rows = [
        (
            r.label,
            percent(r.mean),
            *(percent(v) for v in r.middle or (None, None, None)),
            percent(min(r.others, default=None)),
        )
        for r in rungs
    ]
    header = ("where the run lies", "mean", "10th pct", "median", "90th pct", "best other model")
    described = "; ".join(f"{r.label} {percent(r.mean)}" for r in rungs)
    return Picture(
        "error-by-distance",
        "Relative error by distance from the data",
        f"Mean relative error: {described}.",
        partial(draw_ladder, rungs),
        Table("Relative errors by distance", header, tuple(rows)),
    )


def _by_column(known: Sequence[KnownError]) -> list[Block]:
    """Tabulate errors by the column along which runs were held out."""
    header, *rows = column_rows(known)
    caption = "Mean relative error along each column, and the number of predictions"
    return [Table(caption, tuple(header), tuple(map(tuple, rows)), words=(1,))] if rows else []


def _by_value(findings: Findings) -> list[Block]:
    """Draw errors by the value of each column that matters."""
    held_out, runs, model = findings.held_out, findings.runs, findings.model
    assert held_out is not None and model is not None
    assert runs is not None
    inside = held_out[held_out["question"] == "inside"]
    chosen = inside if len(inside) else held_out
    where = "runs at known values" if len(inside) else "all runs held out"
    shown = [
        of
        for name in by_share(findings)
        if (of := _errors_of(name, chosen, runs, is_number=name in model.ranges)) is not None
    ][:_MOST_PANELS]
    if not shown:
        return []
    rows = [
        (plain(e.column), label, str(n), percent(median), percent(p90))
        for e in shown
        for label, n, median, p90 in zip(e.labels, e.n_runs, e.median, e.p90, strict=True)
    ]
    header = ("column", "value", "predictions", "median error", "90th pct")
    return [
        Picture(
            "error-by-column",
            f"Relative error by the value of each column, {where}",
            f"One panel for each of {', '.join(plain(e.column) for e in shown)}; all to one scale.",
            partial(draw_errors_of, shown),
            Table("Relative errors by value", header, tuple(rows), words=(1,)),
        )
    ]


def _errors_of(
    name: str, held_out: pd.DataFrame, runs: pd.DataFrame, *, is_number: bool
) -> ErrorsOf | None:
    values = runs[name].to_numpy()[held_out["row"]]
    distinct = np.unique(values.astype(float) if is_number else values.astype(str))
    if len(distinct) < 2 or (len(distinct) > _MOST_VALUES and not is_number):
        return None
    if is_number and len(distinct) > _MOST_VALUES:
        edges = np.unique(np.quantile(values.astype(float), np.linspace(0, 1, _N_BINS + 1)))
        group = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
        labels = [f"{number(a, 2)}–{number(b, 2)}" for a, b in pairwise(edges)]
    else:
        group = np.searchsorted(distinct, values.astype(distinct.dtype))
        labels = [number(v) if is_number else plain(v) for v in distinct]
    errors = held_out["error"].groupby(group)
    present = np.unique(group)
    return ErrorsOf(
        name,
        tuple(labels[int(i)] for i in present),
        errors.median().to_numpy(),
        errors.quantile(0.9).to_numpy(),
        errors.size().to_numpy().astype(np.int64),
    )
