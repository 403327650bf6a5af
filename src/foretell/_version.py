"""The version of foretell, of the numbers it computes, and of the libraries it uses."""

from __future__ import annotations

from collections.abc import Iterable

__version__ = "0.2.0"

#: Raise it in the same commit as any change after which an equal fit (same table, campaign, seed
#: and libraries) may give other numbers: trials, predictions, intervals, or what is journaled.
#: A journal of another number is refused, so that one result never mixes two. Changes of words,
#: comments, types and speed keep it.
RESULTS_VERSION = 5

#: Libraries whose version shows in the last digits of a model; XGBoost has one of two names.
NUMERIC_LIBRARIES = ("numpy", "pandas", "scipy", "scikit-learn", "optuna", "xgboost-cpu", "xgboost")


def library_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of those libraries that are installed."""
    from importlib import metadata

    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
