"""Where a task should run: nodes ranked with what is predicted there, and why others are out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foretell.decide.placement.choose import Array, Chooser, PolicyChoice, Ranking
from foretell.decide.placement.estimates import Estimate, Estimates, Figure
from foretell.decide.placement.fleet import Amounts, Candidates, Fleet
from foretell.decide.placement.neighbors import PROFILE
from foretell.decide.placement.tasks import NEEDS, Task
from foretell.errors import nearest
from foretell.predictor import TRUST_INSIDE
from foretell.spaces.quantities import ENERGY, POWER, TIME, write_quantity
from foretell.wording import plain

_MOST_SHOWN = 20
_HEADER: tuple[str, ...] = ("node", "type", "time (90 %)", "energy (90 %)", "score", "trust")
_SLOWER = "slower"  # a column, between energy and score, where profiles tell
_COUNTED, _ADDED = "counted", "added power"  # columns there, where they decide
_NO_POWER = "no power: write idle_w and busy_w, or power"
_COUNTS = {
    "marginal": "the power that a node draws more, times the time",
    "node": "the energy of the task, and the idle power of a node that would otherwise be off",
}


@dataclass(frozen=True)
class RankedNode:
    """A node that can take the task.

    Attributes
    ----------
    energy_j
        The energy that the policy counts, which may include power of the node.
    is_known
        Whether the score rests on predictions; otherwise it is the median of the others.
    slowdown
        How many times longer the task takes than alone, beside what runs there, which is in the
        estimate; None if no profile tells.
    added_w
        The power that the node draws more with the task on it; NaN if it is not known.
    reason
        Why the policy knows nothing of the node, besides what the estimate says.
    """

    node: str
    type: str
    estimate: Estimate
    energy_j: float
    score: float
    is_known: bool
    slowdown: float | None = None
    added_w: float = math.nan
    reason: str = ""


@dataclass(frozen=True)
class Placement:
    """The nodes for a task, the best first.

    Attributes
    ----------
    excluded
        Why other nodes are out, by node.
    could_fit
        Whether some node could take the task if it were empty and ready.
    needed
        What the policy uses of a node: time, energy, power.
    counts
        Which predictions decide; what does not, such as energy at H = 0, need not be known.
    unused
        Features of the task that no prediction uses, and what each may have been meant to be.
    """

    task: Task
    policy: str
    H: float
    energy: str
    nodes: tuple[RankedNode, ...]
    excluded: Mapping[str, str]
    could_fit: bool = True
    needed: Sequence[str] = (ENERGY, TIME)
    counts: Sequence[str] = (ENERGY, TIME)
    unused: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> Sequence[str]:
        """The predictions whose trust is shown: those that decide, or else both."""
        return self.counts or (ENERGY, TIME)

    @property
    def is_blind(self) -> bool:
        """Whether nodes have room, and the policy knows nothing of the task on any of them."""
        return bool(self.nodes) and not any(node.is_known for node in self.nodes)

    @property
    def chosen(self) -> RankedNode | None:
        """The node to use; None if none has room, or if nothing is known of the task."""
        return self.nodes[0] if self.nodes and not self.is_blind else None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values; what is not known is None."""
        return {
            "chosen": None if self.chosen is None else self.chosen.node,
            "policy": self.policy,
            "H": self.H,
            "energy": self.energy,
            "nodes": [_node_json(node, self.shown) for node in self.nodes],
            "excluded": dict(self.excluded),
            "unused": sorted(self.unused),
        }

    def __str__(self) -> str:
        return placement_text(self)


