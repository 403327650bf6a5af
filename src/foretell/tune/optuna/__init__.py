"""For Optuna: a pruner by elapsed time, a sampler that minds costs, and the time left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretell.late_names import late_names

if TYPE_CHECKING:
    from foretell.tune.optuna.callback import Callback as Callback
    from foretell.tune.optuna.pruner import TimePruner as TimePruner
    from foretell.tune.optuna.sampler import CostSampler as CostSampler

_NAMES = {
    "foretell.tune.optuna.callback": ("Callback",),
    "foretell.tune.optuna.pruner": ("TimePruner",),
    "foretell.tune.optuna.sampler": ("CostSampler",),
}
__getattr__, __dir__, __all__ = late_names(__name__, _NAMES)
