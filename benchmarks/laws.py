"""Made-up laws: each family is one way in which times come about.

Work divided among nodes with overheads, power laws, plateaus, memory cliffs, options with
interactions, modes. Those in which most settings are no amounts are in `jagged.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

Random = np.random.Generator
Values = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Column:
    """A setting and the values that it may take, in order; ``grows`` says how it goes on."""

    name: str
    values: tuple[Any, ...]
    grows: bool = False


@dataclass(frozen=True)
class Law:
    """A made-up job: its settings, and its true time in seconds at any of their values.

    ``draw`` returns configurations where not every combination of values is one.
    """

    family: str
    columns: tuple[Column, ...]
    time_s: Callable[[Values], np.ndarray]
    draw: Callable[[Random, int], pd.DataFrame] | None = None

    def truth(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the time of each row, without noise."""
        values = {c.name: frame[c.name].to_numpy() for c in self.columns}
        return np.asarray(self.time_s(values), dtype=float)


# --- Families of laws ----------------------------------------------------------------------------


def amdahl(random: Random) -> Law:
    """A serial part, and work divided among threads."""
    serial, work = random.uniform(0.02, 0.4), some_cost(random)
    columns = (count_column("threads", 1, random), size_column("size", random))
    return Law(
        "amdahl", columns, lambda v: work * v["size"] * (serial + (1 - serial) / v["threads"])
    )


def gustafson(random: Random) -> Law:
    """The work of each node is a setting, and overhead grows with the nodes."""
    start, work = some_cost(random), some_cost(random)
    overhead, power = work * random.uniform(0.01, 0.3), random.uniform(0.2, 1.0)
    columns = (count_column("nodes", 1, random), size_column("per_node", random))
    return Law(
        "gustafson",
        columns,
        lambda v: start + work * v["per_node"] + overhead * v["nodes"] ** power,
    )


def usl(random: Random) -> Law:
    """The universal scalability law: contention, and coherency that makes more nodes slower."""
    contention, coherency = random.uniform(0.005, 0.1), 10 ** random.uniform(-4.5, -2)
    work, power = some_cost(random), random.uniform(0.8, 1.2)
    columns = (count_column("nodes", 1, random), size_column("size", random))

    def time_s(v: Values) -> np.ndarray:
        n = v["nodes"].astype(float)
        slowdown = 1 + contention * (n - 1) + coherency * n * (n - 1)
        return work * v["size"] ** power * slowdown / n

    return Law("usl", columns, time_s)


def ernest(random: Random) -> Law:
    """Ernest's sum: a constant, data per node, a tree of messages, one message per node."""
    work = some_cost(random)
    shares = random.uniform(0, 0.3, 3) * work * (random.random(3) < 0.7)
    columns = (count_column("nodes", 1, random), size_column("data_gb", random))

    def time_s(v: Values) -> np.ndarray:
        n, data = v["nodes"].astype(float), v["data_gb"].astype(float)
        return work * data / n + 4 * shares[0] + shares[1] * np.log2(n + 1) + 0.1 * shares[2] * n

    return Law("ernest", columns, time_s)


def power(random: Random) -> Law:
    """A product of powers of two to five columns, which may include a machine."""
    n_columns = int(random.integers(2, 6))
    powers = random.choice([-1.0, -0.7, 0.3, 0.5, 1.0, 1.0, 1.5, 2.0], n_columns)
    scale = some_cost(random)
    columns = [size_column(f"p{i}", random) for i in range(n_columns)]
    speeds = machine_speeds(random) if random.random() < 0.5 else None
    if speeds is not None:
        columns.append(Column("machine", tuple(speeds)))

    def time_s(v: Values) -> np.ndarray:
        product = scale * np.prod([v[f"p{i}"] ** p for i, p in enumerate(powers)], axis=0)
        return product if speeds is None else product / look_up(speeds, v["machine"])

    return Law("power", tuple(columns), time_s)


def cluster(random: Random) -> Law:
    """A sum with overheads that makes a U in the nodes, and a speed for each machine."""
    work, speeds = some_cost(random) * 10, machine_speeds(random)
    batch_cost = random.uniform(0, 30)
    largest = work * random.uniform(5, 30)
    log_cost, node_cost, start = (
        largest * random.uniform(0.001, 0.05),
        largest * random.uniform(0.0003, 0.01),
        largest * random.uniform(0.005, 0.1),
    )
    columns = (
        count_column("nodes", 1, random),
        size_column("data_gb", random),
        Column("batch", (16, 32, 64, 128, 256), grows=True),
        Column("machine", tuple(speeds)),
    )

    def time_s(v: Values) -> np.ndarray:
        n = v["nodes"].astype(float)
        compute = (
            work
            * v["data_gb"]
            / (look_up(speeds, v["machine"]) * n)
            * (1 + batch_cost / v["batch"])
        )
        return compute + log_cost * np.log2(n + 1) + node_cost * n + start

    return Law("cluster", columns, time_s)


def plateau(random: Random) -> Law:
    """Only so many tasks run at once: more nodes than that are idle."""
    work, tasks = some_cost(random), random.choice([8, 12, 16, 24])
    start = work * random.uniform(0.1, 2)
    columns = (
        count_column("nodes", 1, random),
        size_column("size", random),
        Column("cores", (1, 2, 4)),
    )

    def time_s(v: Values) -> np.ndarray:
        waves = np.maximum(1.0, tasks / (v["nodes"] * v["cores"]))
        return start + work * v["size"] * waves

    return Law("plateau", columns, time_s)


