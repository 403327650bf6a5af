"""Choosing a node, the one path of place, the simulator and live schedulers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from foretell.decide.placement.cluster import Cluster, Energy, PolicyTable
from foretell.decide.placement.estimates import Estimate, Estimates, TypeEstimates
from foretell.decide.placement.fleet import Amounts, Candidates, Fleet
from foretell.decide.placement.neighbors import Neighbors
from foretell.decide.placement.optimum import Problem
from foretell.decide.placement.policies import POLICIES, Policy
from foretell.decide.placement.policies._base import ENERGY, POWER, TIME
from foretell.decide.placement.tasks import Task, plain_value, read_h
from foretell.errors import Option, UsageError, suggest
from foretell.files.typed import validated
from foretell.wording import plain

Array = NDArray[np.float64]
Allowed = NDArray[np.bool_]
#: Scores that differ by less are the same.
EQUAL = 1e-9
_UNKNOWN = 1e-3  # by which a node without predictions costs more than the median
_SWITCH = {"on": True, "off": False}
_ENERGIES: tuple[str, ...] = get_args(Energy)
#: What is predicted of a task behind each energy that may count.
_BEHIND: dict[str, set[str]] = {"task": {ENERGY}, "marginal": {TIME}, "node": {ENERGY, TIME}}


@dataclass(frozen=True)
class PolicyChoice:
    """A policy with its settings; None where the cluster file decides.

    >>> print(read_policy("geometric:H=1:moves=on").label)
    geometric H=1 moves=on
    """

    name: str
    H: float | None = None
    energy: Energy | None = None
    moves: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """How tables name it."""
        moves = None if self.moves is None else "on" if self.moves else "off"
        H = None if self.H is None else f"{self.H:g}"
        set_here = {"H": H, "energy": self.energy, "moves": moves, **self.options}
        return " ".join([self.name, *(f"{k}={v}" for k, v in set_here.items() if v is not None)])

    def make(self) -> Policy:
        """Return the policy."""
        found = POLICIES.get(self.name)
        return found(validated(found.options_class, self.options, f"policy {self.name}"))

    def settings(self, table: PolicyTable) -> tuple[float, Energy]:
        """Return the weight of energy and which energy counts."""
        H = table.H if self.H is None else self.H
        return H, self.energy or table.energy


def read_policy(text: str) -> PolicyChoice:
    """Read a policy, written as ``geometric:H=1:energy=marginal:moves=on``."""
    if "," in text:
        raise _wrong(text, "name one policy; foretell cluster simulate compares several")
    name, *parts = (part.strip() for part in text.split(":"))
    set_here: dict[str, Any] = {}
    for part in parts:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value) or key in set_here:
            raise _wrong(text, "write NAME or NAME:OPTION=VALUE, such as geometric:H=1")
        set_here[key] = value
    H, energy, moves = (set_here.pop(key, None) for key in ("H", "energy", "moves"))
    if energy is not None and energy not in _ENERGIES:
        raise _wrong(text, f"energy is one of {', '.join(_ENERGIES)}. {suggest(energy, _ENERGIES)}")
    if moves is not None and moves not in _SWITCH:
        raise _wrong(text, f"moves is on or off, not {moves}")
    try:
        weight = None if H is None else read_h(H)
    except UsageError as error:
        remedy = "".join(str(part) for part in error.remedy)
        raise _wrong(text, f"H {error.text}; {remedy}") from None
    choice = PolicyChoice(
        name, weight, energy, None if moves is None else _SWITCH[moves],
        {key: plain_value(value) for key, value in set_here.items()},
    )  # fmt: skip
    found = POLICIES.get(name)  # an unknown name or option is refused now
    known = ["H", "energy", "moves", *found.options_class.model_fields]
    for key in choice.options:
        if key not in known:
            raise _wrong(text, f"{name} has no option '{key}'. {suggest(key, known)}")
    choice.make()
    return choice


def read_policies(text: str | Sequence[str | PolicyChoice]) -> list[PolicyChoice]:
    """Read several policies, separated by commas; refuse one that is given twice."""
    parts = text.split(",") if isinstance(text, str) else text
    found = [read_policy(part) if isinstance(part, str) else part for part in parts]
    labels = [choice.label for choice in found]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(
                f"'{label}' is given twice; remove one, or give them different settings",
                option=Option("policy"),
            )
    return found


def _wrong(text: str, why: str) -> UsageError:
    return UsageError(why, option=Option("policy", text))


@dataclass(frozen=True, eq=False)
class Ranking:
    """Scores of the candidates, the best first.

    Attributes
    ----------
    order
        Positions of the candidates, from the best on.
    is_known
        Whose score rests on predictions; the others have the median score.
    """

    candidates: Candidates
    scores: Array
    order: NDArray[np.int64]
    is_known: NDArray[np.bool_]

    @property
    def best(self) -> int:
        """The node that is chosen."""
        return int(self.candidates.nodes[self.order[0]])


class Chooser:
    """Chooses nodes for tasks by a policy, from what is free now.

    The fleet may be exchanged, by one with the same types of nodes; by default it has the nodes of
    the cluster file. ``allowed`` says which nodes a task may use, whatever room they have. With
    ``neighbors``, times are those beside the tasks that run on a node.
    """

    def __init__(
        self,
        cluster: Cluster,
        estimates: Estimates,
        choice: PolicyChoice,
        seed: int = 0,
        fleet: Fleet | None = None,
    ) -> None:
        self.fleet = Fleet.of(cluster) if fleet is None else fleet
        self.estimates = estimates
        self.policy = choice.make()
        self.H, self.energy = choice.settings(cluster.policy)
        _check_power(cluster, choice, self.policy, self.energy)
        self.random = np.random.default_rng([seed, 1])
        self.neighbors: Neighbors | None = None

    def weight(self, task: Task) -> float:
        """Return the weight of energy for a task: its own, or that of the policy."""
        return self.H if task.H is None else task.H

    def why_blind(self, task: Task, estimates: TypeEstimates | None = None) -> str:
        """Say why the policy knows nothing of a task on any type of node; empty if it does.

        Where there are no models at all it is empty, too: no change of the task would help.
        """
        counts = self.counts(self.weight(task))
        if not counts or not self.estimates.predicts:
            return ""
        found = self.estimates.of(task) if estimates is None else estimates
        if found.knows(counts):
            return ""
        why = found.why_unknown(counts)
        text = "no prediction can be used, so no node is better than another"
        return f"{text}: {why}" if why else text

    def counts(self, H: float) -> tuple[str, ...]:
        """Return which predictions of a task decide: its time, its energy, both or none."""
        needed = self.policy.needed(H)
        found = {TIME} & {*needed}
        if ENERGY in needed:
            found |= _BEHIND[self.energy]
        return tuple(sorted(found))

    def candidates(
        self, task: Task, need: Amounts, own: int | None = None, allowed: Allowed | None = None
    ) -> Candidates:
        """Return the nodes that can take a task now."""
        nodes = self.fleet.fitting(need, own)
        if allowed is not None:
            nodes = nodes[allowed[nodes]]
        return self.beside(task, need, nodes)

    def beside(
        self,
        task: Task,
        need: Amounts,
        nodes: NDArray[np.int64],
        estimates: TypeEstimates | None = None,
    ) -> Candidates:
        """Return what is predicted of a task on some nodes, beside what runs there."""
        slowdown = None if self.neighbors is None else self.neighbors.slowdowns(task, nodes)
        found = self.estimates.of(task) if estimates is None else estimates
        return Candidates(self.fleet, nodes, need, found, self.energy, slowdown)

    def predicted(self, task: Task, node: int) -> Estimate:
        """Return what is predicted of a task on a node, beside what runs there."""
        found = self.estimates.of(task).by_type[int(self.fleet.type_of[node])]
        if self.neighbors is None:
            return found
        slowdowns = self.neighbors.slowdowns(task, np.array([node]))
        return found if slowdowns is None else found.slowed(float(slowdowns[0]))

    def staying_s(self, task: Task, node: int) -> float:
        """Return the whole time of a task where it runs, as its neighbors are now."""
        alone_s = float(self.estimates.of(task).time_s[self.fleet.type_of[node]])
        return alone_s * self._slowdown_there(task, node)

    def staying(self, task: Task, need: Amounts, node: int) -> tuple[float, float]:
        """Return the whole time and energy of a task where it runs, as its neighbors are now.

        Energy is what counts by the policy, as if the task had yet to be placed.
        """
        self.fleet.give_back(node, need)
        here = Candidates(
            self.fleet, np.array([node]), need, self.estimates.of(task), self.energy,
            np.array([self._slowdown_there(task, node)]),
        )  # fmt: skip
        found = float(here.time_s[0]), float(here.energy_j[0])
        self.fleet.take(node, need)
        return found

    def _slowdown_there(self, task: Task, node: int) -> float:
        return 1.0 if self.neighbors is None else self.neighbors.slowdown_there(task, node)

    def choose(
        self, task: Task, need: Amounts, own: int | None = None, allowed: Allowed | None = None
    ) -> int | None:
        """Return the node for a task; None if none has room."""
        candidates = self.candidates(task, need, own, allowed)
        if not len(candidates.nodes):
            return None
        H = self.weight(task)
        return int(candidates.nodes[self._winner(candidates, *self.scores(candidates, H), H)])

    def rank(self, task: Task, need: Amounts, allowed: Allowed | None = None) -> Ranking:
        """Return all nodes that can take a task now, the best first."""
        candidates, H = self.candidates(task, need, allowed=allowed), self.weight(task)
        scores, is_known = self.scores(candidates, H)
        preference = self.preference(candidates, H)
        order = np.lexsort((np.arange(len(scores)), preference, ~is_known, -scores))
        if len(order):
            winner = self._winner(candidates, scores, is_known, H)
            order = np.array([winner, *(i for i in order if i != winner)], dtype=np.int64)
        return Ranking(candidates, scores, order, is_known)

    def scores(self, candidates: Candidates, H: float) -> tuple[Array, NDArray[np.bool_]]:
        """Score candidates; those that are not known get the median of the others.

        A score that is not finite says as little as one without predictions.
        """
        is_known = _known(candidates, self.policy.needed(H))
        scores = np.full(len(candidates.nodes), np.nan)
        if is_known.any():
            kept = candidates if is_known.all() else candidates.take(is_known)
            scores[is_known] = self._checked(self.policy.scores(kept, H, self.random), kept)
        is_known = np.isfinite(scores)
        scores[~is_known] = np.median(scores[is_known]) if is_known.any() else 0.0
        return scores, is_known

    def _checked(self, scores: Any, candidates: Candidates) -> Array:
        """Return the scores of a policy, which may be that of another package."""
        try:
            found = np.asarray(scores)
        except ValueError:  # lists of different lengths
            found = np.array(None)
        if found.shape == candidates.nodes.shape and found.dtype.kind in "biuf":
            return found
        raise UsageError(
            f"{type(self.policy).__name__}.scores() must return one number for each of "
            f"{len(candidates.nodes)} nodes, not {plain(repr(scores), 60)}; "
            "foretell.testing.check_policy tests a policy"
        )

    def _winner(
        self, candidates: Candidates, scores: Array, is_known: NDArray[np.bool_], H: float
    ) -> int:
        is_best = scores >= scores.max() - EQUAL
        if (is_best & is_known).any():  # the median may equal the best score
            is_best &= is_known
        best = np.flatnonzero(is_best)
        if len(best) == 1:
            return int(best[0])
        if self.policy.ties == "random":
            return int(best[self.random.integers(len(best))])
        return int(best[np.argmin(self.preference(candidates, H)[best])])

    def preference(self, candidates: Candidates, H: float) -> NDArray[np.int64]:
        """Return what decides among equal scores, the least first; then the name does."""
        if self.policy.ties != "by H":
            return np.zeros(len(candidates.nodes), dtype=np.int64)
        return candidates.cpus_left if H >= 0.5 else -candidates.cpus_left

    def assign(
        self, tasks: Sequence[tuple[Task, Amounts]], allowed: Sequence[Allowed] | None = None
    ) -> list[int | None] | None:
        """Place several tasks at once, if the policy does that.

        Tasks with profiles are placed one after the other: what one of them costs depends on where
        the others are.
        """
        if self.policy.together == "none" or len(tasks) < 2:
            return None
        if self.neighbors is not None and any(self.neighbors.knows(task) for task, _ in tasks):
            return None
        return self.policy.assign(self.problem(tasks, allowed))

    def problem(
        self, tasks: Sequence[tuple[Task, Amounts]], allowed: Sequence[Allowed] | None = None
    ) -> Problem:
        """Return the costs and needs of tasks, and what is free."""
        open_nodes = self.fleet.ready & ~self.fleet.reserved
        everywhere = np.arange(len(self.fleet))
        costs = np.full((len(tasks), len(self.fleet)), np.inf)
        for row, (task, need) in enumerate(tasks):
            usable = everywhere[open_nodes if allowed is None else open_nodes & allowed[row]]
            found = Candidates(self.fleet, usable, need, self.estimates.of(task), self.energy)
            costs[row, usable] = costs_of(found, self.weight(task))
        return Problem(costs, np.array([need for _, need in tasks]), self.fleet.free)


def costs_of(candidates: Candidates, H: float) -> Array:
    """Return (E/min E)^H · (T/min T)^(1−H) for each candidate.

    Where it is not known, it is the median of the others, and a little more: of a node that costs
    as much, more is known.
    """
    total = np.zeros(len(candidates.nodes))
    for weight, values in ((H, candidates.energy_j), (1 - H, candidates.time_s)):
        if weight > 0 and np.isfinite(values).any():
            logarithms = np.log(np.maximum(values, 1e-12))
            total += weight * (logarithms - np.nanmin(logarithms))
    is_known = np.isfinite(total)
    if is_known.any():
        total[~is_known] = np.median(total[is_known]) + _UNKNOWN
    found: Array = np.exp(total)
    return found


def _check_power(cluster: Cluster, choice: PolicyChoice, policy: Policy, energy: Energy) -> None:
    """Raise a UsageError if a policy counts power, and no node type has any."""
    needed = policy.needed(0.5)
    if POWER in needed:
        what = f"policy {choice.name} counts"
    elif ENERGY in needed and energy == "marginal":
        what = "energy = marginal counts"
    else:
        return
    if not any(table.node_type.watts(0.0) is not None for table in cluster.node_type):
        raise UsageError(
            f"{what} the power that a node draws more, and no node type has a power; "
            "write idle_w and busy_w, or power, for each [[node_type]]"
        )


def _known(candidates: Candidates, needed: Sequence[str]) -> NDArray[np.bool_]:
    known = np.ones(len(candidates.nodes), dtype=bool)
    columns = {"time": "time_s", "energy": "energy_j", "power": "extra_w"}
    for quantity in needed:
        known &= np.isfinite(getattr(candidates, columns[quantity]))
    return known
