"""The options of aMLLibrary's files: how to read each, and where it goes in a campaign."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from foretell.files.complaints import shown
from foretell.model.campaigns.literals import Bare, plain, plain_name, read_tree

Reader = Callable[[Any], Any]


def text(value: Any) -> str:
    """Read a name or a path as written, without quotes."""
    if not isinstance(value, str | int | float | PurePath):
        raise ValueError(f"must be one name, not {shown(value)}")
    return plain_name(Bare(str(value).strip()))


def names(value: Any) -> list[str]:
    """Read a list of names; a single name is a list of one, and numbers may be names."""
    tree = _tree(value)
    if isinstance(tree, Bare) and "," in tree:
        tree = read_tree(f"[{tree}]")  # x1, x2 without brackets
    items = tree if isinstance(tree, list) else [tree]
    if any(not isinstance(item, str | int | float) for item in items):
        raise ValueError(f"must be a list of names, such as [x1, x2], not {shown(value)}")
    return [plain_name(item) for item in items]


def by_name(value: Any) -> dict[str, Any]:
    """Read a mapping from names to values, such as ``{nodes: 8}``."""
    tree = _tree(value)
    if not isinstance(tree, Mapping):
        raise ValueError(f"must be a table, such as {{nodes: 8}}, not {shown(value)}")
    return {plain_name(name): plain(item) for name, item in tree.items()}


def new_names(value: Any) -> dict[str, str]:
    """Read a mapping from old names to new ones."""
    tree = _tree(value)
    if not isinstance(tree, Mapping):
        raise ValueError(f"must be a table, such as {{old: new}}, not {shown(value)}")
    return {plain_name(old): text(new) for old, new in tree.items()}


def anything(value: Any) -> Any:
    """Read any value; the schema decides whether it is valid."""
    return plain(_tree(value))


def _tree(value: Any) -> Any:
    # A dict from Python may hold text as in a file: aMLLibrary spells "all columns" as "[*]".
    if isinstance(value, str):
        return read_tree(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)  # sets have no stable order
    value = value.tolist() if hasattr(value, "tolist") else value
    return list(value) if isinstance(value, tuple | range) else value


@dataclass(frozen=True)
class Option:
    """One option of a file.

    Attributes
    ----------
    places
        Where the value goes in a campaign, as TOML paths; empty for an option without effect.
    read
        Turns what was written into the campaign's value, or raises ValueError.
    """

    places: tuple[str, ...]
    read: Reader = anything


NO_EFFECT = Option(())

OPTIONS: dict[str, dict[str, Option]] = {
    "General": {
        "techniques": Option(("techniques",), names),
        "y": Option(("data.target",), text),
        "hp_selection": Option(("search.splits.method",), text),
        "validation": Option(("validation.method",), text),
        "hold_out_ratio": Option(("validation.ratio", "search.splits.ratio")),
        "folds": Option(("validation.folds", "search.splits.folds")),
        "extrapolation_columns": Option(("validation.columns", "search.splits.columns"), by_name),
        "interpolation_columns": Option(("validation.columns", "search.splits.columns"), by_name),
        # Not in aMLLibrary: let selection differ from validation.
        "hp_selection_hold_out_ratio": Option(("search.splits.ratio",)),
        "hp_selection_folds": Option(("search.splits.folds",)),
        "hp_selection_extrapolation_columns": Option(("search.splits.columns",), by_name),
        "hp_selection_interpolation_columns": Option(("search.splits.columns",), by_name),
        "run_num": Option(("runs",)),
        "seed": Option(("seed",)),
        "hyperparameter_tuning": Option(("search.method",), text),
        "hyperopt_max_evals": Option(("search.evaluations",)),
        "racing": Option(("search.racing",)),
        "score": Option(("score",), text),
        "save_training_regressors": Option(("save_training_models",)),
        "hyperopt_save_interval": NO_EFFECT,  # the journal records every trial
        "keras_backend": NO_EFFECT,
        "keras_use_cpu": NO_EFFECT,
        # aMLLibrary writes its command line into this section.
        "configuration_file": NO_EFFECT,
        "output": NO_EFFECT,
        "j": NO_EFFECT,
        "debug": NO_EFFECT,
        "details": NO_EFFECT,
        "keep_temp": NO_EFFECT,
        "generate_plots": NO_EFFECT,
    },
    "DataPreparation": {
        "input_path": Option(("data.path",), text),
        "rename_columns": Option(("data.rename",), new_names),
        "skip_rows": Option(("data.skip_rows_above",), by_name),
        "use_columns": Option(("data.use_columns",), names),
        "skip_columns": Option(("data.skip_columns",), names),
        "categorical_columns": Option(("data.categorical",), names),
        "inverse": Option(("features.inverse",), names),
        "log": Option(("features.log",), names),
        "product_max_degree": Option(("features.product_max_degree",)),
        "product_interactions_only": Option(("features.product_interactions_only",)),
        "selected_products": Option(("features.selected_products",), names),
        "ernest": Option(("features.ernest",)),
        "normalization": Option(("features.normalization",)),
    },
    "FeatureSelection": {
        "method": Option(("feature_selection.method",), text),
        "max_features": Option(("feature_selection.max_features",)),
        "min_features": Option(("feature_selection.min_features",)),
        "folds": Option(("feature_selection.folds",)),
        "XGBoost_tolerance": Option(("feature_selection.tolerance",)),
    },
}


def homes(option: str) -> list[str]:
    """List the sections that know an option."""
    return [section for section, options in OPTIONS.items() if option in options]
