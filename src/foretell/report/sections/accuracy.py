"""How good the models are: the leaderboard, predictions of runs held out, errors by distance."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from foretell.report.document import Block, Paragraph, Picture, Section, Table
from foretell.report.findings import Findings
from foretell.report.pictures.errors import Pairs, Rung, draw_ladder, draw_pairs
from foretell.report.results_file import Leader, Results
from foretell.report.units import unit_of
from foretell.report.wording import counted, number, plain, short

if TYPE_CHECKING:
    import pandas as pd

_MOST_DRAWN = 700


def leaderboard_section(findings: Findings) -> Section | None:
    """List the models, best first."""
    results = findings.results
    if results is None:
        return None
    table = _rehearsed_board(results) if results.is_automatic else _campaign_board(results)
    ranking = (
        "The ensemble hears those that vote, each by how it did on the question asked."
        if results.is_automatic
        else "Techniques are ranked by the error on selection splits, which chose them; the error "
        "on validation rows, which chose nothing, is what to expect."
    )
    return Section("leaderboard", "The leaderboard", (Paragraph(ranking), table))


def _rehearsed_board(results: Results) -> Table:
    from foretell.model.automatic.summary import HEADINGS
    from foretell.model.campaigns.summary import percent

    board = [e for e in results.leaderboard if e.status == "ok"]
    asked = [q for q in HEADINGS if any(e.errors.get(q) is not None for e in board)]
    rows = []
    for entry in board:
        seconds = results.times.fit_s.get(entry.technique)
        mark = "best" if entry.technique == results.best else "votes" if entry.votes else "no vote"
        cells = [percent(entry.errors.get(q)) for q in asked]
        fit = "–" if seconds is None else f"{seconds:.1f} s"
        rows.append((plain(entry.technique), *cells, fit, mark))
    header = ("model", *(HEADINGS[q] for q in asked), "fit", "")
    caption = "Mean relative error on runs held out, by where they lie"
    return Table(caption, header, tuple(rows), words=(len(header) - 1,), marked=0)


def _campaign_board(results: Results) -> Table:
    rows = tuple(_validated_row(entry, results) for entry in results.leaderboard)
    unit = unit_of(results.data.target)
    header = (
        "technique", "selection", "validation", "median", "90th pct",
        f"RMSE ({unit})" if unit else "RMSE", "R²", "trials", "hyperparameters",
    )  # fmt: skip
    marked = None if results.best is None else 0
    return Table("Relative errors of each technique", header, rows, words=(8,), marked=marked)


def _validated_row(entry: Leader, results: Results) -> tuple[str, ...]:
    from foretell.model.campaigns.summary import percent

    def mean(name: str) -> float | None:
        found = entry.validation.get(name)
        return None if found is None else found.mean

    mape = entry.validation.get("mape")
    spread = "" if mape is None or mape.spread is None else f" ± {percent(mape.spread)}"
    params = entry.hyperparameters or {}
    settings = ", ".join(f"{plain(k)}={_value(v)}" for k, v in params.items())
    score = (results.campaign or {}).get("score", "mape")
    selection = entry.selection_error
    return (
        plain(entry.technique),
        percent(selection) if score == "mape" else number(selection),
        percent(mean("mape")) + spread,
        percent(mean("median_ape")),
        percent(mean("p90_ape")),
        number(mean("rmse")),
        number(mean("r2")),
        "–" if entry.n_trials is None else str(entry.n_trials),
        settings if entry.status == "ok" else entry.status,
    )


def _value(value: object) -> str:
    return number(value) if isinstance(value, float) else plain(value, 200)


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
        f"{counted(len(held_out), 'prediction')}.{sample} Each question has a marker of its own.",
        partial(draw_pairs, pairs, findings.target),
        numbers,
    )
    text = f"{_points(findings)} Below the line, more was measured than predicted."
    return Section("predicted", "Predicted against measured", (Paragraph(text), picture))


def _points(findings: Findings) -> str:
    if findings.judges_on_training_rows:
        return "Every point is a run that the model was fitted on: new ones are predicted worse."
    if findings.results is not None and not findings.results.is_automatic:
        return (
            "Every point is a validation run, predicted by a model fitted on the training rows of "
            "its split."
        )
    return "Every point is a run that was held out: what predicts it never saw its configuration."


def _asked(held_out: pd.DataFrame) -> dict[str, str]:
    """Return the questions that were asked, in order, with their names."""
    from foretell.model.automatic.summary import HEADINGS

    return {q: name for q, name in HEADINGS.items() if (held_out["question"] == q).any()}


def _by_question(held_out: pd.DataFrame, labels: dict[str, str]) -> Table:
    from foretell.model.campaigns.summary import percent

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
                "The ladder: how errors grow from runs inside the data to runs beyond its range. A "
                "rung is rehearsed by holding out the runs at the end of a column's range."
            ),
            _ladder(rungs),
        ]
    if findings.held_out is not None:
        blocks += by_cut(findings)
        blocks += by_value(findings)
    return Section("errors", "Errors by distance and by column", tuple(blocks)) if blocks else None


def _rungs(findings: Findings) -> list[Rung]:
    from foretell.model.automatic.summary import HEADINGS

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
    from foretell.model.campaigns.summary import percent

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
