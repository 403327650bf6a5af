"""Predict the layers of VGG networks from other layers, and write the page of the study.

    python docs/studies/vgg_layers.py [--runs FILE] [--page FILE] [--pictures FOLDER] [--quick]

Three questions, as in section IV-A of the paper: the next layer, all layers that follow, and the
layers of a network that was never run.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pandas as pd
from page import LOOKS, draw_errors, drawing, mape, markdown, open_study, percent

import foretell

TARGET = "forward_s"
COLUMNS = [
    "filter_height", "filter_width", "input_channels", "output_channels", "spatial_size",
    "batch_size", "flops",
]  # fmt: skip
#: The paper's preparation and techniques; it does not print its grids.
CAMPAIGN = {
    "data": {"target": TARGET},
    "features": {"inverse": ["*"], "product_max_degree": 2, "normalization": True},
    "search": {"splits": {"method": "KFold", "folds": 5}},
    "validation": {"method": "HoldOut", "ratio": 0.2},
    "techniques": {
        "LRRidge": {"alpha": [0.001, 0.01, 0.1, 1, 10, 100]},
        "XGBoost": {"n_estimators": [100, 300], "learning_rate": [0.05, 0.2], "max_depth": [3, 6]},
        "Stepwise": {},
    },
}
TRAINED, UNSEEN = "vgg16", "vgg19"
#: What each question is, and what the paper says of it.
ABOUT = {
    "next layer": "The models learn from all layers of VGG16 before a layer, and predict this one. "
    "The paper: the best model of each layer is below 30 % on over 80 % of the layers.",
    "all layers that follow": "The same models predict all layers from this one to the last. "
    "The paper gives no figure in its text; XGBoost is best on average.",
    "unseen network": "The models learn from all of VGG16, and predict each layer of VGG19. "
    "The paper: Ridge and Stepwise never exceed 20 %, XGBoost does not get below 50 %.",
    "unseen network, larger images": "The models learn from the smaller two thirds of the image "
    "sizes on VGG16, and predict VGG19 on the others. The paper does not ask this.",
}
#: The paper's figures 2 to 4: where they are written, and their titles.
PICTURES = {
    "next layer": ("vgg-next-layer", "VGG16: each layer, from those before it"),
    "all layers that follow": (
        "vgg-all-layers",
        "VGG16: this layer and all later ones, from those before",
    ),
    "unseen network": ("vgg-unseen-network", "VGG19, from VGG16"),
}
_MOST_SHOWN = 1.0


def predict(training: pd.DataFrame, tests: pd.DataFrame) -> pd.DataFrame:
    """Fit every technique on some runs, and predict others; NaN where a technique fails."""
    known = training[[*COLUMNS, TARGET]]
    predicted = pd.DataFrame(np.nan, index=tests.index, columns=list(LOOKS))
    fits = {"campaign": (CAMPAIGN, known), "automatic": (known, None)}
    for mode, (first, second) in fits.items():
        try:
            target = TARGET if mode == "automatic" else None
            fit: Any = foretell.fit_model(first, second, target=target)
        except foretell.ForetellError:
            continue  # the table shows a dash
        models = {"Automatic": fit.best} if mode == "automatic" else fit.models
        for technique, model in models.items():
            predicted[technique] = model.predict(tests[COLUMNS])
    return predicted


def questions(
    runs: pd.DataFrame, most_layers: int | None
) -> dict[str, tuple[pd.Series[bool], pd.Series[bool]]]:
    """Return for each fit the rows it learns from, and the rows it is asked about."""
    is_trained, is_unseen = runs["network"] == TRAINED, runs["network"] == UNSEEN
    numbers = sorted(runs.loc[is_trained, "layer"].unique())
    found = {
        f"from {number}": (
            is_trained & (runs["layer"] < number),
            is_trained & (runs["layer"] >= number),
        )
        for number in numbers[1:most_layers]
    }
    found["unseen network"] = (is_trained, is_unseen)
    sizes = sorted(runs["image_size"].unique())
    is_small = runs["image_size"].isin(sizes[: -max(1, len(sizes) // 3)])
    found["unseen network, larger images"] = (is_trained & is_small, is_unseen & ~is_small)
    return found


def analyze(runs: pd.DataFrame, most_layers: int | None) -> dict[str, pd.DataFrame]:
    """Return the errors of each analysis: one row per layer, one column per technique."""
    asked = questions(runs, most_layers)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        jobs = {
            name: pool.submit(predict, runs[training], runs[tests])
            for name, (training, tests) in reversed(asked.items())  # the longest ones first
        }
        predicted = {name: job.result() for name, job in jobs.items()}
    numbers = [int(name.split()[1]) for name in asked if name.startswith("from ")]
    unseen = [name for name in asked if not name.startswith("from ")]
    return {
        "next layer": pd.DataFrame(
            {n: _errors(runs[runs["layer"] == n], predicted[f"from {n}"]) for n in numbers}
        ).T,
        "all layers that follow": pd.DataFrame(
            {n: _errors(runs, predicted[f"from {n}"]) for n in numbers}
        ).T,
        **{
            name: pd.DataFrame(
                {
                    n: _errors(layer, predicted[name])
                    for n, layer in runs[asked[name][1]].groupby("layer")
                }
            ).T
            for name in unseen
        },
    }


def _errors(runs: pd.DataFrame, predicted: pd.DataFrame) -> pd.Series[float]:
    """Return the error of each technique on the runs that were predicted."""
    rows = predicted.index.intersection(runs.index)
    measured = runs.loc[rows, TARGET]
    return pd.Series({t: mape(measured, predicted.loc[rows, t]) for t in predicted})


def summary(analyses: dict[str, pd.DataFrame]) -> str:
    """Write each analysis: what the paper says, a picture, a table of errors."""
    parts = []
    for name, errors in analyses.items():
        text = f"## {name.capitalize()}\n\n{ABOUT[name]}\n\n"
        if name in PICTURES:
            file, title = PICTURES[name]
            text += f"![{title}](../pictures/{file}.svg)\n\n"
        parts.append(text + _table(errors))
    return "\n".join(parts)


def _table(errors: pd.DataFrame) -> str:
    columns = {LOOKS[str(technique)][0]: errors[technique] for technique in errors}
    columns["best of each layer"] = errors.min(axis=1)
    rows = [
        [
            label,
            *map(percent, (values.mean(), values.median(), values.max())),
            *(f"{np.sum(values < bound)} of {len(values)}" for bound in (0.2, 0.3)),
        ]
        for label, values in columns.items()
    ]
    header = ["MAPE by layer", "mean", "median", "worst", "layers < 20 %", "layers < 30 %"]
    return markdown(header, rows)


def draw(analyses: dict[str, pd.DataFrame]) -> dict[str, Any]:
    """Draw the paper's figures 2 to 4."""
    with drawing():
        return {
            file: draw_errors(analyses[name], title, "convolution", most=_MOST_SHOWN)
            for name, (file, title) in PICTURES.items()
        }


def main() -> None:
    """Read, analyze, write."""
    study = open_study("vgg-layers", "Predict the layers of VGG networks.")
    analyses = analyze(study.table(), 2 if study.is_quick else None)
    study.write(
        f"## What was measured\n\n{study.facts('torch')}\n\n{summary(analyses)}", draw(analyses)
    )


if __name__ == "__main__":
    main()
