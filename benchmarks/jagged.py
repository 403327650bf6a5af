"""Made-up laws of jagged tables: switches, modes, bottlenecks and rules in the place of amounts.

Few rows say little about them: a setting may matter only together with others, a step may be
anywhere, and the times of one table may span orders of magnitude.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.laws import Column, Law, Random, Values, count_column, size_column, some_cost


def switches(random: Random) -> Law:
    """Dozens of switches, some of which exclude each other; one of them may begin a new regime."""
    free = [f"s{i}" for i in range(int(random.integers(5, 21)))]
    groups = [
        [f"g{i}_{k}" for k in range(int(random.integers(3, 6)))]
        for i in range(int(random.integers(0, 4)))
    ]
    names = [*free, *(name for group in groups for name in group)]
    effect = _heavy(random, 0.15, len(names)) * (random.random(len(names)) < 0.4)
    pairs = [random.choice(len(names), 2, replace=False) for _ in range(random.integers(1, 8))]
    strength = _heavy(random, 0.2, len(pairs))
    regime = random.choice(len(names), int(random.integers(1, 3)), replace=False)
    jump = random.normal(0, 1.2) * (random.random() < 0.5)
    other = _heavy(random, 0.15, len(names)) * (random.random(len(names)) < 0.3)
    base, is_sum = some_cost(random), random.random() < 0.5

    def time_s(v: Values) -> np.ndarray:
        on = np.column_stack([v[name] for name in names]).astype(float)
        total = on @ effect
        for (a, b), size in zip(pairs, strength, strict=True):
            total = total + size * on[:, a] * on[:, b]
        in_regime = on[:, regime].all(axis=1) * (jump != 0)
        total = total + in_regime * (jump + on @ other)
        return base * (0.2 + np.logaddexp(0.0, 2 * total) if is_sum else np.exp(total))

    def draw(random: Random, n_rows: int) -> pd.DataFrame:
        drawn = {name: random.integers(0, 2, n_rows) for name in free}
        for group in groups:
            chosen = random.integers(0, len(group), n_rows)
            drawn |= {name: (chosen == k).astype(int) for k, name in enumerate(group)}
        return pd.DataFrame(drawn)

    return Law("switches", tuple(Column(name, (0, 1)) for name in names), time_s, draw)


def codec(random: Random) -> Law:
    """A compressor: what a level costs, and which settings count, differs from mode to mode."""
    modes = tuple(f"mode{i}" for i in range(int(random.integers(4, 9))))
    inputs = tuple(f"input{i}" for i in range(int(random.integers(2, 5))))
    n_levels, n_modes = int(random.choice([5, 9])), len(modes)
    jumps = random.exponential(0.3, (n_modes, n_levels)) * (
        random.random((n_modes, n_levels)) < 0.6
    )
    of_level = np.cumsum(jumps, axis=1) * (random.random((n_modes, 1)) < 0.8)
    of_mode = random.normal(0, 1.0, n_modes)
    of_input = random.normal(0, 0.5, len(inputs)) + random.normal(0, 0.3, (n_modes, len(inputs)))
    edge, of_block = 2 ** random.uniform(6, 12, n_modes), random.normal(0, 0.4, n_modes)
    is_parallel, cost = random.random(n_modes) < 0.5, some_cost(random)
    columns = (
        Column("mode", modes),
        Column("level", tuple(range(1, n_levels + 1))),
        Column("input", inputs),
        Column("block_kib", (64, 256, 1024, 4096)),
        Column("threads", (1, 2, 4)),
        size_column("size", random),
    )

    def time_s(v: Values) -> np.ndarray:
        mode, kind = _codes(modes, v["mode"]), _codes(inputs, v["input"])
        log = of_mode[mode] + of_level[mode, v["level"] - 1] + of_input[mode, kind]
        log = log + of_block[mode] * (v["block_kib"] > edge[mode])
        log = log - 0.9 * np.log(v["threads"]) * is_parallel[mode]
        return cost * v["size"] * np.exp(log)

    return Law("codec", columns, time_s)


def stream(random: Random) -> Law:
    """A chain of operators: the slowest decides, and near its limit everything waits."""
    names = [f"operator{i}" for i in range(int(random.integers(2, 6)))]
    rate = np.exp(random.normal(0, 0.6, len(names)))
    load = float(np.exp(random.uniform(-0.5, 1.5)))
    start, wait = some_cost(random), random.uniform(0.5, 5)
    shapes = {"batch": (1, 10, 100, 1000), "ackers": (0, 1, 2, 4), "kib": (1, 10, 100)}
    used = [name for name in shapes if random.random() < 0.6]
    power = dict(zip(shapes, random.normal(0, 0.3, len(shapes)), strict=True))
    columns = [count_column(name, 1, random) for name in names]
    columns += [Column(name, shapes[name]) for name in used]

    def time_s(v: Values) -> np.ndarray:
        capacity = np.column_stack([v[n] ** 0.9 * r for n, r in zip(names, rate, strict=True)])
        busy = load / capacity
        for name in used:
            busy = busy * ((v[name] + 1.0) ** power[name])[:, None]
        queue = 1 / np.maximum(1 - busy, 0.02) + 100 * np.maximum(busy - 1, 0)
        return start * (1 + wait * queue.sum(axis=1))

    return Law("stream", tuple(columns), time_s)


def kernel(random: Random) -> Law:
    """A tuned kernel: blocks and tiles that fill a machine unevenly, and too few registers."""
    columns = (
        Column("block_x", (8, 16, 32, 64, 128)),
        Column("block_y", (1, 2, 4, 8, 16)),
        Column("tile_x", (1, 2, 4, 8)),
        Column("tile_y", (1, 2, 4, 8)),
        Column("unroll", (0, 1)),
        Column("shared", (0, 1)),
    )
    registers, per_tile = random.uniform(10, 30), random.uniform(1, 6)
    most, warp = float(random.choice([64, 128, 255])), int(random.choice([16, 32]))
    gain = random.normal(0, 0.3, 2)
    spill, reuse, cost = random.uniform(1.5, 4), random.uniform(0.1, 0.6), some_cost(random)

    def time_s(v: Values) -> np.ndarray:
        threads, tile = v["block_x"] * v["block_y"], v["tile_x"] * v["tile_y"]
        needed = registers + per_tile * tile * (1 + 0.5 * v["unroll"])
        blocks = np.maximum(1, np.floor(65536 / (needed * threads)))
        occupancy = np.minimum(1.0, blocks * threads / 2048)
        lanes = np.ceil(threads / warp) * warp / threads
        time = lanes * (0.3 + 1 / (0.2 + occupancy)) * np.where(needed > most, spill, 1.0)
        time = time * (1 + tile**-0.5 * np.where(v["shared"], reuse, 1.0))
        return cost * time * np.exp(gain[0] * v["unroll"] + gain[1] * v["shared"])

    return Law("kernel", columns, time_s)


def rules(random: Random) -> Law:
    """Amounts with powers, categories and switches; rules of two or three conditions on top."""
    columns = [size_column(f"a{i}", random) for i in range(int(random.integers(1, 4)))]
    powers = random.choice([-0.7, -0.3, 0.0, 0.0, 0.5, 1.0], len(columns))
    n_amounts = len(columns)
    for i in range(int(random.integers(1, 4))):
        names = tuple(f"c{i}_{k}" for k in range(int(random.integers(2, 6))))
        columns.append(Column(f"c{i}", names))
    columns += [Column(f"s{i}", (0, 1)) for i in range(int(random.integers(0, 5)))]
    of_value = [_heavy(random, 0.25, len(column.values)) for column in columns[n_amounts:]]
    conditions = []
    for _ in range(int(random.integers(1, 5))):
        chosen = random.choice(len(columns), min(len(columns), int(random.integers(2, 4))), False)
        edges = {int(j): int(random.integers(1, len(columns[j].values))) for j in chosen}
        conditions.append((edges, random.normal(0, 0.8)))
    cost = some_cost(random)

    def time_s(v: Values) -> np.ndarray:
        places = [_places(column, v[column.name]) for column in columns]
        log = np.zeros(len(places[0]))
        for column, power in zip(columns[:n_amounts], powers, strict=True):
            log += power * np.log(v[column.name].astype(float))
        for place, effect in zip(places[n_amounts:], of_value, strict=True):
            log += effect[place]
        for edges, size in conditions:
            log += size * np.all([places[j] >= edge for j, edge in edges.items()], axis=0)
        return cost * np.exp(log)

    return Law("rules", tuple(columns), time_s)


JAGGED = (switches, codec, stream, kernel, rules)


def _heavy(random: Random, size: float, n: int) -> np.ndarray:
    """Draw effects of which a few are much larger than the others."""
    return np.clip(size * random.standard_t(2, n), -2.0, 2.0)


def _codes(names: tuple[str, ...], values: np.ndarray) -> np.ndarray:
    return np.array([names.index(value) for value in values])


def _places(column: Column, values: np.ndarray) -> np.ndarray:
    """Return the position of each value among those of its column, or where it would be."""
    if isinstance(column.values[0], str):
        return _codes(column.values, values)
    return np.searchsorted(np.array(column.values, dtype=float), values.astype(float), "right") - 1
