"""The ledger of a simulated cluster: energy of tasks, of load by power curves, of idle nodes."""

from __future__ import annotations

import numpy as np

from foretell.decide.placement.estimates import Estimates, PowerSource
from foretell.decide.placement.fleet import Fleet


class Ledger:
    """Sums energy: what tasks take, what load adds by a power curve, and what idle nodes draw."""

    def __init__(self, fleet: Fleet, truth: Estimates, start_s: float) -> None:
        self.fleet, self.start_s = fleet, start_s
        is_curve = np.array([isinstance(m.energy, PowerSource) for m in truth.models], dtype=bool)
        self.by_curve = is_curve[fleet.type_of]
        self.idle_w = np.where(np.isnan(fleet.idle_w), 0.0, fleet.idle_w)
        self.task_j = 0.0
        self.load_j = np.zeros(len(fleet))
        self.empty_s = np.zeros(len(fleet))
        self.since_s = np.full(len(fleet), self.start_s)

    def add(self, node: int, energy_j: float) -> None:
        """Count the energy of a task, unless the curve of its node says what it draws."""
        if not self.by_curve[node]:
            self.task_j += energy_j

    def note(self, node: int, now_s: float) -> None:
        """Count what a node drew since it last changed; call it before it changes."""
        fleet = self.fleet
        passed_s = now_s - self.since_s[node]
        if self.by_curve[node]:
            drawn_w = float(fleet.watts(np.array([node]))[0])
            self.load_j[node] += (drawn_w - self.idle_w[node]) * passed_s
        if fleet.n_tasks[node] == 0:
            self.empty_s[node] += passed_s
        self.since_s[node] = now_s

    def close(self, end_s: float) -> tuple[float, float]:
        """Return the energy of tasks, and that of nodes whatever runs on them."""
        fleet = self.fleet
        for node in range(len(fleet)):
            self.note(node, end_s)
        on_s = (end_s - self.start_s) - np.where(fleet.can_power_off, self.empty_s, 0.0)
        return float(self.task_j + self.load_j.sum()), float((self.idle_w * on_s).sum())
