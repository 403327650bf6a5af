"""A network that learns from made-up tables how tables of runs go on: trained, and judged.

    python -m benchmarks.prior_network train FOLDER [--minutes 60]
    python -m benchmarks.prior_network judge FOLDER TASKS

A prior-fitted network (Müller et al. 2022, Hollmann et al. 2025) is not fitted to a table: it reads
the measured rows, and predicts others. Training draws tables from the laws of `laws.py` and
`jagged.py`. Judging compares automatic mode with and without the network as one more member, on a
folder of tasks: each a folder FAMILY-WORKLOAD--KIND with train.csv, test.csv, and meta.json, which
names the target.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import foretell
from benchmarks.laws import Law, Random
from benchmarks.synthetic import DISTANCES, FAMILIES
from foretell.model.automatic.bench import Bench
from foretell.model.techniques import Regressor, State
from foretell.model.techniques.processes._process import Points

Array = NDArray[np.float64]
Values = dict[tuple[int, str], np.ndarray]

_MOST_COLUMNS, _MOST_ROWS, _N_ASKED = 12, 120, 24
#: How many random numbers tell levels, and columns, apart; and how many features tokens have.
_N_CODES = 6
_N_CELL, _N_TARGET = 8 + 2 * _N_CODES, 8
_WIDTH, _N_LAYERS, _N_HEADS, _N_NORMALS = 64, 4, 2, 5
_BATCH, _N_BATCHES, _RATE, _WARM_UP = 8, 16, 2e-3, 200
_MOST_READ, _N_DRAWS, _N_AT_ONCE = 200, 2, 256
NAME = "PriorNetwork"
_LEAST_ERROR = 0.005  # smaller errors count as equal


# --- Made-up tables ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Drawn:
    """Configurations with their measured log target, and others with the true one."""

    known: dict[str, np.ndarray]
    asked: dict[str, np.ndarray]
    log_y: Array
    n_runs: int
    truth: Array


def draw_table(random: Random) -> Drawn:
    """Draw a law, or a product of two, until one makes a table of a suitable size."""
    while True:
        families = random.choice(list(FAMILIES), 1 if random.random() < 0.7 else 2, replace=False)
        laws = [FAMILIES[family](random) for family in families]
        if sum(len(law.columns) for law in laws) <= _MOST_COLUMNS - 2:
            most = int(np.exp(random.uniform(np.log(10), np.log(_MOST_ROWS))))
            values = _draw_values(laws, most + 2 * _N_ASKED, random)
            is_asked = _ask(laws, values, most, random)
            known, asked = np.flatnonzero(~is_asked)[:most], np.flatnonzero(is_asked)[:_N_ASKED]
            if len(known) >= 6 and len(asked) >= 3:
                both = np.concatenate([known, asked])
                taken = {key: v[both] for key, v in values.items()}
                return _measure(laws, taken, len(known), random)


def _draw_values(laws: Sequence[Law], n_rows: int, random: Random) -> Values:
    """Draw different configurations, in random order."""
    is_free = random.random() < 0.2
    values: Values = {}
    for i, law in enumerate(laws):
        frame = None if law.draw is None else law.draw(random, n_rows)
        for c in law.columns:
            if frame is not None:
                values[i, c.name] = frame[c.name].to_numpy()
            elif is_free and c.grows:
                ends = np.log(c.values[0]), np.log(c.values[-1])
                free = np.exp(random.uniform(*ends, n_rows))
                is_whole = isinstance(c.values[0], int)
                values[i, c.name] = np.rint(free).astype(int) if is_whole else free
            else:
                values[i, c.name] = np.array(c.values)[random.integers(0, len(c.values), n_rows)]
    codes = np.column_stack([np.unique(v, return_inverse=True)[1] for v in values.values()])
    first = np.unique(codes, axis=0, return_index=True)[1]
    first = first[random.permutation(len(first))]
    return {key: v[first] for key, v in values.items()}


def _ask(laws: Sequence[Law], values: Values, most: int, random: Random) -> NDArray[np.bool_]:
    """Choose what is asked: any rows, or those between or beyond the values of a column.

    Where values several times the largest are asked, they are written into the table.
    """
    n_rows = len(next(iter(values.values())))
    is_asked = np.arange(n_rows) >= min(most, n_rows * 3 // 4)
    growing = [(i, c.name) for i, law in enumerate(laws) for c in law.columns if c.grows]
    growing = [key for key in growing if len(np.unique(values[key])) > 3]
    if not growing or random.random() >= 0.7:
        return is_asked
    key = growing[random.integers(len(growing))]
    column = values[key]
    levels = np.unique(column)
    kind = random.choice(4)
    if kind == 0:
        return np.isin(column, random.choice(levels[1:-1], max(1, len(levels) // 3), False))
    if kind == 1:
        return np.asarray(column >= levels[-int(random.integers(1, max(2, len(levels) // 2)))])
    if kind == 2 and random.random() < 0.5:
        return np.asarray(column <= levels[int(random.integers(0, max(1, len(levels) // 3)))])
    far = float(column.max()) * random.choice(DISTANCES, n_rows)
    if np.issubdtype(column.dtype, np.integer):
        far = np.rint(far).astype(int)
    values[key] = np.where(is_asked, far, column)
    return is_asked


def _measure(laws: Sequence[Law], values: Values, n_known: int, random: Random) -> Drawn:
    """Compute true times, and add what no law says, derived columns, and noise."""
    log = np.zeros(len(next(iter(values.values()))))
    for i, law in enumerate(laws):
        own = law.time_s({name: v for (j, name), v in values.items() if j == i})
        log += np.log(own) * (1.0 if i == 0 else random.uniform(0.3, 1.0))
    named = {f"{i}{name}": v for (i, name), v in values.items()}
    numeric = [n for n, v in named.items() if v.dtype.kind in "if" and v.min() > 0]
    if numeric and random.random() < 0.3:
        z = np.column_stack([np.log(named[n].astype(float)) for n in numeric])
        z = (z - z[:n_known].mean(axis=0)) / (z[:n_known].std(axis=0) + 1e-9)
        waves = random.normal(0, 1.0, (len(numeric), 4)) / np.sqrt(len(numeric))
        height = 10 ** random.uniform(-2, -0.7)
        log += height * np.sin(z @ waves + random.uniform(0, 6.3, 4)).sum(axis=1)
    _derive(named, numeric, random)
    n_runs = int(random.choice([1, 1, 1, 2, 3, 5]))
    spread, slow = 10 ** random.uniform(-2.5, -0.8), random.choice([0.0, 0.0, 0.05])
    runs = random.normal(0, spread, (n_known, n_runs))
    runs += np.log(random.uniform(1.3, 3.0, runs.shape)) * (random.random(runs.shape) < slow)
    log_y = log[:n_known] + np.median(runs, axis=1)
    kept = [n for n, v in named.items() if len(np.unique(v[:n_known])) > 1] or list(named)[:1]
    known, asked = ({n: named[n][rows] for n in kept} for rows in np.s_[:n_known, n_known:])
    return Drawn(known, asked, log_y, n_runs, log[n_known:])


def _derive(named: dict[str, np.ndarray], numeric: list[str], random: Random) -> None:
    """Add products of columns, numbers that a category decides, and columns without effect."""
    texts = [n for n, v in named.items() if v.dtype.kind == "U"]
    n_rows = len(next(iter(named.values())))
    for _ in range(int(random.choice([0, 0, 1, 2]))):
        kind = random.choice(3)
        name = f"derived{len(named)}"
        if kind == 0 and len(numeric) > 1:
            a, b = random.choice(numeric, 2, replace=False)
            named[name] = named[a] * named[b].astype(float)
        elif kind == 1 and texts:
            levels, code = np.unique(named[random.choice(texts)], return_inverse=True)
            named[name] = (2.0 ** random.integers(0, 4, len(levels)))[code]
            if numeric and random.random() < 0.5:
                named[name] = named[name] * named[random.choice(numeric)]
        elif kind == 2:
            named[name] = 2.0 ** random.integers(0, int(random.choice([2, 4])), n_rows)


# --- What the network sees -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tokens:
    """A table as numbers: cells (rows × columns × features), targets (rows × features).

    Predictions are ``base + scale * output``, in logarithms.
    """

    cells: NDArray[np.float32]
    targets: NDArray[np.float32]
    n_known: int
    base: Array
    scale: float


def tokenize(
    known: Mapping[str, np.ndarray],
    asked: Mapping[str, np.ndarray],
    log_y: Array,
    n_runs: Array,
    random: Random,
) -> Tokens:
    """Standardize columns and target on the measured rows."""
    n_known = len(log_y)
    columns = [_column(np.concatenate([known[n], asked[n]]), n_known, random) for n in known]
    mean, spread = float(log_y.mean()), max(float(log_y.std()), 1e-6)
    y = (log_y - mean) / spread
    basis = np.column_stack([term for _, terms in columns for term in terms])
    base, left_out, error = _ridge(basis, y, n_known)
    targets = np.zeros((len(basis), _N_TARGET))
    targets[:n_known, 0] = y
    targets[:n_known, 1] = np.clip((y - left_out) / error, -8, 8)
    targets[:n_known, 2] = 1.0
    targets[:n_known, 3] = np.log(n_runs)
    targets[:, 4] = np.clip(np.concatenate([left_out, base[n_known:]]), -8, 8)
    targets[:, 5:] = np.log([spread, error, n_known / 30])
    cells = np.stack([cell for cell, _ in columns], axis=1).astype(np.float32)
    scale = spread * error
    return Tokens(cells, targets.astype(np.float32), n_known, mean + spread * base, scale)


def _column(values: np.ndarray, n_known: int, random: Random) -> tuple[Array, list[Array]]:
    """Return the features of a column's cells, and its terms of the ridge regression."""
    cell = np.zeros((len(values), _N_CELL))
    cell[:, 8 + _N_CODES :] = random.normal(0, 1, _N_CODES)
    if values.dtype.kind not in "biuf":
        levels, code = np.unique(values, return_inverse=True)
        cell[:, 7] = 1.0
        cell[:, 8 : 8 + _N_CODES] = random.normal(0, 1, (len(levels), _N_CODES))[code]
        cell[:, 4] = np.log(len(levels)) - 1
        return cell, [0.7 * (code == k) for k in range(len(levels))]
    levels = np.unique(values[:n_known])
    x, is_log = _coordinate(values.astype(float), levels)
    mean, spread = x[:n_known].mean(), max(float(x[:n_known].std()), 1e-9)
    z = (x - mean) / spread
    terms = [z]
    if is_log and len(levels) > 2:
        v = np.exp(np.clip(mean - x, -4, 4))
        slope, start = np.polyfit(z[:n_known], v[:n_known], 1)
        cell[:, 1] = v - start - slope * z
        terms.append(cell[:, 1].copy())
    cell[:, 0] = z
    cell[:, 2] = np.maximum(z - z[:n_known].max(), 0)
    cell[:, 3] = np.maximum(z[:n_known].min() - z, 0)
    cell[:, 4] = np.log(len(levels)) - 1
    cell[:, 5] = np.log(spread) if is_log else 0.0
    cell[:, 6] = float(is_log)
    return np.clip(cell, -8, 8), terms


