"""Probing node types: sweeps that `foretell measure` runs on a node, to fit its models from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from foretell.decide.placement.cluster import Cluster, NodeTypeTable, read_cluster
from foretell.files.directory import check_new, make_folder, write_new
from foretell.measure.probes import JOBS
from foretell.measure.sweep import read_sweep

_ITERATIONS = [2, 4, 8, 16]
_MEMORY_MIB = [16, 64, 128]
_MOST_MEMORY = 0.25  # of a node: the job also needs room for copies
_IDLE_S, _REPEATS = 30, 3


@dataclass(frozen=True)
class Probe:
    """The sweeps of one node type, and the targets of its two models."""

    name: str
    idle: Path
    sweep: Path
    n_runs: int
    targets: tuple[str, str]


def write_probes(
    cluster: Path | str | Mapping[str, Any] | Cluster,
    output: str | Path,
    *,
    governors: Sequence[str] = (),
    force: bool = False,
) -> list[Probe]:
    """Write two sweeps per node type: one of an idle node, and one of probes.

    Parameters
    ----------
    cluster
        A cluster file, or a dict of its shape.
    output
        The folder for the sweeps.
    governors
        Frequency governors to try, where the machine grants it.
    """
    folder = Path(output)
    contents: dict[Path, str] = {}
    found = []
    for table in read_cluster(cluster).node_type:
        idle, sweep = folder / f"{table.name}-idle.toml", folder / f"{table.name}.toml"
        described = probe_sweep(table, governors)
        contents[idle] = tomli_w.dumps(_idle_sweep())
        contents[sweep] = tomli_w.dumps(described)
        found.append(Probe(table.name, idle, sweep, _n_runs(described), _targets(described)))
    for path in contents:
        check_new(path, force=force)
    make_folder(folder)
    for path, text in contents.items():
        write_new(path, text.encode(), force=force)
    return found


def probe_sweep(table: NodeTypeTable, governors: Sequence[str] = ()) -> dict[str, Any]:
    """Return the sweep of the probes for a node type, as plain values."""
    capacity = table.node_type.capacity
    most = max(1, int(capacity.cpus))
    cpus = sorted({2**i for i in range(most.bit_length())} | {most})
    room_mib = _MOST_MEMORY * capacity.memory_bytes / 2**20
    memory = [mib for mib in _MEMORY_MIB if not room_mib or mib <= room_mib] or _MEMORY_MIB[:1]
    parameters: dict[str, Any] = {
        "job": list(JOBS), "cpus": cpus, "iterations": _ITERATIONS, "memory_mib": memory,
    }  # fmt: skip
    if governors:
        parameters["governor"] = list(governors)
    found: dict[str, Any] = {
        "repeats": _REPEATS,
        "workload": {"use": "python", "call": "foretell.measure.probes:probe"},
        "parameters": parameters,
        "needs": {"cpus": "cpus"},
    }
    kind = table.node_type
    if kind.idle_w is not None and kind.busy_w is not None and kind.busy_w > kind.idle_w:
        source = "the power of the node type above idle"
        found["power"] = {"idle_w": 0.0, "busy_w": kind.busy_w - kind.idle_w, "source": source}
    read_sweep(found)
    return found


def _idle_sweep() -> dict[str, Any]:
    return {
        "repeats": _REPEATS,
        "workload": {"use": "python", "call": "foretell.measure.probes:idle"},
        "parameters": {"seconds": _IDLE_S},
    }


def _n_runs(sweep: Mapping[str, Any]) -> int:
    n = int(sweep["repeats"])
    for values in sweep["parameters"].values():
        n *= len(values)
    return n


def _targets(sweep: Mapping[str, Any]) -> tuple[str, str]:
    return "wall_time_s", "energy_estimated_j" if "power" in sweep else "energy_j"