def cliff(random: Random) -> Law:
    """Where data exceed the memory of all nodes, they are read from disk again and again."""
    work, speeds = some_cost(random), machine_speeds(random)
    needed, slower = 2 ** random.uniform(3.5, 8), random.uniform(1.5, 8)
    overhead = work * random.uniform(0, 0.03)
    columns = (
        count_column("nodes", 2, random),
        Column("memory_gb", (4, 8, 16, 32, 64), grows=True),
        Column("vcpus", (2, 4, 8), grows=True),
        Column("family", tuple(speeds)),
    )

    def time_s(v: Values) -> np.ndarray:
        cores = v["nodes"] * v["vcpus"]
        fits = v["nodes"] * v["memory_gb"] >= needed
        compute = 30 * work / (look_up(speeds, v["family"]) * cores**0.8)
        return compute * np.where(fits, 1.0, slower) + overhead * v["nodes"] + work

    return Law("cliff", columns, time_s)


def options(random: Random) -> Law:
    """Up to 16 switches, of which a few matter and some interact."""
    n_options = int(random.integers(6, 17))
    effect = random.normal(0, 0.3, n_options) * (random.random(n_options) < 0.5)
    n_pairs = int(random.integers(1, 4))
    pairs = [random.choice(n_options, 2, replace=False) for _ in range(n_pairs)]
    strength = random.normal(0, 0.6, n_pairs)
    base = some_cost(random)
    columns = tuple(Column(f"option{i}", (0, 1)) for i in range(n_options))

    def time_s(v: Values) -> np.ndarray:
        total = sum(effect[i] * v[f"option{i}"] for i in range(n_options))
        for (a, b), size in zip(pairs, strength, strict=True):
            total = total + size * v[f"option{a}"] * v[f"option{b}"]
        return base * np.exp(total)

    return Law("options", columns, time_s)


def modes(random: Random) -> Law:
    """A program with modes: each has costs and powers of its own."""
    names = tuple(f"mode{i}" for i in range(int(random.integers(3, 7))))
    cost = dict(
        zip(names, some_cost(random) * np.exp(random.normal(0, 1.0, len(names))), strict=True)
    )
    of_size = dict(zip(names, random.uniform(0.6, 1.4, len(names)), strict=True))
    of_level = dict(zip(names, random.uniform(0, 0.4, len(names)), strict=True))
    columns = (
        Column("mode", names),
        size_column("size", random),
        Column("level", tuple(range(1, 10))),
        count_column("threads", 1, random),
    )
    serial = random.uniform(0.02, 0.5)

    def time_s(v: Values) -> np.ndarray:
        work = look_up(cost, v["mode"]) * v["size"] ** look_up(of_size, v["mode"])
        return (
            work
            * np.exp(look_up(of_level, v["mode"]) * v["level"])
            * (serial + (1 - serial) / v["threads"])
        )

    return Law("modes", columns, time_s)


def matrix(random: Random) -> Law:
    """A product of three sizes, plus the cost of touching the memory and of starting."""
    flop, byte, start = 1e-9, random.uniform(0, 3e-8), random.uniform(0, 1e-4)
    values = tuple(int(s) for s in np.unique(np.geomspace(32, 512, 6).round()))
    columns = (*(Column(n, values, grows=True) for n in "mnk"), Column("threads", (1, 2, 4)))

    def time_s(v: Values) -> np.ndarray:
        m, n, k = (v[name].astype(float) for name in "mnk")
        work = flop * m * n * k / v["threads"]
        return work + byte * (m * k + k * n + m * n) + start * v["threads"]

    return Law("matrix", columns, time_s)


def cache(random: Random) -> Law:
    """The cost per byte steps up when the data no longer fit into a cache."""
    sizes = tuple(2**k for k in range(3, 13))
    edges = 2 ** np.sort(random.uniform(3.5, 11, 2))
    cost = np.cumsum(random.uniform(0.3, 2.0, 3)) * some_cost(random)
    columns = (Column("size_kib", sizes, grows=True), Column("threads", (1, 2, 4, 8)))

    def time_s(v: Values) -> np.ndarray:
        per_kib = cost[np.searchsorted(edges, v["size_kib"])]
        return per_kib * v["size_kib"] / v["threads"] ** 0.9

    return Law("cache", columns, time_s)


SMOOTH = (
    amdahl, gustafson, usl, ernest, power, cluster, plateau, cliff, options, modes, matrix, cache,
)  # fmt: skip


# --- What laws are made of -----------------------------------------------------------------------


def some_cost(random: Random) -> float:
    return float(10 ** random.uniform(-2, 3))


def count_column(name: str, first: int, random: Random) -> Column:
    """A number of nodes or threads: by doubling, or in steps."""
    if random.random() < 0.5:
        values = tuple(first * 2**k for k in range(int(random.integers(4, 7))))
    else:
        step = int(random.integers(1, 4))
        values = tuple(first + step * k for k in range(int(random.integers(5, 11))))
    return Column(name, values, grows=True)


def size_column(name: str, random: Random) -> Column:
    """An amount of data or work: three to seven values, each some times the one before."""
    ratio = float(random.choice([1.5, 2.0, 2.0, 4.0]))
    first = float(random.choice([0.5, 1.0, 10.0]))
    n_values = int(random.integers(3, 8))
    return Column(name, tuple(round(first * ratio**k, 3) for k in range(n_values)), grows=True)


def machine_speeds(random: Random) -> dict[str, float]:
    names = [f"m{i}" for i in range(int(random.integers(2, 6)))]
    return dict(zip(names, np.exp(random.normal(0, 0.5, len(names))).tolist(), strict=True))


def look_up(table: Mapping[str, float], names: np.ndarray) -> np.ndarray:
    return np.array([table[name] for name in names])
