"""For Optuna: a pruner by elapsed time, a sampler that minds costs, and the time left."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foretell.tune.optuna.callback import Callback as Callback
    from foretell.tune.optuna.pruner import TimePruner as TimePruner
    from foretell.tune.optuna.sampler import CostSampler as CostSampler

_HOMES = {
    "Callback": "foretell.tune.optuna.callback",
    "CostSampler": "foretell.tune.optuna.sampler",
    "TimePruner": "foretell.tune.optuna.pruner",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'foretell.tune.optuna' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
