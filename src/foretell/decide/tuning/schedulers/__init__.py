"""Schedulers of searches: which trials go on, and which end early; one file each."""

from __future__ import annotations

from foretell.decide.tuning.schedulers._base import GO_ON, PAUSE, STOP, Scheduler
from foretell.registry import Registry

SCHEDULERS: Registry[Scheduler] = Registry(
    "scheduler",
    {
        "hyperband": "foretell.decide.tuning.schedulers.hyperband:Hyperband",
        "asha": "foretell.decide.tuning.schedulers.asha:Asha",
        "random": "foretell.decide.tuning.schedulers.all_epochs:AllEpochs",
        "optuna-hyperband": "foretell.decide.tuning.schedulers.optuna_hyperband:OptunaHyperband",
        "optuna-halving": "foretell.decide.tuning.schedulers.optuna_halving:OptunaHalving",
        "optuna-halving-auto": (
            "foretell.decide.tuning.schedulers.optuna_halving:OptunaHalvingAuto"
        ),
    },
    group="foretell.search_schedulers",
)

__all__ = ["GO_ON", "PAUSE", "SCHEDULERS", "STOP", "Scheduler"]