def _coordinate(values: Array, levels: np.ndarray) -> tuple[Array, bool]:
    """Return the log of a column of positive numbers, or the column itself."""
    positive = levels[levels > 0]
    if levels[0] == 0 and len(levels) > 2 and positive[-1] > 20 * positive[0]:
        values = values + positive[0]
    elif levels[0] <= 0:
        return values, False
    return np.log(np.maximum(values, 1e-12)), True


def _ridge(basis: Array, y: Array, n_known: int) -> tuple[Array, Array, float]:
    """Return the prediction of each row, of each measured row without itself, and its error."""
    center = basis[:n_known].mean(axis=0)
    left, size, right = np.linalg.svd(basis[:n_known] - center, full_matrices=False)
    tried = []
    for penalty in (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0):
        shrunk = size**2 / (size**2 + penalty)
        share = (left**2) @ shrunk + 1 / n_known
        residual = (y - left @ (shrunk * (left.T @ y))) / np.maximum(1 - share, 0.05)
        tried.append((float(np.sqrt(np.mean(residual**2))), penalty, residual))
    error, penalty, residual = min(tried, key=lambda one: one[0])
    slopes = right.T @ (size / (size**2 + penalty) * (left.T @ y))
    base = np.clip((basis - center) @ slopes, -12, 12)
    return base, y - residual, max(error, 0.003)


