"""Made-up performance tables whose truth is known everywhere, drawn from a seed.

Each family is one way in which times come about: work divided among nodes with overheads, power
laws, plateaus, memory cliffs, options with interactions, modes. A task draws a law of its family,
a design (grid, fraction of a grid, random; 5 to 500 rows; repeats or none), noise (with heavy tails
or without) and a kind of question. Methods and constants are chosen on these tables; the real ones
judge them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

TARGET = "time_s"
KINDS = ("holdout", "between", "beyond", "few")
#: By how much the largest rows of a task beyond the data exceed those trained on.
DISTANCES = (1.5, 2.0, 4.0)

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
    """A made-up job: its settings, and its true time in seconds at any of their values."""

    family: str
    columns: tuple[Column, ...]
    time_s: Callable[[Values], np.ndarray]

    def truth(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the time of each row, without noise."""
        values = {c.name: frame[c.name].to_numpy() for c in self.columns}
        return np.asarray(self.time_s(values), dtype=float)


@dataclass(frozen=True)
class Noise:
    """How runs of one configuration differ: a spread, and a share of runs that are much slower."""

    spread: float
    outliers: float

    def draw(self, true_s: np.ndarray, random: Random) -> np.ndarray:
        """Return one run of each."""
        factor = np.exp(random.normal(0, self.spread, len(true_s)))
        is_slow = random.random(len(true_s)) < self.outliers
        return true_s * np.where(is_slow, factor * random.uniform(1.3, 3.0, len(true_s)), factor)


@dataclass(frozen=True)
class SyntheticTask:
    """Runs to train on, and rows to predict, with their true times and one noisy run of each.

    ``distance`` is the ratio by which each row leaves the measured range; 1 inside.
    """

    name: str
    family: str
    kind: str
    train: pd.DataFrame
    test: pd.DataFrame
    truth: np.ndarray
    distance: np.ndarray
    law: Law
    noise: Noise


# --- Families of laws ----------------------------------------------------------------------------


def amdahl(random: Random) -> Law:
    """A serial part, and work divided among threads."""
    serial, work = random.uniform(0.02, 0.4), _size(random)
    columns = (_count("threads", 1, random), _sizes("size", random))
    return Law(
        "amdahl", columns, lambda v: work * v["size"] * (serial + (1 - serial) / v["threads"])
    )


def gustafson(random: Random) -> Law:
    """The work of each node is a setting, and overhead grows with the nodes."""
    start, work = _size(random), _size(random)
    overhead, power = work * random.uniform(0.01, 0.3), random.uniform(0.2, 1.0)
    columns = (_count("nodes", 1, random), _sizes("per_node", random))
    return Law(
        "gustafson",
        columns,
        lambda v: start + work * v["per_node"] + overhead * v["nodes"] ** power,
    )


def usl(random: Random) -> Law:
    """The universal scalability law: contention, and coherency that makes more nodes slower."""
    contention, coherency = random.uniform(0.005, 0.1), 10 ** random.uniform(-4.5, -2)
    work, power = _size(random), random.uniform(0.8, 1.2)
    columns = (_count("nodes", 1, random), _sizes("size", random))

    def time_s(v: Values) -> np.ndarray:
        n = v["nodes"].astype(float)
        slowdown = 1 + contention * (n - 1) + coherency * n * (n - 1)
        return work * v["size"] ** power * slowdown / n

    return Law("usl", columns, time_s)


def ernest(random: Random) -> Law:
    """Ernest's sum: a constant, data per node, a tree of messages, one message per node."""
    work = _size(random)
    shares = random.uniform(0, 0.3, 3) * work * (random.random(3) < 0.7)
    columns = (_count("nodes", 1, random), _sizes("data_gb", random))

    def time_s(v: Values) -> np.ndarray:
        n, data = v["nodes"].astype(float), v["data_gb"].astype(float)
        return work * data / n + 4 * shares[0] + shares[1] * np.log2(n + 1) + 0.1 * shares[2] * n

    return Law("ernest", columns, time_s)