def place(chooser: Chooser, choice: PolicyChoice, task: Task) -> Placement:
    """Rank the nodes for a task, and say why others are out."""
    fleet, H = chooser.fleet, chooser.weight(task)
    need, needed = fleet.need(task.needs), tuple(chooser.policy.needed(H))
    if need is None:
        unknown = sorted(set(task.needs.amounts()) - set(fleet.row))[0]
        excluded = dict.fromkeys(fleet.names, f"it has no {unknown}")
        return Placement(
            task, choice.name, H, chooser.energy, (), excluded, could_fit=False, needed=needed
        )
    ranking = chooser.rank(task, need)
    shown = chooser.policy.shown(ranking.scores)
    nodes = [_ranked(ranking, shown, i, needed) for i in ranking.order]
    excluded = _excluded(fleet, need, {node.node for node in nodes})
    could_fit = bool(fleet.could_ever_fit(need).any())
    return Placement(
        task, choice.name, H, chooser.energy, tuple(nodes), excluded, could_fit, needed,
        chooser.counts(H), _unused(task, chooser.estimates),
    )  # fmt: skip


def _unused(task: Task, estimates: Estimates) -> dict[str, str]:
    """Return the features that no prediction uses, each with the name that is nearest to it."""
    if not estimates.predicts:
        return {}
    used = estimates.columns
    known = (*NEEDS, "H", *sorted(used))
    names = sorted(task.features.keys() - {*used, PROFILE})
    return {name: nearest(name, known) or "" for name in names}


def _ranked(ranking: Ranking, shown: Array, i: int, needed: Sequence[str]) -> RankedNode:
    candidates, fleet = ranking.candidates, ranking.candidates.fleet
    estimate = candidates.estimates.by_type[candidates.types[i]]
    slowdown = None if candidates.slowdown is None else float(candidates.slowdown[i])
    return RankedNode(
        fleet.names[candidates.nodes[i]],
        fleet.types[candidates.types[i]].name,
        estimate if slowdown is None else estimate.slowed(slowdown),
        float(candidates.energy_j[i]),
        float(shown[i]),
        bool(ranking.is_known[i]),
        slowdown,
        float(candidates.extra_w[i]),
        _NO_POWER if _lacks_power(candidates, i, needed) else "",
    )


def _lacks_power(candidates: Candidates, i: int, needed: Sequence[str]) -> bool:
    """Whether the policy lacks a power of a node, for itself or for the energy that counts."""
    if POWER in needed or (ENERGY in needed and candidates.energy == "marginal"):
        return not math.isfinite(candidates.extra_w[i])
    if ENERGY in needed and candidates.energy == "node":
        return not math.isfinite(candidates.energy_j[i]) and not math.isfinite(
            candidates.fleet.idle_w[candidates.nodes[i]]
        )
    return False


def _excluded(fleet: Fleet, need: Amounts, kept: set[str]) -> dict[str, str]:
    could = fleet.could_ever_fit(need)
    found = {}
    for i, name in enumerate(fleet.names):
        if name in kept:
            continue
        if not fleet.ready[i]:
            found[name] = "not ready"
        elif not could[i]:
            found[name] = f"too small ({fleet.lacking(i, need)})"
        else:
            found[name] = f"no room ({fleet.lacking(i, need)})"
    return found


def _node_json(node: RankedNode, counts: Sequence[str]) -> dict[str, Any]:
    def numbers(name: str, unit: str, figure: Figure) -> dict[str, float | None]:
        parts = {"": figure.value, "_lower": figure.lower, "_upper": figure.upper}
        return {
            f"{name}{end}_{unit}": value if math.isfinite(value) else None
            for end, value in parts.items()
        }

    return {
        "node": node.node,
        "type": node.type,
        **numbers("time", "s", node.estimate.time),
        **numbers("energy", "j", node.estimate.energy),
        "counted_energy_j": node.energy_j if math.isfinite(node.energy_j) else None,
        "added_power_w": node.added_w if math.isfinite(node.added_w) else None,
        "slowdown": node.slowdown,
        "score": node.score,
        "trust": node.estimate.trust_in(counts),
        "remark": "; ".join(filter(None, (node.reason, node.estimate.remark_on(counts)))),
        "is_known": node.is_known,
    }


