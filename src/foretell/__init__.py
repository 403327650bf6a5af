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
    from foretell.decide.answer import Plan
    from foretell.decide.plan import make_plan
    from foretell.errors import (
        DatasetError,
        ForetellError,
        ModelError,
        NothingUsableError,
        StorageError,
        UsageError,
    )
    from foretell.measure.measure import measure_sweep
    from foretell.model.automatic_outputs import AutomaticFit
    from foretell.model.campaign import Campaign
    from foretell.model.estimator import ForetellRegressor
    from foretell.model.fit import fit_model
    from foretell.model.outputs import Fit
    from foretell.model.saved_model import SavedModel, load_model
    from foretell.predictor import Forecast, Predictor
    from foretell.report.write import write_report

#: Where each public name lives; it is imported on first use, so that `import foretell` is quick.
_HOMES = {
    "AutomaticFit": "foretell.model.automatic_outputs",
    "Campaign": "foretell.model.campaign",
    "Dataset": "foretell.dataset",
    "DatasetError": "foretell.errors",
    "Fit": "foretell.model.outputs",
    "Forecast": "foretell.predictor",
    "ForetellError": "foretell.errors",
    "ForetellRegressor": "foretell.model.estimator",
    "ModelError": "foretell.errors",
    "NothingUsableError": "foretell.errors",
    "Plan": "foretell.decide.answer",
    "Predictor": "foretell.predictor",
    "SavedModel": "foretell.model.saved_model",
    "StorageError": "foretell.errors",
    "UsageError": "foretell.errors",
    "fit_model": "foretell.model.fit",
    "load_model": "foretell.model.saved_model",
    "make_plan": "foretell.decide.plan",
    "measure_sweep": "foretell.measure.measure",
    "read_dataset": "foretell.dataset",
    "write_report": "foretell.report.write",
}

__all__ = [
    "AutomaticFit",
    "Campaign",
    "Dataset",
    "DatasetError",
    "Fit",
    "Forecast",
    "ForetellError",
    "ForetellRegressor",
    "ModelError",
    "NothingUsableError",
    "Plan",
    "Predictor",
    "SavedModel",
    "StorageError",
    "UsageError",
    "fit_model",
    "load_model",
    "make_plan",
    "measure_sweep",
    "read_dataset",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'foretell' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
