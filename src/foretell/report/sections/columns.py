"""Errors by column: along which column runs leave the data, and at which of its values."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from foretell.model.results.text import HEADINGS
from foretell.report.document import Block, Picture, Table
from foretell.report.findings import Findings
from foretell.report.pictures.errors import ErrorsOf, draw_errors_of
from foretell.wording import number, percent, plain

if TYPE_CHECKING:
    import pandas as pd

_MOST_PANELS = 6
_MOST_VALUES, _N_BINS = 10, 5


def by_cut(findings: Findings) -> list[Block]:
    """Tabulate errors by the column along which runs were held out."""
    held_out = findings.held_out
    assert held_out is not None
    cut = held_out[held_out["column"] != ""]
    if cut.empty:
        return []
    asked = [q for q in HEADINGS if (cut["question"] == q).any()]
    rows = []
    for column, direction in sorted(set(zip(cut["column"], cut["direction"], strict=True))):
        of = cut[(cut["column"] == column) & (cut["direction"] == direction)]
        cells = []
        for question in asked:
            errors = of.loc[of["question"] == question, "error"]
            cells.append(f"{percent(errors.mean())} ({len(errors)})" if len(errors) else "–")
        rows.append((plain(column), direction or "–", *cells))
    header = ("column", "side", *(HEADINGS[q] for q in asked))
    caption = "Mean relative error along each column, and the number of predictions"
    return [Table(caption, header, tuple(rows), words=(1,))]


def by_value(findings: Findings) -> list[Block]:
    """Draw errors by the value of each column that matters."""
    from foretell.report.sections.explanation import by_share

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
