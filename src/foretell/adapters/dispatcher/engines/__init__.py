"""Engines: what runs the jobs of a queue; one file each, and one line here."""

from __future__ import annotations

from foretell.adapters.dispatcher.engines._base import (
    Engine,
    EngineLostError,
    Outcome,
    Running,
    Setting,
)
from foretell.registry import Registry

ENGINES: Registry[Engine] = Registry(
    "engine",
    {
        "command": "foretell.adapters.dispatcher.engines.command:CommandEngine",
        "spark": "foretell.adapters.dispatcher.engines.spark:SparkEngine",
    },
    group="foretell.engines",
)

__all__ = ["ENGINES", "Engine", "EngineLostError", "Outcome", "Running", "Setting"]
