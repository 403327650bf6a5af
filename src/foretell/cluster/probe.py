"""Probing node types: sweeps that `foretell measure` runs on a node, to fit its models from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from foretell.decide.placement.cluster import Cluster, NodeTypeTable, read_cluster
from foretell.errors import Option, UsageError
from foretell.files.directory import check_free, make_folder, write_new
from foretell.machines import read_amount
from foretell.measure.measure import prepare_sweep
from foretell.measure.probes import JOBS

_ITERATIONS = (2, 8, 32, 128, 512)
_STEP, _N_SIZES = 4, 4  # from one size of data to the next, and how many there are
_SHARE = 1 / 8  # of a node's memory: the jobs also need room for copies
_MOST_SHARE = 1 / 4
_LEAST_MIB, _MOST_MIB, _MOST_QUICK_MIB = 1, 1024, 128
#: A run with more iterations times MiB than this is left out, to keep the sweep short.
_MOST_WORK, _MOST_QUICK_WORK = 8192, 1024
_IDLE_S, _REPEATS = 30, 3
#: What an iteration took per MiB on one CPU of a server, and with which power of MiB that grows.
_SECONDS = {"k_means": (3.4e-3, 0.0), "matrix_product": (0.42e-3, 0.5), "copy": (0.4e-3, 0.0)}
_START_S = 1.0


@dataclass(frozen=True)
class ProbeOptions:
    """What sweeps of probes try.

    Attributes
    ----------
    governors
        Frequency governors to try, where the machine grants it.
    most_memory
        The largest data of a run, such as ``"4Gi"``; by default an eighth of the node's memory,
        and at most 1 GiB.
    is_quick
        Whether to make a few runs only: once each, on one CPU and on all, with less work.
    """

    governors: Sequence[str] = ()
    most_memory: str | None = None
    is_quick: bool = False


@dataclass(frozen=True)
class Probe:
    """The sweeps of one node type, how long they take, and the targets of its two models."""

    name: str
    idle: Path
    sweep: Path
    n_runs: int
    total_s: float
    targets: tuple[str, str]


def write_probes(
    cluster: Path | str | Mapping[str, Any] | Cluster,
    output: str | Path,
    *,
    options: ProbeOptions | None = None,
    force: bool = False,
) -> list[Probe]:
    """Write two sweeps per node type: one of an idle node, and one of probes.

    Parameters
    ----------
    cluster
        A cluster file, or a dict of its shape.
    output
        The folder for the sweeps.
    options
        What they try.

    >>> from tempfile import TemporaryDirectory
    >>> types = [{"name": "board", "count": 1, "capacity": {"cpu": 2, "memory": "1Gi"}}]
    >>> with TemporaryDirectory() as folder:
    ...     probe, = write_probes({"node_type": types}, folder, options=ProbeOptions(is_quick=True))
    >>> probe.name, probe.sweep.name, probe.targets
    ('board', 'board.toml', ('wall_time_s', 'energy_j'))
    """
    folder = Path(output)
    contents: dict[Path, str] = {}
    found = []
    for table in read_cluster(cluster).node_type:
        if "/" in table.name:
            raise UsageError(
                f"node type {table.name}: sweeps are files with its name; rename it without /"
            )
        idle, sweep = folder / f"{table.name}-idle.toml", folder / f"{table.name}.toml"
        if contents.keys() & {idle, sweep}:
            raise UsageError(f"node type {table.name}: another type has sweeps of that name")
        described = probe_sweep(table, options)
        contents[idle] = tomli_w.dumps(_idle_sweep())
        contents[sweep] = tomli_w.dumps(described)
        n_runs = len(prepare_sweep(described, is_sure=True).runs)
        total_s = n_runs * described["expected_s"]
        found.append(Probe(table.name, idle, sweep, n_runs, total_s, _targets(described)))
    for path in contents:
        check_free(path, force=force)
    make_folder(folder)
    for path, text in contents.items():
        write_new(path, text.encode(), force=force)
    return found


def probe_sweep(table: NodeTypeTable, options: ProbeOptions | None = None) -> dict[str, Any]:
    """Return the sweep of the probes for a node type, as plain values."""
    options = options or ProbeOptions()
    memory = _sizes(table, options)
    most_work = _MOST_QUICK_WORK if options.is_quick else _MOST_WORK
    least, most_work = _ITERATIONS[0], max(most_work, _ITERATIONS[0] * memory[-1])
    parameters: dict[str, Any] = {
        "job": list(JOBS),
        "cpus": _cpus(table, options),
        "iterations": [n for n in _ITERATIONS if n * memory[0] <= most_work] or [least],
        "memory_mib": memory,
    }
    if options.governors:
        parameters["governor"] = list(options.governors)
    found: dict[str, Any] = {
        "repeats": 1 if options.is_quick else _REPEATS,
        "only": f"iterations * memory_mib <= {most_work}",
        "workload": {"use": "python", "call": "foretell.measure.probes:probe"},
        "parameters": parameters,
        "needs": {"cpus": "cpus"},
    }
    times = [_seconds(run.configuration) for run in prepare_sweep(found, is_sure=True).runs]
    found["expected_s"] = round(sum(times) / len(times), 2)
    kind = table.node_type
    if kind.idle_w is not None and kind.busy_w is not None and kind.busy_w > kind.idle_w:
        source = "the power of the node type above idle"
        found["power"] = {"idle_w": 0.0, "busy_w": kind.busy_w - kind.idle_w, "source": source}
    return found


def _cpus(table: NodeTypeTable, options: ProbeOptions) -> list[int]:
    most = max(1, int(table.node_type.capacity.cpus))
    between = {1} if options.is_quick else {2**i for i in range(most.bit_length())}
    return sorted(between | {most})


def _sizes(table: NodeTypeTable, options: ProbeOptions) -> list[int]:
    """Return the sizes of data to try, in MiB, up to what the node has room for."""
    room_mib = table.node_type.capacity.memory_bytes / 2**20
    most = min(_MOST_MIB, int(room_mib * _SHARE)) if room_mib else _MOST_MIB
    if options.is_quick:
        most = min(most, _MOST_QUICK_MIB)
    if options.most_memory is not None:
        most = _asked_mib(options.most_memory, room_mib, table.name)
    n = _N_SIZES - 1 if options.is_quick else _N_SIZES
    return sorted({max(_LEAST_MIB, most // _STEP**i) for i in range(n)})


def _asked_mib(text: str, room_mib: float, name: str) -> int:
    option = Option("most_memory", text)
    try:
        asked = int(read_amount(text, "memory") / 2**20)
    except UsageError:
        raise UsageError("must be an amount such as 512Mi or 4Gi", option=option) from None
    if asked < _LEAST_MIB:
        raise UsageError(f"must be at least {_LEAST_MIB}Mi", option=option)
    if room_mib and asked > room_mib * _MOST_SHARE:
        raise UsageError(
            f"the jobs make copies, so that a node of type {name} has room for "
            f"{int(room_mib * _MOST_SHARE)}Mi at most", option=option
        )  # fmt: skip
    return asked


def _seconds(configuration: Mapping[str, Any]) -> float:
    """Return what a run takes about, if more CPUs do not help."""
    each_s, power = _SECONDS[configuration["job"]]
    size = configuration["memory_mib"] ** (1 + power)
    return float(_START_S + each_s * configuration["iterations"] * size)


def _idle_sweep() -> dict[str, Any]:
    return {
        "repeats": _REPEATS,
        "workload": {"use": "python", "call": "foretell.measure.probes:idle"},
        "parameters": {"seconds": _IDLE_S},
        "expected_s": _IDLE_S + _START_S,
    }


def _targets(sweep: Mapping[str, Any]) -> tuple[str, str]:
    return "wall_time_s", "energy_estimated_j" if "power" in sweep else "energy_j"
