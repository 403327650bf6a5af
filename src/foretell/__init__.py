"""foretell: how long a job will take and how much energy it will burn, before it runs.

>>> import foretell
>>> model = foretell.load_model("models/")             # doctest: +SKIP
>>> model.predict(new_configurations)                  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from foretell._version import __version__ as __version__

if TYPE_CHECKING:
    from foretell.dataset import Dataset, read_dataset
    from foretell.decide.advise.advice import Advice
    from foretell.decide.advise.next_run import advise
    from foretell.decide.plan.answer import Plan
    from foretell.decide.plan.plan import make_plan
    from foretell.errors import (
        DatasetError,
        ForetellError,
        ModelError,
        NothingUsableError,
        StorageError,
        UsageError,
    )
    from foretell.learn.loop import learn_plan
    from foretell.learn.result import Learned
    from foretell.measure.measure import measure_sweep
    from foretell.model.campaigns.schema import Campaign
    from foretell.model.estimator import ForetellRegressor
    from foretell.model.fit import fit_model
    from foretell.model.results.fit import AutomaticFit, Fit
    from foretell.model.saved.model import SavedModel, load_model, load_models
    from foretell.model.scoring import Score, score_model
    from foretell.predictor import Forecast, Predictor
    from foretell.report.write import write_report

#: Where each public name lives; it is imported on first use, so that `import foretell` is quick.
_HOMES = {
    "Advice": "foretell.decide.advise.advice",
    "AutomaticFit": "foretell.model.results.fit",
    "Campaign": "foretell.model.campaigns.schema",
    "Dataset": "foretell.dataset",
    "DatasetError": "foretell.errors",
    "Fit": "foretell.model.results.fit",
    "Forecast": "foretell.predictor",
    "ForetellError": "foretell.errors",
    "ForetellRegressor": "foretell.model.estimator",
    "Learned": "foretell.learn.result",
    "ModelError": "foretell.errors",
    "NothingUsableError": "foretell.errors",
    "Plan": "foretell.decide.plan.answer",
    "Predictor": "foretell.predictor",
    "SavedModel": "foretell.model.saved.model",
    "Score": "foretell.model.scoring",
    "StorageError": "foretell.errors",
    "UsageError": "foretell.errors",
    "advise": "foretell.decide.advise.next_run",
    "fit_model": "foretell.model.fit",
    "learn_plan": "foretell.learn.loop",
    "load_model": "foretell.model.saved.model",
    "load_models": "foretell.model.saved.model",
    "make_plan": "foretell.decide.plan.plan",
    "measure_sweep": "foretell.measure.measure",
    "read_dataset": "foretell.dataset",
    "score_model": "foretell.model.scoring",
    "write_report": "foretell.report.write",
}

__all__ = [
    "Advice",
    "AutomaticFit",
    "Campaign",
    "Dataset",
    "DatasetError",
    "Fit",
    "Forecast",
    "ForetellError",
    "ForetellRegressor",
    "Learned",
    "ModelError",
    "NothingUsableError",
    "Plan",
    "Predictor",
    "SavedModel",
    "Score",
    "StorageError",
    "UsageError",
    "advise",
    "fit_model",
    "learn_plan",
    "load_model",
    "load_models",
    "make_plan",
    "measure_sweep",
    "read_dataset",
    "score_model",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'foretell' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
