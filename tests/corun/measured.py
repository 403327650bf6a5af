"""Measurements that nobody made: the fluid model says how long jobs take, times a factor."""

from itertools import combinations, combinations_with_replacement
from pathlib import Path

from foretell.corun.measuring.table import write_table
from foretell.decide.corun.fluid import play_together
from foretell.decide.corun.jobs import CoJob

from .jobs import made_up, made_up_machine

CORES = {"a": 0.5, "b": 1.0, "c": 1.0, "d": 1.6, "e": 2.0}


def make_measurement(folder, factor=1.0, machine=None):
    """Write a folder of co-runs of five programs that take so many times longer than modelled.

    A factor may also be given by kind.
    """
    folder = Path(folder)
    (folder / "profiles").mkdir(parents=True)
    capacity = (machine or made_up_machine()).capacity()
    profiles = {
        name: made_up(name, seconds=6.0 + k, cores=cores)
        for k, (name, cores) in enumerate(CORES.items())
    }
    records = []
    for name, profile in profiles.items():
        (folder / "profiles" / f"{name}.profile").write_bytes(profile.to_bytes())
        records.append(record("alone", [name], [0.0], [profile.wall_s]))
    groups = [("pair", pair) for pair in combinations_with_replacement(CORES, 2)]
    groups += [("triple", triple) for triple in list(combinations(CORES, 3))[:5]]
    groups += [("shifted", pair) for pair in list(combinations(CORES, 2))[:5]]
    for kind, names in groups:
        starts = [0.0, 2.0] if kind == "shifted" else [0.0] * len(names)
        jobs = [
            CoJob(profiles[n].needs(2).within(capacity), s)
            for n, s in zip(names, starts, strict=True)
        ]
        ends = play_together(jobs, capacity).ends_s
        longer = factor[kind] if isinstance(factor, dict) else factor
        ends = [s + longer * (e - s) for s, e in zip(starts, ends, strict=True)]
        records.append(record(kind, names, starts, ends))
    write_table(folder, records)
    return folder


def record(kind, names, starts, ends):
    jobs = [
        {"name": n, "began_s": s, "ended_s": e, "cpu_time_s": 1.0, "waited_s": 0.0}
        for n, s, e in zip(names, starts, ends, strict=True)
    ]
    return {
        "kind": kind, "key": f"{kind}-{'+'.join(names)}-0", "programs": list(names), "repeat": 0,
        "shift": 0.3 if kind == "shifted" else 0.0, "pin": "", "status": "ok", "reason": "",
        "jobs": jobs, "n_attempts": 1, "disturbed": 0.0, "steal": 0.0, "other_load": 0.0,
    }  # fmt: skip
