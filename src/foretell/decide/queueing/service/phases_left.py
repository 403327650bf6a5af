"""What is left of a job of phases after some time: where it is by then, and the phases behind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, sparse, special

from foretell.decide.queueing.service._base import Complex, Moments, Reals, Remainder
from foretell.decide.queueing.service.paths import Part, Path, cumulants, part_moments

_MOST_STEPS = 20_000
_MOST_DENSE = 1_500
_BLOCK = 64


@dataclass(frozen=True, eq=False)
class PhasesLeft(Remainder):
    """The probabilities of being in each phase, by part and path."""

    parts: tuple[Part, ...]
    where: tuple[tuple[Reals, ...], ...]

    @cached_property
    def share(self) -> float:
        """The probability that something is left."""
        return float(sum(inside.sum() for part in self.where for inside in part))

    @cached_property
    def moments(self) -> Moments:
        """The moments of what is left: the phases to come on the path, and later parts."""
        later, total = np.zeros(3), np.zeros(3)
        for part, places in zip(reversed(self.parts), reversed(self.where), strict=True):
            for path, inside in zip(part, places, strict=True):
                to_come = path.each_rate[::-1] ** -np.array([[1.0], [2.0], [3.0]])
                sums = np.cumsum(to_come, axis=1)[:, ::-1] * [[1.0], [1.0], [2.0]]
                first, second, third = sums + later[:, None]
                moments = (
                    first, second + first**2, third + 3 * second * first + first**3
                )  # fmt: skip
                total += np.array([inside @ moment for moment in moments])
            later = later + cumulants(part_moments(part))
        return float(total[0]), float(total[1]), float(total[2])

    def transform(self, z: Complex) -> Complex:
        """Return the transform of what is left, times the probability that something is."""
        z = np.asarray(z, dtype=complex)
        done = np.zeros_like(z)  # of the parts before, which flows into the next
        for part, places in zip(self.parts, self.where, strict=True):
            done = np.sum(
                [
                    _flow(path, inside, path.share * done, z)
                    for path, inside in zip(part, places, strict=True)
                ],
                axis=0,
            )
        return done


def _flow(path: Path, inside: Reals, inflow: Complex, z: Complex) -> Complex:
    """Return the transform at the end of a path, of what comes in and what is inside already."""
    starts = np.cumsum(path.counts.astype(int))[:-1]
    for rate, here in zip(path.rates, np.split(inside, starts), strict=True):
        factor = 1 / (1 + z / rate)
        inflow = inflow * factor ** len(here) + factor * _polynomial(here[::-1], factor)
    return inflow


def _polynomial(coefficients: Reals, x: Complex) -> Complex:
    """Return the sum of coefficients times powers of x, by Horner's rule in blocks of powers."""
    padded = np.zeros(-(-len(coefficients) // _BLOCK) * _BLOCK)
    padded[: len(coefficients)] = coefficients
    blocks = padded.reshape(-1, _BLOCK)
    powers = x[..., None] ** np.arange(min(_BLOCK, len(coefficients)))
    total = np.zeros_like(x)
    for block in blocks[::-1]:
        total = total * x**_BLOCK + powers @ block[: powers.shape[-1]]
    return total


def left_after(parts: tuple[Part, ...], time_s: float) -> PhasesLeft:
    """Return where a job is after some time that has not finished by then."""
    paths = [path for part in parts for path in part]
    state = _start(parts)
    if math.isinf(time_s):
        state = np.zeros_like(state)
    elif time_s > 0:
        state = _at(state, _generator(parts), time_s)
    ends = np.cumsum([path.n_phases for path in paths])[:-1]
    pieces = iter(np.split(np.maximum(state, 0.0), ends))
    return PhasesLeft(parts, tuple(tuple(next(pieces) for _ in part) for part in parts))


def _start(parts: Sequence[Part]) -> Reals:
    """Return the probabilities of starting in each phase: the first of each path of a part."""
    starts = []
    for i, part in enumerate(parts):
        for path in part:
            phases = np.zeros(path.n_phases)
            phases[0] = path.share if i == 0 else 0.0
            starts.append(phases)
    return np.concatenate(starts)


def _generator(parts: Sequence[Part]) -> sparse.csr_array:
    """Return the rates between phases: to the next on the path, from the last to the next part."""
    rates = np.concatenate([path.each_rate for part in parts for path in part])
    rows, columns, shares, first = [], [], [], 0
    for i, part in enumerate(parts):
        behind = first + sum(path.n_phases for path in part)
        for path in part:
            n = path.n_phases
            rows += list(range(first, first + n - 1))
            columns += list(range(first + 1, first + n))
            shares += [1.0] * (n - 1)
            entry = behind
            for following in parts[i + 1] if i + 1 < len(parts) else ():
                rows.append(first + n - 1)
                columns.append(entry)
                shares.append(following.share)
                entry += following.n_phases
            first += n
    moves = sparse.csr_array((shares, (rows, columns)), shape=(len(rates), len(rates)))
    found: sparse.csr_array = sparse.csr_array(
        sparse.diags_array(rates) @ moves - sparse.diags_array(rates)
    )
    return found


def _at(start: Reals, generator: sparse.csr_array, time_s: float) -> Reals:
    """Return the probabilities after some time: by uniformization, or densely where it is long."""
    rate = float(-generator.diagonal().min())
    n_steps = int(rate * time_s + 10 * math.sqrt(rate * time_s) + 40)
    if n_steps > _MOST_STEPS and len(start) <= _MOST_DENSE:
        dense: Reals = start @ linalg.expm(generator.toarray() * time_s)
        return dense
    step = sparse.csr_array((sparse.eye_array(len(start)) + generator / rate).T)
    counts = np.arange(n_steps + 1)
    weights = np.exp(counts * math.log(rate * time_s) - rate * time_s - special.gammaln(counts + 1))
    total: Reals = weights[0] * start
    state = start
    for weight in weights[1:]:
        state = step @ state
        total = total + weight * state
    return total
