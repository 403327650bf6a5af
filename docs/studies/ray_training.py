"""Predict distributed training on Ray as the paper does, and write the page of the study.

    python docs/studies/ray_training.py [--runs FILE] [--page FILE] [--pictures FOLDER] [--quick]

The paper's Table III on runs of our own: hold-out, interpolation and extrapolation along the number
of CPUs and of images, for four stages; the paper's four techniques, and automatic mode beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from page import BLUE, GREEN, ORANGE, drawing, mape, markdown, open_study, percent

import foretell

COLUMNS = ["model", "num_images", "batch_size", "workers", "num_cpus"]
#: The stages of the paper's Figure 2, and the launcher whose runs tell their time.
STAGES = {
    "train_s": "trainer",
    "fit_s": "trainer",
    "training_loop_s": "actors",
    "train_epoch_s": "actors",
}
#: The grids of the paper's Table II; of the decision tree's, criterion and max_features are fixed.
TECHNIQUES = {
    "XGBoost": {
        "min_child_weight": [1, 3], "gamma": [0, 1], "n_estimators": [50, 150],
        "learning_rate": [0.01, 0.05, 0.1], "max_depth": [1, 5, 10],
    },
    "LRRidge": {"alpha": [0.01, 0.1, 1]},
    "DecisionTree": {
        "criterion": "mse", "max_depth": [3, 5, 10, 20], "max_features": "auto",
        "min_samples_split": [0.01, 0.1, 0.2, 0.5], "min_samples_leaf": [0.01, 0.05, 0.1, 0.2, 0.3],
    },
    "RandomForest": {
        "n_estimators": [10, 50, 200], "criterion": "mae", "max_depth": [3, 10],
        "max_features": "auto", "min_samples_split": [0.1, 0.5], "min_samples_leaf": [1, 4],
    },
}  # fmt: skip


@dataclass(frozen=True)
class Question:
    """A line of the paper's Table III: which runs are asked about, and what the paper says."""

    name: str
    paper: tuple[str, str, str, str]
    has_products: bool = False

    def tests(self, runs: pd.DataFrame) -> Any:
        """Mark the runs that models do not see."""
        if self.name == "HoldOut 20 %":
            return np.random.default_rng(0).permutation(len(runs)) < len(runs) // 5
        column, _, words = self.name.partition(" ")
        if words.startswith(">"):
            return (runs[column] > float(words[1:])).to_numpy()
        return runs[column].isin([float(word) for word in words.split(" and ")]).to_numpy()


QUESTIONS = [
    Question("HoldOut 20 %", ("6.41 %", "6.71 %", "1.07 %", "1.89 %")),
    Question("num_cpus 2", ("5.44 %", "6.89 %", "9.68 %", "10.73 %")),
    Question("num_images 1000 and 4000", ("–", "–", "–", "–"), has_products=True),
    Question("num_cpus >2", ("14.54 %", "15.92 %", "12.79 %", "13.47 %")),
    Question("num_images >2000", ("–", "–", "3.85 %", "3.76 %"), has_products=True),
]


def campaign(stage: str, question: Question) -> dict[str, Any]:
    """Return the paper's campaign."""
    scaled = ["workers", "num_cpus", "num_images"]
    products = {"product_max_degree": 2} if question.has_products else {}
    return {
        "data": {"target": stage},
        "features": {"inverse": scaled, "log": scaled, **products},
        "search": {"splits": {"method": "KFold", "folds": 5}, "racing": True},
        "techniques": TECHNIQUES,
    }


def ask(stage: str, question: Question, runs: pd.DataFrame) -> dict[str, float]:
    """Return the errors of the paper's way and of automatic mode on runs that neither saw."""
    held = question.tests(runs)
    training, tests = runs[~held][[*COLUMNS, stage]], runs[held]
    fits: dict[str, Any] = {
        "paper": foretell.fit_model(campaign(stage, question), training.reset_index(drop=True)),
        "automatic": foretell.fit_model(training.reset_index(drop=True), target=stage),
    }
    found = {way: mape(tests[stage], fit.predict(tests[COLUMNS])) for way, fit in fits.items()}
    forecast = fits["automatic"].forecast(tests[COLUMNS])
    inside = (forecast.lower <= tests[stage]) & (tests[stage] <= forecast.upper)
    return {**found, "coverage": float(inside.mean())}


def analyze(
    runs: dict[str, pd.DataFrame], questions: Sequence[Question]
) -> dict[tuple[str, str], dict[str, float]]:
    """Ask each question about every stage whose runs are there."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        jobs = {
            (question.name, stage): pool.submit(ask, stage, question, runs[launcher])
            for question in questions
            for stage, launcher in STAGES.items()
            if launcher in runs
        }
        return {key: job.result() for key, job in jobs.items()}


def summary(found: dict[tuple[str, str], dict[str, float]]) -> str:
    """Write one table: for each question the paper's figures, its techniques here, and ours."""
    rows = []
    for question in QUESTIONS:
        cells = {
            way: [percent(found.get((question.name, s), {}).get(way, np.nan)) for s in STAGES]
            for way in ("paper", "automatic", "coverage")
        }
        rows.append([question.name, "the paper, on its data", *question.paper])
        rows.append(["", "its techniques, here", *cells["paper"]])
        rows.append(["", "**automatic mode, here**", *(f"**{c}**" for c in cells["automatic"])])
        rows.append(["", "share its 90 % intervals hold", *cells["coverage"]])
    return markdown(["asked about", "MAPE of", *(s.removesuffix("_s") for s in STAGES)], rows)


def draw(runs: pd.DataFrame) -> plt.Figure:
    """Draw the time of an epoch against images, for each number of workers and both models."""
    looks = {1: ("o", BLUE), 2: ("s", ORANGE), 4: ("^", GREEN)}
    with drawing():
        figure, panels = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True)
        for axes, model in zip(panels, ("small", "large"), strict=True):
            own = runs[runs["model"] == model]
            for workers, (marker, color) in looks.items():
                some = own[(own["workers"] == workers) & (own["batch_size"] == 64)]
                mean = some.groupby("num_images")["train_epoch_s"].mean()
                plural = "worker" if workers == 1 else "workers"
                axes.loglog(mean.index, mean, marker=marker, color=color, fillstyle="none",
                            label=f"{workers} {plural}")  # fmt: skip
            images = sorted(runs["num_images"].unique())
            axes.set_xticks(images, [f"{n:,}" for n in images])
            axes.set_yticks([0.2, 0.5, 1, 2, 5], ["0.2", "0.5", "1", "2", "5"])
            axes.minorticks_off()
            axes.set(xlabel="images", title=f"{model} model, batches of 64")
            axes.title.set(fontsize=10)
        panels[0].set_ylabel("one epoch, s")
        panels[0].legend(frameon=False)
    return figure


def main() -> None:
    """Read, analyze, write."""
    study = open_study("ray-training", "Predict distributed training on Ray.", table="actors.csv")
    runs = {"actors": study.table()}
    facts = [f"With actors: {study.facts('ray', 'torch')}"]
    trainer = study.beside("runs.csv")
    if trainer.runs.exists():
        runs["trainer"] = trainer.table()
        facts.append(f"With Ray Train: {trainer.facts('ray', 'torch')}")
    questions = QUESTIONS[:1] if study.is_quick else QUESTIONS
    text = "\n\n".join([*facts, summary(analyze(runs, questions))])
    picture = "![Time of an epoch against images](../pictures/ray-training.svg)\n"
    study.write(f"{text}\n{picture}", {"ray-training": draw(runs["actors"])})


if __name__ == "__main__":
    main()
