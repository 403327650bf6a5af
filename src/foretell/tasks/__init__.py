"""Task graphs: how long they take before they run, a small runtime, and isolated tasks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foretell.tasks.declare import task as task
    from foretell.tasks.forecast.foresee import GraphForecast as GraphForecast
    from foretell.tasks.forecast.foresee import foresee as foresee
    from foretell.tasks.graph import Graph as Graph
    from foretell.tasks.isolation.enclave import EnclaveMissing as EnclaveMissing
    from foretell.tasks.isolation.sandbox import SandboxMissing as SandboxMissing
    from foretell.tasks.isolation.sandbox import TaskError as TaskError
    from foretell.tasks.isolation.sealing import IntegrityError as IntegrityError
    from foretell.tasks.isolation.sealing import OwnerKey as OwnerKey
    from foretell.tasks.isolation.sealing import Sealed as Sealed
    from foretell.tasks.running.checks import UndeclaredWrite as UndeclaredWrite
    from foretell.tasks.running.places import WorkerLost as WorkerLost
    from foretell.tasks.running.submitted import DependencyFailed as DependencyFailed
    from foretell.tasks.running.submitted import Task as Task

#: The public names by module. They are imported on first use: a confined process needs few of them.
_NAMES = {
    "declare": ("task",),
    "forecast.foresee": ("GraphForecast", "foresee"),
    "graph": ("Graph",),
    "isolation.enclave": ("EnclaveMissing",),
    "isolation.sandbox": ("SandboxMissing", "TaskError"),
    "isolation.sealing": ("IntegrityError", "OwnerKey", "Sealed"),
    "running.checks": ("UndeclaredWrite",),
    "running.places": ("WorkerLost",),
    "running.submitted": ("DependencyFailed", "Task"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'foretell.tasks' has no attribute '{name}'")
    return getattr(import_module(f"foretell.tasks.{_HOMES[name]}"), name)
