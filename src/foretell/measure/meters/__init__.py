"""Meters: what is measured of each run besides its time; one file each, and one line here."""

from __future__ import annotations

from foretell.measure.meters._base import Meter, Setting, Tree
from foretell.registry import Registry

METERS: Registry[Meter] = Registry(
    "meter",
    {
        "cpu_time": "foretell.measure.meters.cpu_time:CpuTimeMeter",
        "memory": "foretell.measure.meters.memory:MemoryMeter",
        "disk": "foretell.measure.meters.disk:DiskMeter",
        "load": "foretell.measure.meters.load:LoadMeter",
        "energy": "foretell.measure.meters.energy:EnergyMeter",
        "counters": "foretell.measure.meters.counters:CountersMeter",
    },
    group="foretell.meters",
)

__all__ = ["METERS", "Meter", "Setting", "Tree"]