# --- The network ---------------------------------------------------------------------------------


class Attention(nn.Module):  # type: ignore[misc]
    """Attention with several heads, of some tokens to others."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(_WIDTH)
        self.query = nn.Linear(_WIDTH, _WIDTH)
        self.pair = nn.Linear(_WIDTH, 2 * _WIDTH)
        self.out = nn.Linear(_WIDTH, _WIDTH)
        nn.init.zeros_(self.out.weight)

    def forward(self, x: Tensor, seen: Tensor, mask: Tensor) -> Tensor:
        """Return what is added to ``x``; ``mask`` is added to the logits."""
        n, t, _ = x.shape
        q = self.query(self.norm(x)).view(n, t, _N_HEADS, -1).transpose(1, 2)
        pair = self.pair(self.norm(seen)).view(n, seen.shape[1], 2, _N_HEADS, -1)
        k, v = pair[:, :, 0].transpose(1, 2), pair[:, :, 1].transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        added: Tensor = self.out(mixed.transpose(1, 2).reshape(n, t, _WIDTH))
        return added


class Layer(nn.Module):  # type: ignore[misc]
    """Attention within rows, then within columns, then a small network for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.within_rows, self.within_columns, self.of_targets = (Attention() for _ in range(3))
        self.relevance = nn.Sequential(nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, 2 * _N_HEADS))
        nn.init.zeros_(self.relevance[1].weight)
        with torch.no_grad():
            self.relevance[1].bias.copy_(torch.linspace(-3.0, 1.0, 2 * _N_HEADS))
        self.each = nn.Sequential(
            nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, 2 * _WIDTH), nn.GELU(),
            nn.Linear(2 * _WIDTH, _WIDTH),
        )  # fmt: skip

    def forward(self, x: Tensor, batch: Batch, is_last: bool) -> Tensor:
        """Return new tokens: tables × rows × columns × width; of the last layer, only targets."""
        b, r, c, d = x.shape
        n_known = batch.n_known
        row = x.reshape(b * r, c, d)
        of_columns = batch.column_mask[:, None].expand(b, r, c).reshape(b * r, 1, 1, c)
        changed = row[:, -1:] if is_last else row
        changed = (changed + self.within_rows(changed, row, of_columns)).view(b, r, -1, d)
        target = changed[:, :, -1]
        target = target + self.of_targets(target, target[:, :n_known], self._nearness(x, batch))
        if is_last:
            x = target[:, :, None]
        else:
            column = changed[:, :, :-1].transpose(1, 2).reshape(b * (c - 1), r, d)
            of_rows = batch.row_mask[:, None].expand(b, c - 1, n_known)
            of_rows = of_rows.reshape(b * (c - 1), 1, 1, n_known)
            column = column + self.within_columns(column, column[:, :n_known], of_rows)
            column = column.view(b, c - 1, r, d).transpose(1, 2)
            x = torch.cat([column, target[:, :, None]], dim=2)
        result: Tensor = x + self.each(x)
        return result

    def _nearness(self, x: Tensor, batch: Batch) -> Tensor:
        """Return what is added to logits: less for rows further apart in relevant columns."""
        is_known = (batch.row_mask == 0).float()[:, :, None, None]
        summary = (x[:, : batch.n_known, :-1] * is_known).sum(1) / is_known.sum(1)
        relevance = nn.functional.softplus(self.relevance(summary))
        first, second = relevance.chunk(2, dim=-1)
        far = torch.einsum("bijc,bch->bhij", batch.distance, first)
        far = far + torch.einsum("bijc,bch->bhij", batch.distance**2, second)
        return batch.row_mask[:, None, None] - far


