"""Hyperparameter searches, for users: how long they take, ending them sooner, what to deploy."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foretell.decide.tuning.rungs import Rules as Rules
    from foretell.decide.tuning.search import Search as Search
    from foretell.tune.budgets import Budget as Budget
    from foretell.tune.budgets import Budgets as Budgets
    from foretell.tune.eta import SearchForecast as SearchForecast
    from foretell.tune.eta import predict_search as predict_search
    from foretell.tune.hook.loop import Pipeline as Pipeline
    from foretell.tune.hook.start import pipeline as pipeline
    from foretell.tune.onefold.found import Found as Found
    from foretell.tune.onefold.search import search as search
    from foretell.tune.onefold.trials import Progress as Progress
    from foretell.tune.store import open_store as open_store
    from foretell.tune.time_left import TimeLeft as TimeLeft

#: The public names by module. They are imported on first use.
_HOMES = {
    "Budget": "foretell.tune.budgets",
    "Budgets": "foretell.tune.budgets",
    "Found": "foretell.tune.onefold.found",
    "Pipeline": "foretell.tune.hook.loop",
    "Progress": "foretell.tune.onefold.trials",
    "Rules": "foretell.decide.tuning.rungs",
    "Search": "foretell.decide.tuning.search",
    "SearchForecast": "foretell.tune.eta",
    "TimeLeft": "foretell.tune.time_left",
    "open_store": "foretell.tune.store",
    "pipeline": "foretell.tune.hook.start",
    "predict_search": "foretell.tune.eta",
    "search": "foretell.tune.onefold.search",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'foretell.tune' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