def power(random: Random) -> Law:
    """A product of powers of two to five columns, which may include a machine."""
    n_columns = int(random.integers(2, 6))
    powers = random.choice([-1.0, -0.7, 0.3, 0.5, 1.0, 1.0, 1.5, 2.0], n_columns)
    scale = _size(random)
    columns = [_sizes(f"p{i}", random) for i in range(n_columns)]
    speeds = _speeds(random) if random.random() < 0.5 else None
    if speeds is not None:
        columns.append(Column("machine", tuple(speeds)))

    def time_s(v: Values) -> np.ndarray:
        product = scale * np.prod([v[f"p{i}"] ** p for i, p in enumerate(powers)], axis=0)
        return product if speeds is None else product / _of(speeds, v["machine"])

    return Law("power", tuple(columns), time_s)


def cluster(random: Random) -> Law:
    """A sum with overheads that makes a U in the nodes, and a speed for each machine."""
    work, speeds = _size(random) * 10, _speeds(random)
    batch_cost = random.uniform(0, 30)
    largest = work * random.uniform(5, 30)
    log_cost, node_cost, start = (
        largest * random.uniform(0.001, 0.05),
        largest * random.uniform(0.0003, 0.01),
        largest * random.uniform(0.005, 0.1),
    )
    columns = (
        _count("nodes", 1, random),
        _sizes("data_gb", random),
        Column("batch", (16, 32, 64, 128, 256), grows=True),
        Column("machine", tuple(speeds)),
    )

    def time_s(v: Values) -> np.ndarray:
        n = v["nodes"].astype(float)
        compute = (
            work * v["data_gb"] / (_of(speeds, v["machine"]) * n) * (1 + batch_cost / v["batch"])
        )
        return compute + log_cost * np.log2(n + 1) + node_cost * n + start

    return Law("cluster", columns, time_s)


def plateau(random: Random) -> Law:
    """Only so many tasks run at once: more nodes than that are idle."""
    work, tasks = _size(random), random.choice([8, 12, 16, 24])
    start = work * random.uniform(0.1, 2)
    columns = (_count("nodes", 1, random), _sizes("size", random), Column("cores", (1, 2, 4)))

    def time_s(v: Values) -> np.ndarray:
        waves = np.maximum(1.0, tasks / (v["nodes"] * v["cores"]))
        return start + work * v["size"] * waves

    return Law("plateau", columns, time_s)


def cliff(random: Random) -> Law:
    """Where data exceed the memory of all nodes, they are read from disk again and again."""
    work, speeds = _size(random), _speeds(random)
    needed, slower = 2 ** random.uniform(3.5, 8), random.uniform(1.5, 8)
    overhead = work * random.uniform(0, 0.03)
    columns = (
        _count("nodes", 2, random),
        Column("memory_gb", (4, 8, 16, 32, 64), grows=True),
        Column("vcpus", (2, 4, 8), grows=True),
        Column("family", tuple(speeds)),
    )

    def time_s(v: Values) -> np.ndarray:
        cores = v["nodes"] * v["vcpus"]
        fits = v["nodes"] * v["memory_gb"] >= needed
        compute = 30 * work / (_of(speeds, v["family"]) * cores**0.8)
        return compute * np.where(fits, 1.0, slower) + overhead * v["nodes"] + work

    return Law("cliff", columns, time_s)