class PriorNetwork(nn.Module):  # type: ignore[misc]
    """Cells and targets of tables to mixtures of normal distributions, for the asked rows."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Sequential(nn.Linear(_N_CELL, _WIDTH), nn.GELU(), nn.Linear(_WIDTH, _WIDTH))
        self.target = nn.Sequential(
            nn.Linear(_N_TARGET, _WIDTH), nn.GELU(), nn.Linear(_WIDTH, _WIDTH)
        )
        self.layers = nn.ModuleList([Layer() for _ in range(_N_LAYERS)])
        self.head = nn.Sequential(
            nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, 2 * _WIDTH), nn.GELU(),
            nn.Linear(2 * _WIDTH, 3 * _N_NORMALS),
        )  # fmt: skip

    def forward(self, batch: Batch) -> Tensor:
        """Return the numbers of the mixture of each asked row."""
        x = torch.cat([self.cell(batch.cells), self.target(batch.targets)[:, :, None]], dim=2)
        for i, layer in enumerate(self.layers):
            is_last = i == _N_LAYERS - 1
            x = layer(x, batch, is_last)
        out: Tensor = self.head(x[:, batch.n_known :, -1])
        return out


@dataclass(frozen=True, eq=False)
class Batch:
    """Tables of one size, padded; masks are 0 where there is something and -inf elsewhere."""

    cells: Tensor
    targets: Tensor
    column_mask: Tensor
    row_mask: Tensor
    n_known: int

    @cached_property
    def distance(self) -> Tensor:
        """How far each row is from each measured one, along each column."""
        z, code = self.cells[..., 0], self.cells[..., 8]
        is_other = (code[:, :, None] != code[:, None, : self.n_known]).float()
        apart = (z[:, :, None] - z[:, None, : self.n_known]).abs().clamp_max(3.0) + is_other
        is_column: Tensor = (self.column_mask[:, :-1] == 0).float()[:, None, None]
        return apart * is_column

    @classmethod
    def of(cls, tables: Sequence[Tokens]) -> Batch:
        """Put measured rows first, asked rows after them, the target after all columns."""
        n_known = max(t.n_known for t in tables)
        n_asked = max(len(t.cells) - t.n_known for t in tables)
        n_columns = max(t.cells.shape[1] for t in tables)
        cells = np.zeros((len(tables), n_known + n_asked, n_columns, _N_CELL), np.float32)
        targets = np.zeros((len(tables), n_known + n_asked, _N_TARGET), np.float32)
        column_mask = np.zeros((len(tables), n_columns + 1), np.float32)
        row_mask = np.zeros((len(tables), n_known), np.float32)
        for i, t in enumerate(tables):
            n, m, c = t.n_known, len(t.cells) - t.n_known, t.cells.shape[1]
            cells[i, :n, :c], cells[i, n_known : n_known + m, :c] = t.cells[:n], t.cells[n:]
            targets[i, :n], targets[i, n_known : n_known + m] = t.targets[:n], t.targets[n:]
            column_mask[i, c:-1], row_mask[i, n:] = -np.inf, -np.inf
        parts = [torch.from_numpy(a) for a in (cells, targets, column_mask, row_mask)]
        return cls(parts[0], parts[1], parts[2], parts[3], n_known)


def log_likelihood(out: Tensor, wanted: Tensor) -> Tensor:
    """Return the log density of each wanted value under its mixture."""
    weight, middle, width = _mixture(out)
    z = (wanted[..., None] - middle) / width
    each: Tensor = weight - 0.5 * z**2 - torch.log(width) - 0.5 * math.log(2 * math.pi)
    return torch.logsumexp(each, dim=-1)


def _mixture(out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    weight, middle, width = out.chunk(3, dim=-1)
    spread = torch.linspace(-1.0, 1.0, _N_NORMALS)
    width = 0.03 + nn.functional.softplus(width)
    return torch.log_softmax(weight, dim=-1), middle + spread, width


def median(out: Tensor) -> Tensor:
    """Return the median of each mixture, by bisection."""
    weight, middle, width = _mixture(out)
    low, high = (middle - 8 * width).amin(dim=-1), (middle + 8 * width).amax(dim=-1)
    for _ in range(40):
        half = (low + high) / 2
        below = (weight.exp() * torch.special.ndtr((half[..., None] - middle) / width)).sum(dim=-1)
        low, high = torch.where(below < 0.5, half, low), torch.where(below < 0.5, high, half)
    return (low + high) / 2


# --- Training ------------------------------------------------------------------------------------

#: A batch, the value to predict in each asked row, and which rows are asked.
Lesson = tuple[Batch, Tensor, Tensor]


def draw_lessons(random: Random, n_batches: int) -> list[Lesson]:
    """Draw tables, and put those of like size together."""
    made = []
    for _ in range(n_batches * _BATCH):
        drawn = draw_table(random)
        runs = np.full(len(drawn.log_y), float(drawn.n_runs))
        tokens = tokenize(drawn.known, drawn.asked, drawn.log_y, runs, random)
        wanted = (drawn.truth - tokens.base[tokens.n_known :]) / tokens.scale
        made.append((tokens, np.clip(wanted, -20, 20)))
    made.sort(key=lambda pair: pair[0].n_known * (pair[0].cells.shape[1] + 2))
    lessons = []
    for first in range(0, len(made), _BATCH):
        own = made[first : first + _BATCH]
        wanted = np.zeros((len(own), max(len(w) for _, w in own)), np.float32)
        is_asked = np.zeros_like(wanted)
        for i, (_, w) in enumerate(own):
            wanted[i, : len(w)], is_asked[i, : len(w)] = w, 1.0
        batch = Batch.of([tokens for tokens, _ in own])
        lessons.append((batch, torch.from_numpy(wanted), torch.from_numpy(is_asked)))
    return [lessons[i] for i in random.permutation(len(lessons))]


def train(folder: Path, minutes: float) -> None:
    """Train until the time is over, on one thread; tell and save every two minutes."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random, held_out = np.random.default_rng(1), draw_lessons(np.random.default_rng(0), 32)
    network, averaged = PriorNetwork(), PriorNetwork()
    averaged.load_state_dict(network.state_dict())
    optimizer = torch.optim.AdamW(network.parameters(), _RATE, betas=(0.9, 0.98), weight_decay=0.01)
    started, told_s, n_tables = time.monotonic(), 0.0, 0
    losses: list[float] = []
    while (done := (time.monotonic() - started) / 60 / minutes) < 1:
        for lesson in draw_lessons(random, _N_BATCHES):
            rate = _RATE * (0.5 + 0.5 * math.cos(math.pi * done))
            for group in optimizer.param_groups:
                group["lr"] = rate * min(1.0, n_tables / (_WARM_UP * _BATCH))
            losses.append(_step(network, optimizer, lesson))
            n_tables += _BATCH
            with torch.no_grad():
                for mean, value in zip(averaged.parameters(), network.parameters(), strict=True):
                    mean.lerp_(value, 0.005)
        if time.monotonic() - started > told_s + 120:
            told_s = time.monotonic() - started
            print(
                f"{told_s / 60:5.1f} min, {n_tables:7d} tables, loss {np.mean(losses):.3f}, "
                f"{_told(averaged, held_out)}",
                flush=True,
            )
            losses.clear()
            torch.save(averaged.state_dict(), folder / "weights.pt")
    torch.save(averaged.state_dict(), folder / "weights.pt")


