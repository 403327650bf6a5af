"""Errors by question: as rehearsed in a fit, or on runs measured later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from foretell.errors import DatasetError, ModelError
from foretell.model.automatic.rehearsal import (
    mean_by_question,
    rank,
)
from foretell.model.automatic.summary import HEADINGS
from foretell.model.automatic.vote import relative_error
from foretell.model.campaigns.summary import align, percent
from foretell.model.directory import BEST
from foretell.model.features.feature_map import as_numbers
from foretell.model.passports.passport import places
from foretell.model.passports.questions import QUESTIONS, question_names
from foretell.model.saved.model import Configurations, SavedModel, load_model

Scores = dict[str, Any]


def rehearsed_errors(path: Path) -> Scores:
    """Return the errors of every model of a directory, or of one model, from its rehearsals."""
    if path.is_dir():
        return _scores(_of_directory(path), "rehearsed")
    model = load_model(path)
    errors = model.scores.get("rehearsed")
    if errors is None:
        raise _not_rehearsed(path)
    return _scores({_name(path, model): errors}, "rehearsed")


def _of_directory(path: Path) -> dict[str, dict[str, float | None]]:
    """Return the errors of the best model of a directory, then of the others."""
    files = sorted(path.glob("*.foretell"))
    found = {file.stem: load_model(file).scores.get("rehearsed") for file in files}
    best = load_model(path).technique
    errors = {name: of for name, of in found.items() if of is not None and name != Path(BEST).stem}
    if not errors:
        raise _not_rehearsed(path)
    ranked = sorted(errors.items(), key=lambda item: (item[0] != best, rank(item[1])))
    return dict(ranked)


def _not_rehearsed(path: Path) -> ModelError:
    return ModelError(
        f"{path} was not rehearsed beyond its data: it comes from a campaign, whose "
        "leaderboard says how it did. Give a table of measured runs to score it on: "
        f"foretell score {path} runs.csv"
    )


def score_rows(path: Path, data: Path) -> Scores:
    """Return the errors of a model on measured runs, by where these lie."""
    model = load_model(path)
    dataset = model.configurations(data)
    dataset.require([model.target])
    truth = as_numbers(dataset.frame[model.target])
    if not (np.isfinite(truth) & (truth > 0)).all():
        raise DatasetError(f"{data}, column '{model.target}' must be positive in every row")
    errors = relative_error(np.log(model.predict(dataset)), np.log(truth))
    kinds = _questions(model, dataset)
    found = mean_by_question([errors], [kinds], QUESTIONS)
    scores = _scores({_name(path, model): found}, "measured")
    counts = {name: int((kinds == name).sum()) for name in QUESTIONS}
    return scores | {"n_rows": counts}


def _name(path: Path, model: SavedModel) -> str:
    """Name a model as its file does: an ensemble has several members of one technique."""
    return model.technique if path.is_dir() or path.name == BEST else path.stem


def _questions(model: SavedModel, rows: Configurations) -> Any:
    place = places(model, rows.values, len(rows.frame))
    is_between = place.spot.between.any(axis=1)
    return question_names(place.ratio, is_between=is_between, is_unknown=place.spot.is_unknown)


def _scores(errors: dict[str, dict[str, float | None]], source: str) -> Scores:
    return {"source": source, "errors": errors}


def scores_text(scores: Scores) -> str:
    """Write errors as a table, one row per model."""
    errors = scores["errors"]
    asked = [q for q in QUESTIONS if any(e.get(q) is not None for e in errors.values())]
    rows = [["relative error", *(HEADINGS.get(q, q) for q in asked)]]
    rows += [[name, *(percent(e.get(q)) for q in asked)] for name, e in errors.items()]
    if "n_rows" in scores:
        rows.append(["rows", *(str(scores["n_rows"][q]) for q in asked)])
    return align(rows)