def placement_text(placement: Placement) -> str:
    """Write a placement as a table, with the reasons why other nodes are out."""
    lines = _table(placement) if placement.nodes else []
    if placement.is_blind:
        lines.append("No prediction can be used for this task, so no node is better than another.")
    elif not placement.nodes:
        never = "No node can take this task, even if it were empty."
        lines.append("No node can take this task now." if placement.could_fit else never)
    by_reason: dict[str, list[str]] = {}
    for node, reason in placement.excluded.items():
        by_reason.setdefault(reason, []).append(node)
    for reason, nodes in by_reason.items():
        named = ", ".join(nodes[:6]) + (f" and {len(nodes) - 6} more" if len(nodes) > 6 else "")
        lines.append(f"{named}: {reason}.")
    lines += [_weights(placement), *(_not_used(*pair) for pair in placement.unused.items())]
    return "\n".join(lines)


def _not_used(name: str, near: str) -> str:
    return f"No prediction uses '{name}'." + (f" Did you mean {near}?" if near else "")


def _weights(placement: Placement) -> str:
    """Say what decided."""
    policy = f"policy {placement.policy}"
    if not {ENERGY, TIME} & set(placement.needed):
        return f"{policy}, which does not weigh energy against time."
    share = round(100 * placement.H, 1)
    found = f"{policy}, H = {placement.H:g}: energy counts {share:g} %, time {100 - share:g} %."
    if ENERGY in placement.needed and (counts := _COUNTS.get(placement.energy)):
        found += f"\n{_COUNTED}: {counts} (energy = {placement.energy})."
    return found


def _more_columns(placement: Placement, shown: Sequence[RankedNode]) -> list[list[str]]:
    """Return columns that say what decided, where energy and time of the task alone did not."""
    found = []
    if ENERGY in placement.needed and placement.energy in _COUNTS:
        found.append([_COUNTED, *(_quantity(node.energy_j, ENERGY) for node in shown)])
    if POWER in placement.needed:
        found.append([_ADDED, *(_quantity(node.added_w, POWER) for node in shown)])
    if any(node.slowdown is not None for node in shown):
        found.append([_SLOWER, *(f"{node.slowdown or 1:.2f}×" for node in shown)])
    return found


def _table(placement: Placement) -> list[str]:
    shown, is_blind = placement.nodes[:_MOST_SHOWN], placement.is_blind
    rows: list[tuple[str, ...]] = [_HEADER]
    told: set[str] = set()
    for node in shown:
        rows.append(_row(node, placement.shown, is_blind, node.type not in told))
        told.add(node.type)
    for cells in _more_columns(placement, shown):
        rows = [(*row[:-2], cell, *row[-2:]) for row, cell in zip(rows, cells, strict=True)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    lines = []
    for n, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        mark = "   ← chosen" if n == 1 and not is_blind else ""
        lines.append(("  ".join([*cells, row[-1]]) + mark).rstrip())
    if len(placement.nodes) > _MOST_SHOWN:
        lines.append(f"and {len(placement.nodes) - _MOST_SHOWN} more nodes with room")
    return lines


def _row(
    node: RankedNode, counts: Sequence[str], is_blind: bool, is_first: bool
) -> tuple[str, ...]:
    """Return the cells of a node; the first of its type says what is to be said of the type."""
    trust = node.reason or node.estimate.trust_in(counts)
    if not node.is_known and not is_blind:
        trust = f"{trust}, so its score is the median of the others"
    remark = node.estimate.remark_on(counts)
    if is_first and remark and node.estimate.trust_in(counts) != TRUST_INSIDE:
        trust = f"{trust}: {remark}"
    return (
        plain(node.node), plain(node.type),
        _figure(node.estimate.time, TIME), _figure(node.estimate.energy, ENERGY),
        "–" if is_blind else f"{node.score:.3g}", trust,
    )  # fmt: skip


def _quantity(value: float, kind: str) -> str:
    return write_quantity(value, kind) if math.isfinite(value) else "–"


def _figure(figure: Figure, kind: str) -> str:
    if not math.isfinite(figure.value):
        return "–"
    value = write_quantity(figure.value, kind)
    if not figure.lower < figure.upper:
        return value
    low, high = (write_quantity(end, kind) for end in (figure.lower, figure.upper))
    return f"{value} ({low} – {high})"
