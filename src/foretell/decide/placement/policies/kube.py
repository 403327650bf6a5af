"""The kube policy: the two scores by which kube-scheduler spreads pods, without predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foretell.decide.placement.policies._base import Array, Policy

if TYPE_CHECKING:
    from foretell.decide.placement.fleet import Candidates


class KubePolicy(Policy):
    """Score LeastAllocated plus BalancedAllocation, as Kubernetes 1.20 defines them.

    LeastAllocated is the mean share of CPUs and memory left free; BalancedAllocation is 1 less the
    difference of the shares in use. Each counts 100.
    """

    ties = "random"

    def scores(self, candidates: Candidates, H: float, random: np.random.Generator) -> Array:
        """Return scores from 0 to 200."""
        cpus, memory = candidates.used_share("cpus"), candidates.used_share("memory_bytes")
        least = 100 * ((1 - cpus) + np.maximum(1 - memory, 0)) / 2
        balanced = np.where((cpus >= 1) | (memory >= 1), 0.0, 100 * (1 - np.abs(cpus - memory)))
        found: Array = least + balanced
        return found
