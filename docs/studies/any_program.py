"""Predict a program from ever more runs of it, and write the page of the study.

    python docs/studies/any_program.py [--runs FILE] [--page FILE] [--pictures FOLDER] [--quick]

Three campaigns, as in section IV-B of the paper: columns as they are, with derived features, and
with a Bayesian search in place of a grid. Automatic mode stands beside them.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from page import LOOKS, draw_errors, drawing, mape, markdown, open_study, percent

import foretell

TARGET = "wall_time_s"
COLUMNS = ["size_mib", "level", "threads", "block_mib"]
POINTS = (30, 60, 90, 120, 150, 180)
N_TEST = 120
#: Points come in some order, and another order gives other errors: the mean of several is shown.
N_ORDERS = 3
AUGMENTED = {"inverse": ["threads"], "log": ["size_mib", "block_mib"], "product_max_degree": 2}
GRID = {
    "LRRidge": {"alpha": [0.001, 0.01, 0.1, 1, 10, 100]},
    "XGBoost": {
        "n_estimators": [50, 100, 200, 400], "learning_rate": [0.05, 0.2], "max_depth": [3, 6, 10],
    },
    "Stepwise": {},
}  # fmt: skip
PRIORS: dict[str, dict[str, Any]] = {"LRRidge": {}, "XGBoost": {}, "Stepwise": {}}
#: Of each campaign: its features, its search and its techniques.
CAMPAIGNS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "1: base, grid": ({}, {"method": "grid"}, GRID),
    "2: augmented, grid": (AUGMENTED, {"method": "grid"}, GRID),
    "3: augmented, tpe": (AUGMENTED, {"method": "tpe", "evaluations": 10}, PRIORS),
}
AUTOMATIC = "automatic mode"
_MOST_SHOWN = 0.6


def ask(mode: str, training: pd.DataFrame, tests: pd.DataFrame) -> dict[str, float]:
    """Fit on some runs; return the error of each technique on others, and the number of trials."""
    try:
        fit = _fit(mode, training[[*COLUMNS, TARGET]])
    except foretell.ForetellError:
        return {}  # the table shows a dash
    models = {"Automatic": fit.best} if mode == AUTOMATIC else fit.models
    errors = {
        name: mape(tests[TARGET], model.predict(tests[COLUMNS])) for name, model in models.items()
    }
    n_trials = 0 if mode == AUTOMATIC else sum(e["n_trials"] for e in fit.results["leaderboard"])
    return {**errors, "n_trials": n_trials}


def _fit(mode: str, training: pd.DataFrame) -> Any:
    if mode == AUTOMATIC:
        return foretell.fit_model(training, target=TARGET)
    features, search, techniques = CAMPAIGNS[mode]
    campaign = {
        "data": {"target": TARGET},
        "features": {**features, "normalization": True},
        "search": {**search, "splits": {"method": "KFold", "folds": 5}},
        "techniques": techniques,
    }
    return foretell.fit_model(campaign, training)


def analyze(runs: pd.DataFrame, n_orders: int) -> dict[str, pd.DataFrame]:
    """Return for each way to fit the mean errors: one row per number of points."""
    order = np.random.default_rng(0).permutation(len(runs))
    n_tests = min(N_TEST, len(runs) // 3)
    tests, rest = runs.iloc[order[:n_tests]], runs.iloc[order[n_tests:]]
    points = [n for n in POINTS if n <= len(rest)]
    modes = [*CAMPAIGNS, AUTOMATIC]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        jobs = {
            (mode, n, seed): pool.submit(ask, mode, _first(rest, n, seed), tests)
            for mode, n, seed in product(modes, reversed(points), range(n_orders))
        }
        found = pd.DataFrame({key: job.result() for key, job in jobs.items()}).T
    means = found.groupby(level=[0, 1]).mean()
    return {mode: means.loc[mode].dropna(axis=1, how="all") for mode in modes}


def _first(runs: pd.DataFrame, n: int, seed: int) -> pd.DataFrame:
    """Return the first points of an order; more points contain fewer."""
    return runs.iloc[np.random.default_rng([seed]).permutation(len(runs))[:n]]


def summary(errors: dict[str, pd.DataFrame]) -> str:
    """Write one table: a row per technique and campaign, a column per number of points."""
    points = list(errors[AUTOMATIC].index)
    rows = [
        [
            "" if mode == AUTOMATIC else mode,
            LOOKS[str(technique)][0],
            *(percent(error) for error in found[technique]),
            "" if mode == AUTOMATIC else f"{found['n_trials'].mean():.0f}",
        ]
        for mode, found in errors.items()
        for technique in LOOKS
        if technique in found
    ]
    header = ["campaign", "technique", *(f"{n} points" for n in points), "trials"]
    return (
        f"{markdown(header, rows)}\n"
        "*trials* are those of all techniques of a campaign, in one fit.\n\n"
        "![MAPE by the number of profiled points](../pictures/any-program.svg)\n"
    )


def draw(errors: dict[str, pd.DataFrame]) -> plt.Figure:
    """Draw the paper's figures 5 to 7 side by side, with automatic mode in each."""
    with drawing():
        figure, panels = plt.subplots(1, len(CAMPAIGNS), figsize=(10, 3.6), sharey=True)
        for axes, mode in zip(panels, CAMPAIGNS, strict=True):
            both = errors[mode].drop(columns="n_trials").join(errors[AUTOMATIC]["Automatic"])
            places = range(len(both))  # evenly, for the first numbers matter most
            shown = both.set_axis(places)
            draw_errors(shown, f"Campaign {mode}", "profiled points", most=_MOST_SHOWN, axes=axes)
            axes.set_xticks(places, both.index)
        for axes in panels[1:]:
            axes.set_ylabel("")
        handles, labels = panels[0].get_legend_handles_labels()
        for axes in panels:
            axes.get_legend().remove()
        figure.legend(
            handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=5, frameon=False
        )
    return figure


def main() -> None:
    """Read, analyze, write."""
    study = open_study("any-program", "Predict a program from ever more runs of it.")
    errors = analyze(study.table(), 1 if study.is_quick else N_ORDERS)
    study.write(f"{study.facts()}\n\n{summary(errors)}", {"any-program": draw(errors)})


if __name__ == "__main__":
    main()
