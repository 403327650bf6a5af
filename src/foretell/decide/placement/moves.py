"""Moves of running tasks: when one is allowed, and when it is worth it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from foretell.decide.placement.choose import Allowed, Chooser
from foretell.decide.placement.cluster import Migration
from foretell.decide.placement.fleet import Amounts, Candidates
from foretell.decide.placement.policies._base import ENERGY, TIME
from foretell.decide.placement.tasks import Task
from foretell.decide.placement.waiting import Waiting

_SURE = 2.0  # standard errors by which a move must be better
_LEAST = 1e-12  # of an energy: power may not grow with load


@dataclass(eq=False)
class Running:
    """A task that runs: where, since when, and which moves it made.

    Attributes
    ----------
    share
        The share of the task that was left when it started on this node.
    left
        When it left which nodes.
    """

    task: Task
    need: Amounts
    node: int
    started_s: float
    share: float = 1.0
    n_moves: int = 0
    left: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Move:
    """A move that is worth it: to which node, and the share of the task that is left to do."""

    to: int
    share: float


class Mover:
    """Decides about moves, and keeps to their limits."""

    def __init__(self, rules: Migration, chooser: Chooser) -> None:
        self.rules = rules
        self.chooser = chooser
        self._recent: deque[float] = deque()

    def find(
        self, running: Running, waiting: Waiting, now_s: float, allowed: Allowed | None = None
    ) -> Move | None:
        """Return a move of a task, if there is one that is allowed and worth it.

        ``allowed`` says which nodes the task may use, whatever room they have.
        """
        if not self._may_move(running, now_s):
            return None
        time_s, energy_j = self.chooser.staying(running.task, running.need, running.node)
        needed = self._needs(running.task)
        if not math.isfinite(time_s) or (ENERGY in needed and not math.isfinite(energy_j)):
            return None
        done = (now_s - running.started_s) / time_s
        left = max(0.0, running.share - done)
        if left == 0 or left * time_s < self.rules.min_remaining_s:
            return None  # it should have ended by now, or is about to
        share = left if running.task.migratable == "resume" else 1.0
        found = self.chooser.candidates(running.task, running.need, allowed=allowed)
        banned = {n for n, at_s in running.left.items() if now_s - at_s < self.rules.cooldown_s}
        kept = np.array([n not in banned and n != running.node for n in found.nodes], dtype=bool)
        targets = found.take(kept)
        to = self._best(targets, running, _Cost(time_s, energy_j, left), share)
        if to is None or not self._leaves_room(running, to, waiting):
            return None
        return Move(to, share)

    def note(self, running: Running, now_s: float) -> None:
        """Remember that a task leaves its node."""
        self._recent.append(now_s)
        running.left[running.node] = now_s
        running.n_moves += 1

    def _may_move(self, running: Running, now_s: float) -> bool:
        while self._recent and now_s - self._recent[0] >= 60:
            self._recent.popleft()
        last = max(running.left.values(), default=-math.inf)
        return (
            self.chooser.policy.can_move
            and running.task.migratable != "never"
            and len(self._recent) < self.rules.max_per_minute
            and running.n_moves < self.rules.max_per_task
            and now_s - running.started_s >= self.rules.min_age_s
            and now_s - last >= self.rules.cooldown_s
        )

    def _best(self, targets: Candidates, running: Running, stay: _Cost, share: float) -> int | None:
        """Return the best target if it beats staying by the margin, and surely."""
        estimates, H = targets.estimates, self.chooser.weight(running.task)
        here = self.chooser.fleet.type_of[running.node]
        start_s = self.rules.start_s
        twice_j = stay.energy_j / stay.time_s * start_s  # it runs on both
        time_s = start_s + share * targets.time_s
        energy_j = share * targets.energy_j + twice_j
        needed = self._needs(running.task)
        known = np.ones(len(time_s), dtype=bool)
        for quantity, values in ((TIME, time_s), (ENERGY, energy_j)):
            known &= np.isfinite(values) | (quantity not in needed)
        if not known.any():
            return None
        targets, time_s, energy_j = targets.take(known), time_s[known], energy_j[known]
        compared = _Compared(
            np.append(targets.nodes, running.node),
            np.append(time_s, stay.left * stay.time_s),
            np.append(energy_j, stay.left * stay.energy_j),
        )
        scores = self.chooser.policy.scores(compared, H, self.chooser.random)  # type: ignore[arg-type]
        gains = self.chooser.policy.beats_by(scores[:-1], float(scores[-1]))
        best = int(np.argmax(gains))
        there = targets.types[best]
        saved = error = 0.0
        for quantity, weight, stays, moves, errors in (
            (ENERGY, H, stay.energy_j, energy_j, estimates.energy_error),
            (TIME, 1 - H, stay.time_s, time_s, estimates.time_error),
        ):
            if quantity in needed:
                ratio = max(stay.left * stays, _LEAST) / max(float(moves[best]), _LEAST)
                saved += weight * math.log(ratio)
                error = math.hypot(error, weight * math.hypot(errors[here], errors[there]))
        is_sure = saved > _SURE * error
        return int(targets.nodes[best]) if gains[best] > self.rules.margin and is_sure else None

    def _needs(self, task: Task) -> Sequence[str]:
        return self.chooser.policy.needed(self.chooser.weight(task))

    def _leaves_room(self, running: Running, to: int, waiting: Waiting) -> bool:
        if not len(waiting):
            return True
        fleet = self.chooser.fleet
        free = fleet.capacity - fleet.used
        free[:, to] -= running.need
        free[:, running.node] += running.need
        return waiting.fit_without(fleet, free)


@dataclass(frozen=True)
class _Cost:
    """What a whole task takes where it is, and the share that is left."""

    time_s: float
    energy_j: float
    left: float


@dataclass(frozen=True, eq=False)
class _Compared:
    """Staying beside moving, in the shape of candidates."""

    nodes: np.ndarray[tuple[int], np.dtype[np.int64]]
    time_s: np.ndarray[tuple[int], np.dtype[np.float64]]
    energy_j: np.ndarray[tuple[int], np.dtype[np.float64]]
