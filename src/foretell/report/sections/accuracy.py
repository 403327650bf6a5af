"""How good the models are: the leaderboard, predictions of runs held out, errors by distance."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from foretell.model.results.schema import LeaderboardEntry, Results
from foretell.model.results.text import HEADINGS, leaderboard_rows, settings_text
from foretell.report.document import Block, Paragraph, Picture, Section, Table
from foretell.report.findings import Findings
from foretell.report.pictures.errors import Pairs, Rung, draw_ladder, draw_pairs
from foretell.wording import counted, percent, short, unit_of

if TYPE_CHECKING:
    import pandas as pd

_MOST_DRAWN = 700


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
        last = ["hyperparameters", *(_settings(e) for e in results.leaderboard)]
    header, *rows = ([*row, cell] for row, cell in zip([header, *rows], last, strict=True))
    marked = None if results.best is None else 0
    return Table(
        caption, tuple(header), tuple(map(tuple, rows)), words=(len(header) - 1,), marked=marked
    )


def _mark(entry: LeaderboardEntry, results: Results) -> str:
    return "best" if entry.technique == results.best else "votes" if entry.votes else "no vote"


def _settings(entry: LeaderboardEntry) -> str:
    return settings_text(entry.hyperparameters) if entry.status == "ok" else entry.status


def predicted_section(findings: Findings) -> Section | None:
    """Show predictions of runs held out beside what was measured."""
    held_out = findings.held_out
    if held_out is None:
        return None
    labels = _asked(held_out)
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


def _asked(held_out: pd.DataFrame) -> dict[str, str]:
    """Return the questions that were asked, in order, with their names."""
    return {q: name for q, name in HEADINGS.items() if (held_out["question"] == q).any()}


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
    from foretell.report.sections.columns import by_cut, by_value

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
    if findings.held_out is not None:
        blocks += by_cut(findings)
        blocks += by_value(findings)
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
