"""The models that a cluster file names: loaded, checked, and called by the type that uses them."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from foretell.decide.placement.cluster import Cluster, NodeTypeTable
from foretell.decide.placement.estimates import Estimates, true_models, type_models
from foretell.errors import ForetellError, ModelError
from foretell.model.saved.model import SavedModel, load_models
from foretell.predictor import Predictor


def load_predictors(cluster: Cluster) -> dict[str, list[tuple[Predictor, str]]]:
    """Load the models of each node type, each with the digest of its content."""
    loaded: dict[Path, list[tuple[Predictor, str]]] = {}
    return {
        table.name: [
            found
            for path in table.model_paths
            for found in _load(table, cluster.folder / path, loaded)
        ]
        for table in cluster.node_type
    }


def _load(
    table: NodeTypeTable, path: Path, loaded: dict[Path, list[tuple[Predictor, str]]]
) -> list[tuple[Predictor, str]]:
    if path not in loaded:
        try:
            loaded[path] = [(model, _digest(model)) for model in load_models(path)]
        except ModelError as error:
            raise ModelError(f"node type {table.name}, models: {error}") from None
    return loaded[path]


def reload_models(
    cluster: Cluster, estimates: Estimates, lock: AbstractContextManager[object] | None = None
) -> str | None:
    """Load the models of a cluster again; if one cannot be used, keep all old ones and say why.

    ``lock`` is held while they are exchanged, and not while they are loaded.
    """
    try:
        models = type_models(cluster, load_predictors(cluster))
    except ForetellError as error:
        return str(error)
    with lock or nullcontext():
        estimates.replace(models)
    return None


def _digest(model: SavedModel) -> str:
    return hashlib.sha256(model.to_bytes()).hexdigest()


def open_estimates(cluster: Cluster) -> tuple[Estimates, Estimates]:
    """Return what predicts tasks on each type of node, and what tasks truly take there."""
    predictors = load_predictors(cluster)
    return Estimates(type_models(cluster, predictors)), Estimates(true_models(cluster, predictors))