def _step(network: PriorNetwork, optimizer: torch.optim.Optimizer, lesson: Lesson) -> float:
    batch, wanted, is_asked = lesson
    density = log_likelihood(network(batch), wanted).clamp_min(-15)
    loss = -(density * is_asked).sum() / is_asked.sum()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    return float(loss.item())


def _told(network: PriorNetwork, lessons: Sequence[Lesson]) -> str:
    """Return the loss on tables kept aside, and the error as a share of that of the ridge."""
    sums = np.zeros(4)
    with torch.no_grad():
        for batch, wanted, is_asked in lessons:
            out = network(batch)
            density = log_likelihood(out, wanted).clamp_min(-15)
            weight, middle, _ = _mixture(out)
            off = ((weight.exp() * middle).sum(dim=-1) - wanted).abs()
            parts = (density, off, wanted.abs(), torch.ones_like(wanted))
            sums += [float((part * is_asked).sum()) for part in parts]
    return f"held out {-sums[0] / sums[3]:.3f}, {sums[1] / sums[2]:.3f} of the error of the ridge"


# --- Judging -------------------------------------------------------------------------------------


class Read(Regressor):
    """The network with the measured rows that it reads at every prediction."""

    def __init__(self, network: PriorNetwork, points: Points, n_runs: Array) -> None:
        self._network, self._points = network, points
        self._n_runs = np.clip(n_runs, 1, 5)

    def predict(self, x: Array) -> Array:
        """Average over draws of codes, and of rows if there are too many."""
        points = self._points
        known = _settings(points.x, points.groups)
        asked = _settings(x, points.groups)
        random = np.random.default_rng(0)
        total = np.zeros(len(x))
        for _ in range(_N_DRAWS):
            rows = random.permutation(len(points))[:_MOST_READ]
            used = [n for n, v in known.items() if len(np.unique(v[rows])) > 1]
            if not used:
                return np.full(len(x), np.exp(points.log_y.mean()))
            both = ({n: known[n][rows] for n in used}, {n: asked[n] for n in used})
            tokens = tokenize(*both, points.log_y[rows], self._n_runs[rows], random)
            total += self._middle(tokens)
        low, high = points.log_y.min() - 3, points.log_y.max() + 3
        result: Array = np.exp(np.clip(total / _N_DRAWS, low, high))
        return result

    def _middle(self, tokens: Tokens) -> Array:
        """Return the median of what is expected of each asked row, as a log target."""
        n_known, found = tokens.n_known, []
        for first in range(n_known, len(tokens.cells), _N_AT_ONCE):
            rows = np.r_[:n_known, first : min(first + _N_AT_ONCE, len(tokens.cells))]
            part = replace(tokens, cells=tokens.cells[rows], targets=tokens.targets[rows])
            with torch.no_grad():
                found.append(median(self._network(Batch.of([part])).double())[0].numpy())
        return tokens.base[n_known:] + tokens.scale * np.concatenate(found)

    def to_state(self) -> State:
        """Refuse: it is judged, not saved."""
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: State, n_features: int) -> Read:
        """Refuse: it is judged, not saved."""
        raise NotImplementedError


