"""The work ahead of a job of one class when it arrives, jointly with the state of arrivals.

Ahead are jobs of its class and of higher ones, and with it the rest of a lower job in the engine,
if that is not interrupted. With p₀ = P(empty; state) and fₗ the rates of starts of lower jobs by
state, its transform u is the solution of u(z)·K(z) = z·p₀ + Σ fₗ·(1 − Sₗ*(z)), where
K(z) = z·I + C + Σ Dᵢ·Sᵢ*(z). K has no inverse at the roots θ of the clearing of all that is
ahead, where the right side vanishes, too; both are divided by these roots beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foretell.decide.queueing.marked.clearing import Clearing, First
from foretell.decide.queueing.service._base import Complex, Reals, ServiceTime

_RADIUS, _NEAR, _N_CIRCLE = 0.02, 0.25, 8


@dataclass(frozen=True, eq=False)
class WorkAhead:
    """The work ahead of jobs of one class, by what it is made of.

    Attributes
    ----------
    cleared
        The clearing of all that is ahead, at s = 0, without its axis of s.
    first
        The classes that are ahead.
    empty
        p₀, the probabilities of an engine without a job, by state.
    begun
        fₗ and the services of lower jobs that are not interrupted.
    """

    cleared: Clearing
    first: First
    empty: Reals
    begun: Sequence[tuple[Complex, ServiceTime]] = ()

    def transform(self, z: Complex) -> Complex:
        """Return u(z); states are the last axis."""
        theta, right, left = self.cleared.roots, self.cleared.right, self.cleared.left
        ahead = np.broadcast_to(self.empty @ right, (*z.shape, len(theta)))
        for starts, service in self.begun:
            ahead = ahead + (starts @ right) * divided(service, z[..., None], theta)
        again: Complex = np.eye(len(theta), dtype=complex)
        for matrix, service in self.first:
            again = (
                again
                - (matrix @ right) * divided(service, z[..., None], theta)[..., None, :] @ left
            )
        found = np.linalg.solve(np.swapaxes(again, -1, -2), (ahead @ left)[..., None])
        return np.asarray(found[..., 0])


def divided(service: ServiceTime, z: Complex, theta: Complex) -> Complex:
    """Return (S*(θ) − S*(z)) / (z − θ); where both are near one another, by a mean on a circle."""
    z, theta = np.broadcast_arrays(z, theta)
    radius = min(_RADIUS / service.mean, service.decay_rate / 8)
    is_near = np.abs(z - theta) < _NEAR * radius
    apart = np.where(is_near, 1.0, z - theta)
    found = (service.transform(theta) - service.transform(z)) / apart
    if is_near.any():
        turns = radius * np.exp(2j * math.pi * np.arange(_N_CIRCLE) / _N_CIRCLE)
        around, center = z[is_near][:, None] + turns, theta[is_near][:, None]
        values = (service.transform(center) - service.transform(around)) / (around - center)
        found[is_near] = values.mean(axis=-1)
    return np.asarray(found)
