"""The contract of placement policies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foretell.decide.placement.estimates import Estimate, Figure, TypeEstimates
from foretell.decide.placement.fleet import Candidates, Fleet
from foretell.decide.placement.policies import Options, Policy
from foretell.decide.placement.policies._base import ENERGY, POWER, TIME
from foretell.machines import Node, NodeType, PowerCurve, Resources

_WEIGHTS = (0.0, 0.3, 0.5, 1.0)


def check_policy(policy: type[Policy] | Policy) -> None:
    """Raise AssertionError, saying what was expected, unless a policy keeps its contract.

    >>> from foretell.decide.placement.policies.kube import KubePolicy
    >>> check_policy(KubePolicy)
    """
    instance = policy() if isinstance(policy, type) else policy
    name = type(instance).__name__
    assert issubclass(instance.options_class, Options), f"{name}.options_class must be Options"
    assert instance.ties in ("by H", "name", "random"), f"{name}.ties must be a known rule"
    for H in _WEIGHTS:
        unknown = set(instance.needed(H)) - {TIME, ENERGY, POWER}
        assert not unknown, f"{name}.needed() must name time, energy or power, not {unknown}"
        for n_nodes in (1, 2, 7):
            _check_scores(instance, H, example_candidates(n_nodes))
            _check_scores(instance, H, example_candidates(n_nodes, instance.needed(H)))


def example_candidates(n_nodes: int, known: Sequence[str] = (TIME, ENERGY, POWER)) -> Candidates:
    """Return candidates of two types, half of them busy, the same on each call.

    Of one type only what is named is known.
    """
    power = PowerCurve(20, 5, 0.02) if POWER in known else None
    fast = NodeType("fast", Resources(cpus=8, memory_bytes=2**33), power=power)
    slow = NodeType("slow", Resources(cpus=4, memory_bytes=2**30), idle_w=2, busy_w=6)
    nodes = [Node(f"n{i}", fast if i % 3 == 0 else slow) for i in range(n_nodes)]
    nodes = [node.take(Resources(cpus=2)) if i % 2 else node for i, node in enumerate(nodes)]
    fleet = Fleet(nodes, types=[fast, slow])
    need = fleet.need(Resources(cpus=1, memory_bytes=2**28))
    assert need is not None
    estimates = TypeEstimates.of(
        [
            Estimate(
                Figure(10.0, 9.0, 11.0) if TIME in known else Figure(),
                Figure(90.0, 80.0, 100.0) if ENERGY in known else Figure(),
            ),
            Estimate(Figure(70.0, 60.0, 80.0), Figure(30.0, 25.0, 35.0)),
        ]
    )
    return Candidates(fleet, np.arange(n_nodes), need, estimates)


def _check_scores(policy: Policy, H: float, candidates: Candidates) -> None:
    name = type(policy).__name__
    n_nodes = len(candidates.nodes)
    before = candidates.fleet.used.copy()
    scores = policy.scores(candidates, H, np.random.default_rng(3))
    assert isinstance(scores, np.ndarray), (
        f"{name}.scores() must return an array of numpy, not a {type(scores).__name__}"
    )
    assert scores.shape == (n_nodes,), f"{name} must return one score per candidate"
    assert np.isfinite(scores).all(), (
        f"{name}: scores must be finite where all that {name}.needed() names is known; it must "
        "name all that they use of time, energy and power"
    )
    assert np.array_equal(before, candidates.fleet.used), f"{name} must not change the nodes"
    again = policy.scores(candidates, H, np.random.default_rng(3))
    assert np.array_equal(scores, again), f"{name}: the same seed must give the same scores"
    shown = policy.shown(scores)
    order, shown_order = np.argsort(scores, kind="stable"), np.argsort(shown, kind="stable")
    assert np.array_equal(order, shown_order), f"{name}.shown() must keep the order of scores"
    if policy.can_move:
        gains = policy.beats_by(scores, float(scores[0]))
        assert gains[0] == 0, f"{name}.beats_by() must be 0 for equal scores"
        assert np.array_equal(gains > 0, scores > scores[0]), (
            f"{name}.beats_by() must be positive for better scores, and for no others"
        )
