"""Workloads: the ways to run a job; one file each, and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foretell.errors import UsageError
from foretell.files.typed import validated
from foretell.machines import Needs, Resources
from foretell.measure.workloads._base import Options, RunFailedError, Watch, Workload
from foretell.measure.workloads._own_code import load_object
from foretell.registry import Registry

WORKLOADS: Registry[Workload] = Registry(
    "workload",
    {
        "command": "foretell.measure.workloads.command:CommandWorkload",
        "python": "foretell.measure.workloads.python:PythonWorkload",
        "ray_train": "foretell.measure.workloads.ray_train:RayTrainWorkload",
        "torch_layers": "foretell.measure.workloads.torch_layers:TorchLayersWorkload",
    },
    group="foretell.workloads",
)

__all__ = [
    "WORKLOADS",
    "Needs",
    "Options",
    "Resources",
    "RunFailedError",
    "Watch",
    "Workload",
    "load_workload",
]


def load_workload(table: Mapping[str, Any], folder: Path) -> Workload:
    """Make the workload that a sweep's table describes.

    Parameters
    ----------
    table
        ``use`` names a workload or a class of the user's own, as ``module:Class``; all else are its
        options.
    folder
        Where modules of the user's own may lie, besides those that are installed.
    """
    options = dict(table)
    name = options.pop("use", None)
    if not isinstance(name, str):
        raise UsageError(f"workload: must say use = one of {', '.join(WORKLOADS.names())}")
    try:
        found = load_object(name, folder) if ":" in name else WORKLOADS.get(name)
    except UsageError as error:
        raise UsageError(f"workload.use: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Workload)):
        raise UsageError(f"workload.use: {name} is not a class derived from foretell's Workload")
    return found(validated(found.options_class, options, "workload"), folder)
