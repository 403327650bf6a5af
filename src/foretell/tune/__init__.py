"""Hyperparameter searches, for users: how long they take, ending them sooner, what to deploy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretell.late_names import late_names

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
_NAMES = {
    "foretell.decide.tuning.rungs": ("Rules",),
    "foretell.decide.tuning.search": ("Search",),
    "foretell.tune.budgets": ("Budget", "Budgets"),
    "foretell.tune.eta": ("SearchForecast", "predict_search"),
    "foretell.tune.hook.loop": ("Pipeline",),
    "foretell.tune.hook.start": ("pipeline",),
    "foretell.tune.onefold.found": ("Found",),
    "foretell.tune.onefold.search": ("search",),
    "foretell.tune.onefold.trials": ("Progress",),
    "foretell.tune.store": ("open_store",),
    "foretell.tune.time_left": ("TimeLeft",),
}
__getattr__, __dir__, __all__ = late_names(__name__, _NAMES)