def options(random: Random) -> Law:
    """Up to 16 switches, of which a few matter and some interact."""
    n_options = int(random.integers(6, 17))
    effect = random.normal(0, 0.3, n_options) * (random.random(n_options) < 0.5)
    n_pairs = int(random.integers(1, 4))
    pairs = [random.choice(n_options, 2, replace=False) for _ in range(n_pairs)]
    strength = random.normal(0, 0.6, n_pairs)
    base = _size(random)
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
    cost = dict(zip(names, _size(random) * np.exp(random.normal(0, 1.0, len(names))), strict=True))
    of_size = dict(zip(names, random.uniform(0.6, 1.4, len(names)), strict=True))
    of_level = dict(zip(names, random.uniform(0, 0.4, len(names)), strict=True))
    columns = (
        Column("mode", names),
        _sizes("size", random),
        Column("level", tuple(range(1, 10))),
        _count("threads", 1, random),
    )
    serial = random.uniform(0.02, 0.5)

    def time_s(v: Values) -> np.ndarray:
        work = _of(cost, v["mode"]) * v["size"] ** _of(of_size, v["mode"])
        return (
            work
            * np.exp(_of(of_level, v["mode"]) * v["level"])
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
    cost = np.cumsum(random.uniform(0.3, 2.0, 3)) * _size(random)
    columns = (Column("size_kib", sizes, grows=True), Column("threads", (1, 2, 4, 8)))

    def time_s(v: Values) -> np.ndarray:
        per_kib = cost[np.searchsorted(edges, v["size_kib"])]
        return per_kib * v["size_kib"] / v["threads"] ** 0.9

    return Law("cache", columns, time_s)


FAMILIES: Mapping[str, Callable[[Random], Law]] = {
    f.__name__: f
    for f in (
        amdahl, gustafson, usl, ernest, power, cluster,
        plateau, cliff, options, modes, matrix, cache,
    )
}  # fmt: skip


# --- Tasks ---------------------------------------------------------------------------------------


def draw_tasks(
    families: Sequence[str] = tuple(FAMILIES),
    kinds: Sequence[str] = KINDS,
    seeds: Sequence[int] = (0, 1, 2),
) -> Iterator[SyntheticTask]:
    """Draw one task of each family, kind and seed that can ask such a question."""
    for family in families:
        for kind in kinds:
            for seed in seeds:
                task = draw_task(family, kind, seed)
                if task is not None:
                    yield task


def draw_law(family: str, seed: int, *more: int) -> tuple[Law, Noise, Random]:
    """Draw a law, its noise, and the source of what else is drawn."""
    random = np.random.default_rng([zlib.crc32(family.encode()), seed, *more])
    law = FAMILIES[family](random)
    noise = Noise(float(random.choice([0.01, 0.03, 0.1])), float(random.choice([0.0, 0.0, 0.05])))
    return law, noise, random


def draw_task(family: str, kind: str, seed: int) -> SyntheticTask | None:
    """Draw a task, or None where the family has no column for such a question."""
    law, noise, random = draw_law(family, seed, KINDS.index(kind))
    grid = _grid(law, random)
    cut = _CUTS[kind](law, grid, random)
    if cut is None:
        return None
    train, test = cut
    n_repeats = int(random.choice([1, 1, 2, 3]))
    train = train.loc[np.repeat(train.index, n_repeats)].reset_index(drop=True)
    train[TARGET] = noise.draw(law.truth(train), random)
    truth = law.truth(test)
    test = test.assign(**{TARGET: noise.draw(truth, random)}).reset_index(drop=True)
    return SyntheticTask(
        f"{family}--{kind}-{seed}", family, kind, train, test, truth,
        _distance(law, train, test), law, noise,
    )  # fmt: skip


def configurations(law: Law) -> pd.DataFrame:
    """Return the whole grid of a law."""
    axes = [np.array(c.values, dtype=object) for c in law.columns]
    mesh = np.meshgrid(*axes, indexing="ij")
    frame = pd.DataFrame({c.name: m.ravel() for c, m in zip(law.columns, mesh, strict=True)})
    return frame.infer_objects()


def _grid(law: Law, random: Random) -> pd.DataFrame:
    """Draw a design: the whole grid, a fraction of it, or random values; 500 rows at most."""
    if random.random() < 0.25 and all(c.grows or isinstance(c.values[0], str) for c in law.columns):
        return _random_design(law, int(random.integers(60, 400)), random)
    n_cells = np.prod([float(len(c.values)) for c in law.columns])
    if n_cells > 20_000:
        frame = pd.DataFrame({c.name: random.choice(c.values, 4_000) for c in law.columns})
        frame = frame.drop_duplicates()
    else:
        frame = configurations(law)
    most = int(random.choice([60, 120, 250, 500]))
    if len(frame) > most:
        frame = frame.iloc[np.sort(random.permutation(len(frame))[:most])]
    return frame.reset_index(drop=True)


def _random_design(law: Law, n_rows: int, random: Random) -> pd.DataFrame:
    drawn = {}
    for column in law.columns:
        if isinstance(column.values[0], str):
            drawn[column.name] = random.choice(column.values, n_rows)
        else:
            low, high = np.log(column.values[0]), np.log(column.values[-1])
            values = np.exp(random.uniform(low, high, n_rows))
            is_whole = all(isinstance(v, int) for v in column.values)
            drawn[column.name] = np.rint(values).astype(int) if is_whole else values.round(3)
    return pd.DataFrame(drawn)


def _holdout(law: Law, grid: pd.DataFrame, random: Random) -> tuple[pd.DataFrame, pd.DataFrame]:
    held = random.permutation(len(grid)) < max(4, len(grid) // 5)
    return grid[~held], grid[held]


def _between(
    law: Law, grid: pd.DataFrame, random: Random
) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    column = _cut_column(law, grid, random, n_values=5)
    if column is None:
        return None
    values = np.unique(grid[column.name])
    inner = values[1:-1]
    held = grid[column.name].isin(random.choice(inner, max(1, len(inner) // 3), replace=False))
    return grid[~held], grid[held]


def _beyond(
    law: Law, grid: pd.DataFrame, random: Random
) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Train on all; ask about 1.5, 2 and 4 times the largest value of a column."""
    column = _cut_column(law, grid, random, n_values=3)
    if column is None:
        return None
    largest = float(grid[column.name].max())
    asked = []
    for ratio in DISTANCES:
        rows = grid.iloc[random.permutation(len(grid))[: max(10, len(grid) // 8)]]
        value = largest * ratio
        is_whole = np.issubdtype(grid[column.name].dtype, np.integer)
        asked.append(rows.assign(**{column.name: round(value) if is_whole else value}))
    return grid, pd.concat(asked).drop_duplicates()


def _few(law: Law, grid: pd.DataFrame, random: Random) -> tuple[pd.DataFrame, pd.DataFrame]:
    n_train = min(int(random.choice([5, 8, 12, 20, 30, 45, 60])), len(grid) // 2)
    order = random.permutation(len(grid))
    return grid.iloc[np.sort(order[:n_train])], grid.iloc[np.sort(order[n_train:])]


_CUTS = {"holdout": _holdout, "between": _between, "beyond": _beyond, "few": _few}


def _cut_column(law: Law, grid: pd.DataFrame, random: Random, n_values: int) -> Column | None:
    fitting = [c for c in law.columns if c.grows and grid[c.name].nunique() >= n_values]
    return fitting[int(random.integers(len(fitting)))] if fitting else None


def _distance(law: Law, train: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    ratio = np.ones(len(test))
    for column in law.columns:
        if column.grows:
            low, high = float(train[column.name].min()), float(train[column.name].max())
            values = test[column.name].to_numpy(dtype=float)
            ratio = np.maximum(ratio, np.maximum(values / high, low / values))
    return ratio


# --- What laws are made of -----------------------------------------------------------------------


def _size(random: Random) -> float:
    return float(10 ** random.uniform(-2, 3))


def _count(name: str, first: int, random: Random) -> Column:
    """A number of nodes or threads: by doubling, or in steps."""
    if random.random() < 0.5:
        values = tuple(first * 2**k for k in range(int(random.integers(4, 7))))
    else:
        step = int(random.integers(1, 4))
        values = tuple(first + step * k for k in range(int(random.integers(5, 11))))
    return Column(name, values, grows=True)


def _sizes(name: str, random: Random) -> Column:
    """An amount of data or work: three to seven values, each some times the one before."""
    ratio = float(random.choice([1.5, 2.0, 2.0, 4.0]))
    first = float(random.choice([0.5, 1.0, 10.0]))
    n_values = int(random.integers(3, 8))
    return Column(name, tuple(round(first * ratio**k, 3) for k in range(n_values)), grows=True)


def _speeds(random: Random) -> dict[str, float]:
    names = [f"m{i}" for i in range(int(random.integers(2, 6)))]
    return dict(zip(names, np.exp(random.normal(0, 0.5, len(names))).tolist(), strict=True))


def _of(table: Mapping[str, float], names: np.ndarray) -> np.ndarray:
    return np.array([table[name] for name in names])
