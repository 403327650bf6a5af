"""The part of the study on tuning that predicts how long recorded searches take."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from benchmarks.tune_eta import DATA as DATA
from benchmarks.tune_eta import MODEL, NOTHING, OWN, judge, made_up, read_records
from page import BLUE, ORANGE, drawing, markdown

from foretell.wording import rough_percent

MOMENTS = {0.0: "before the first trial", 0.1: "after a tenth", 0.25: "after a quarter",
            0.5: "half way"}  # fmt: skip
#: Made-up searches: numbers of trials, seeds of each scheduler, and how far off the model is.
SIZES, N_SEEDS, MODEL_ERROR = (16, 64, 256), 8, 0.1


def judged(path: Path, most: int | None = None) -> pd.DataFrame:
    """Return what is said of each recorded search at several moments, and what was true."""
    records = list(read_records([path]))[:most]
    return pd.DataFrame([row for record in records for row in judge(record)])


def table_of_eta(rows: pd.DataFrame) -> str:
    """Return errors and coverage by moment."""
    cells = []
    for share, moment in MOMENTS.items():
        of = rows[rows["after"] == share]
        known, alone, own = (of[of["basis"] == basis] for basis in (MODEL, NOTHING, OWN))
        cells.append([moment, *_told(known), *_told(alone), _told(own)[0],
                      rough_percent(known["mean_error"].median())])  # fmt: skip
    n = len(rows[(rows["after"] == 0.0) & (rows["basis"] == MODEL)])
    names = rows["library"].str.capitalize() + " " + rows["scheduler"]
    header = ["moment", "error with a model", "held by the 90 % interval", "error without a model",
              "held", "chance alone", "error of the mean trial"]  # fmt: skip
    return (
        f"{n} *measured* searches ({', '.join(sorted(set(names)))}) and what `foretell tune eta` "
        "and its callbacks would have said of them (*simulated*, with a model of the epochs of an "
        f"earlier small search, or without). Errors are medians. *Chance alone* is the error with "
        "a model of the search's own epochs, all of them, which nobody has before: which "
        f"configurations are drawn and which trials go on.\n\n{markdown(header, cells)}"
    )


def table_of_measured_sizes(rows: pd.DataFrame) -> str:
    """Return errors by the number of trials of recorded searches."""
    cells = []
    for n_trials, of in rows.groupby("trials"):
        moments = [of[of["after"] == share] for share in (0.0, 0.1)]
        told = [_told(own[own["basis"] == MODEL]) for own in moments]
        chance = [_told(own[own["basis"] == OWN])[0] for own in moments]
        n = len(moments[0][moments[0]["basis"] == MODEL])
        cells.append([str(n_trials), str(n), *told[0], chance[0], *told[1], chance[1]])
    header = ["trials", "searches", "error before the first trial", "held", "chance alone",
              "error after a tenth", "held", "chance alone"]  # fmt: skip
    return f"The same with a model, by the number of trials:\n\n{markdown(header, cells)}"


def table_of_sizes(*, is_quick: bool = False) -> str:
    """Return errors by the number of trials, in made-up searches whose truth is known."""
    sizes, n_seeds = ((16,), 1) if is_quick else (SIZES, N_SEEDS)
    cells = []
    for n_trials in sizes:
        rows = pd.DataFrame([
            row
            for scheduler in ("random", "hyperband", "asha")
            for seed in range(n_seeds)
            for row in judge(*made_up(scheduler, seed, MODEL_ERROR, n_trials), shares=(0.1,))
        ])  # fmt: skip
        known = rows[rows["basis"] == MODEL]
        moments = [known[known["after"] == share] for share in (0.0, 0.1)]
        means = [rough_percent(own["mean_error"].median()) for own in moments]
        cells.append([str(n_trials), *_told(moments[0]), means[0], *_told(moments[1]), means[1]])
    header = ["trials", "error before the first trial", "held", "error of the mean trial",
              "error after a tenth", "held", "error of the mean trial"]  # fmt: skip
    return (
        "The fewer trials, the more chance decides what is drawn and who goes on, which no model "
        f"knows. In made-up searches (*simulated*; random search, HyperBand and ASHA, {n_seeds} "
        f"seeds each, a model that is off by {rough_percent(MODEL_ERROR)}):\n\n"
        f"{markdown(header, cells)}"
    )


def _told(rows: pd.DataFrame) -> list[str]:
    """Write the median error, and how often intervals hold."""
    if rows.empty:
        return ["", ""]
    return [rough_percent(rows["error"].median()), rough_percent(rows["covered"].mean())]


def picture_of_eta(rows: pd.DataFrame) -> plt.Figure:
    """Draw predictions with intervals as multiples of the true time, by moment."""
    with drawing():
        figure, axes = plt.subplots(figsize=(8, 3.6))
        searches = rows.groupby(["library", "scheduler", "workload", "seed", "total_s"], sort=False)
        for i, (_, own) in enumerate(searches):
            known = own[own["basis"] == MODEL]
            for row in known.itertuples():
                place = list(MOMENTS).index(row.after) + 0.8 * (i / max(len(searches) - 1, 1) - 0.5)
                ends = row.lower_s / row.total_s, row.upper_s / row.total_s
                color = BLUE if row.covered else ORANGE
                axes.vlines(place, *ends, color=color, linewidth=1.5)
                axes.plot(place, row.said_s / row.total_s, "o", color=color, markersize=4)
        axes.axhline(1.0, color="#999999", linewidth=1, linestyle="--")
        axes.plot([], [], "o-", color=BLUE, markersize=4, label="the interval holds the true time")
        axes.plot([], [], "o-", color=ORANGE, markersize=4, label="it does not")
        axes.set_xticks(range(len(MOMENTS)), list(MOMENTS.values()))
        axes.set(ylabel="predicted time, of the true one", ylim=(0, None))
        axes.legend(frameon=False, fontsize=8, ncols=2)
        figure.tight_layout()
    return figure
