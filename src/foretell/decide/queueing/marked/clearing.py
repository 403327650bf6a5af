"""How the state of arrivals changes while work is cleared: the matrix Q(s) of which exp(Q·x) tells.

While work x is done, jobs of some classes arrive that go first, and jobs that these bring, and so
on. The time T until all that is cleared has the transform E[exp(−s·T); state i to j] = exp(Q(s)·x),
with Q(s) = −s·I + C + Σ Dᵢ·E[exp(Q(s)·Sᵢ)]. C has the changes of state without such a job, Dᵢ those
with one of class i. This is the matrix form of s + λ·(1 − B(s)) for Poisson arrivals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.decide.queueing.service._base import Complex, Reals, ServiceTime

_FIRST_STEPS, _NEWTON_STEPS, _MOST_STEPS = 20, 20, 4_000
_TOLERANCE, _EXACT, _ENOUGH = 1e-15, 1e-13, 1e-9
_STEP = 1e-5  # of finite differences; Newton's steps need few digits of a slope
_WORST_CONDITION, _NUDGE = 1e10, 1e-8


@dataclass(frozen=True, eq=False)
class Clearing:
    """Q at many s by its eigenvalues −roots, right vectors as columns, and left ones as rows."""

    roots: Complex
    right: Complex
    left: Complex

    @property
    def matrix(self) -> Complex:
        """Q itself."""
        found: Complex = (self.right * -self.roots[..., None, :]) @ self.left
        return found

    def at(self, places: NDArray[np.bool_]) -> Clearing:
        """Return Q at some of the s."""
        return Clearing(self.roots[places], self.right[places], self.left[places])

    def put(self, places: NDArray[np.bool_], other: Clearing) -> None:
        """Exchange Q at some of the s."""
        self.roots[places], self.right[places] = other.roots, other.right
        self.left[places] = other.left


#: Jobs of a class that go first: its matrix of the arrivals, and its service.
First = Sequence[tuple[Reals, ServiceTime]]


def clearing(quiet: Reals, first: First, s: Complex) -> Clearing:
    """Return Q at all s, which is one axis; ``quiet`` is C."""
    base = quiet - s[:, None, None] * np.eye(len(quiet))
    found = _eigen(base)
    if not first:  # Q is known, and where vectors are nearly alike, no step comes closer
        return found
    for improve, within in ((_some_steps, _EXACT), (_newton, _EXACT), (_many_steps, _ENOUGH)):
        is_left = ~_is_solved(base, first, found, within)
        if is_left.any():
            found.put(is_left, improve(base[is_left], first, found.at(is_left)))
    return found


def _is_solved(base: Complex, first: First, found: Clearing, within: float) -> NDArray[np.bool_]:
    """Whether both sides of the equation of Q agree, for each s."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(_step(base, first, found) - found.matrix).max(axis=(-2, -1))
    solved: NDArray[np.bool_] = gap <= within * np.abs(base).max(axis=(-2, -1))
    return solved


def _some_steps(base: Complex, first: First, start: Clearing) -> Clearing:
    """Put one side of the equation into the other a few times, which is enough for most s."""
    found = start
    for _ in range(_FIRST_STEPS):
        found = _eigen(_step(base, first, found))
    return found


def _many_steps(base: Complex, first: First, start: Clearing) -> Clearing:
    """Go on with that until all are solved."""
    found = start
    for _ in range(_MOST_STEPS):
        found = _eigen(_step(base, first, found))
        if _is_solved(base, first, found, _ENOUGH).all():
            break
    return found


def _step(base: Complex, first: First, at: Clearing) -> Complex:
    """Return the right side of the equation of Q."""
    total = base
    for matrix, service in first:
        total = total + matrix @ (at.right * service.transform(at.roots)[..., None, :]) @ at.left
    return total


def _eigen(matrices: Complex) -> Clearing:
    values, right = np.linalg.eig(matrices)
    # Without a full set of vectors, a change far below the precision of results gives one.
    is_poor = np.linalg.cond(right) > _WORST_CONDITION
    if is_poor.any():
        n, poor = matrices.shape[-1], matrices[is_poor]
        pattern = np.random.default_rng(n).normal(size=(n, n))
        scale = np.abs(poor).max(axis=(-2, -1), keepdims=True)
        values[is_poor], right[is_poor] = np.linalg.eig(poor + _NUDGE * scale * pattern)
    return Clearing(-values, right, np.linalg.inv(right))


def _newton(base: Complex, first: First, start: Clearing) -> Clearing:
    """Improve each root by itself: −q is an eigenvalue of C − s·I + Σ Dᵢ·E[exp(−q·Sᵢ)].

    Plain steps slow down where the classes that go first take almost all of the time. What
    finds a root twice solves nothing, and is given back as it was.
    """
    q, right = start.roots, start.right
    for _ in range(_NEWTON_STEPS):
        values, vectors = np.linalg.eig(_at(base, first, q))
        nearest = np.abs(values + q[..., None]).argmin(axis=-1)[..., None]
        value = np.take_along_axis(values, nearest, axis=-1)[..., 0]
        column = np.take_along_axis(vectors, nearest[..., None], axis=-1)
        right = np.swapaxes(column[..., 0], -1, -2)
        row = np.take_along_axis(_inverse(vectors), nearest[..., None], axis=-2)
        width = _STEP * (np.abs(q) + _STEP * np.abs(base).max())
        slope = (row @ _slope(first, q, width) @ column)[..., 0, 0]
        change = (q + value) / (1 + slope)
        change = np.where(np.isfinite(change), change, 0.0)
        q = q - change
        if (np.abs(change) <= _TOLERANCE * (np.abs(q) + np.abs(base).max())).all():
            break
    found = Clearing(q, right, _inverse(right))
    is_wrong = ~_is_solved(base, first, found, _ENOUGH)
    found.put(is_wrong, start.at(is_wrong))
    return found


def _at(base: Complex, first: First, q: Complex) -> Complex:
    """Return C − s·I + Σ Dᵢ·E[exp(−q·Sᵢ)] for each root."""
    total = np.broadcast_to(base[:, None], (*q.shape, *base.shape[1:]))
    for matrix, service in first:
        total = total + matrix * service.transform(q)[..., None, None]
    return total


def _slope(first: First, q: Complex, width: Reals) -> Complex:
    total: Complex = np.zeros((), dtype=complex)
    for matrix, service in first:
        change = (service.transform(q + width) - service.transform(q - width)) / (2 * width)
        total = total + matrix * change[..., None, None]
    return total


def _inverse(matrices: Complex) -> Complex:
    """Invert; what has no inverse becomes NaN, and is found out by what it leads to."""
    singular = np.linalg.matrix_rank(matrices) < matrices.shape[-1]
    found = np.linalg.inv(np.where(singular[..., None, None], np.eye(matrices.shape[-1]), matrices))
    return np.asarray(np.where(singular[..., None, None], np.nan, found))