def _settings(x: Array, groups: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
    """Return the columns of a matrix, each category as one column of texts."""
    indicators = {column for group in groups for column in group}
    found = {str(j): x[:, j] for j in range(x.shape[1]) if j not in indicators}
    for group in groups:
        of_group = x[:, list(group)]
        level = np.where(of_group.max(axis=1) > 0, of_group.argmax(axis=1), -1)
        found[str(group[0])] = level.astype(str)
    return found


@dataclass(frozen=True)
class Score:
    """Mean relative errors on one task: of the vote, and of what could take its place."""

    task: str
    vote: float
    others: dict[str, float]

    @property
    def family(self) -> str:
        """The tables that the task comes from."""
        return self.task.split("-")[0]

    @property
    def kind(self) -> str:
        """The question that the task asks."""
        return self.task.split("--")[1].split("-")[0]

    def ratio(self, name: str) -> float:
        """Return the log of the ratio to the error of the vote."""
        return math.log(max(self.others[name], _LEAST_ERROR) / max(self.vote, _LEAST_ERROR))


def judge_task(network: PriorNetwork, task: Path) -> Score:
    """Fit automatic mode, and assemble its members again with the network as one more."""
    target = json.loads((task / "meta.json").read_text())["target"]
    train, test = pd.read_csv(task / "train.csv"), pd.read_csv(task / "test.csv")
    truth = test.pop(target).to_numpy(dtype=float)
    with mock.patch.object(Bench, "assemble", autospec=True, side_effect=Bench.assemble) as kept:
        model = foretell.fit_model(train, target=target, n_jobs=1).best
    bench, fits, answers = kept.call_args.args
    asked = model.configurations(test)
    x = model.feature_map.matrix_of(asked.values, asked.name, asked.row_numbers)
    own = {
        i: np.log(_read(network, bench, fold.train).predict(fold.asked(bench.points.x)))
        for i, fold in enumerate(bench.folds)
    }
    alone = _read(network, bench, np.arange(len(bench.points)))
    wider = replace(bench, voters=(*bench.voters, NAME))
    both = wider.assemble(
        {**fits, NAME: alone}, {i: {**found, NAME: own[i]} for i, found in answers.items()}
    ).regressor
    without, by_itself = model.predict(test), alone.predict(x)
    predicted = {"alone": by_itself, "votes": both.predict(x)}
    is_new = [member.name == NAME for member in both.members]
    nobody = [False] * len(is_new)
    for name, silent in (("votes inside", (nobody, is_new)), ("votes beyond", (is_new, nobody))):
        predicted[name] = replace(both, vote=both.vote.silenced(*silent)).predict(x)
    for share in (0.1, 0.2, 0.3, 0.4, 0.5):
        predicted[f"{share:.0%}"] = without ** (1 - share) * by_itself**share
    errors = {name: float(np.mean(np.abs(p / truth - 1))) for name, p in predicted.items()}
    return Score(task.name, float(np.mean(np.abs(without / truth - 1))), errors)


def _read(network: PriorNetwork, bench: Bench, rows: NDArray[np.int64]) -> Read:
    return Read(network, bench.points.take(rows), bench.n_runs[rows])


def judge(folder: Path, tasks: Path) -> None:
    """Judge all tasks, and print geometric means of ratios to the error of the vote."""
    torch.set_num_threads(1)
    network = PriorNetwork()
    network.load_state_dict(torch.load(folder / "weights.pt"))
    scores = []
    for task in sorted(tasks.iterdir()):
        scores.append(judge_task(network, task))
        _print_line(task.name, scores[-1:])
    print("\nRatios to the error of the vote:", ", ".join(scores[0].others))
    for group in ("all", *sorted({s.kind for s in scores}), *sorted({s.family for s in scores})):
        _print_line(group, [s for s in scores if group in ("all", s.kind, s.family)])
    print("\nWhat is best without a family, on that family:")
    ratios = []
    for family in sorted({s.family for s in scores}):
        rest = [s for s in scores if s.family != family]
        means = {n: np.mean([s.ratio(n) for s in rest]) for n in scores[0].others}
        best = min(means, key=lambda name: means[name])
        is_better = means[best] < 0
        own = [s.ratio(best) if is_better else 0.0 for s in scores if s.family == family]
        ratios += own
        print(f"{family:16s} {best if is_better else 'vote':12s} {np.exp(np.mean(own)):.3f}")
    print(f"{'all':29s} {np.exp(np.mean(ratios)):.3f}")


def _print_line(name: str, scores: Sequence[Score]) -> None:
    means = [np.exp(np.mean([s.ratio(n) for s in scores])) for n in scores[0].others]
    print(f"{name:56s} {len(scores):3d}", *(f"{mean:6.3f}" for mean in means), flush=True)


def main() -> None:
    """Train or judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["train", "judge"])
    parser.add_argument("folder", type=Path, help="where the weights are")
    parser.add_argument("tasks", type=Path, nargs="?", help="what to judge on")
    parser.add_argument("--minutes", type=float, default=60)
    given = parser.parse_args()
    if given.what == "train":
        given.folder.mkdir(parents=True, exist_ok=True)
        train(given.folder, given.minutes)
    elif given.tasks is None:
        parser.error("judge needs a folder of tasks")
    else:
        judge(given.folder, given.tasks)


if __name__ == "__main__":
    main()
