"""Simulating a cluster: what each policy would take in energy and time, over several seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from foretell.cluster.models import open_estimates
from foretell.cluster.profiles import profiles_of
from foretell.dataset import Dataset
from foretell.decide.placement.choose import PolicyChoice, read_policies
from foretell.decide.placement.cluster import Cluster, TraceTable, read_cluster
from foretell.decide.placement.estimates import Estimates
from foretell.decide.placement.fleet import Fleet
from foretell.errors import Option, UsageError
from foretell.simulate.arrivals import Arrival, made_up, read_arrivals
from foretell.simulate.cluster import Played, Scene
from foretell.simulate.figures import Figures, best_cost, figures_of

DEFAULT_POLICIES = "kube,geometric:H=0,geometric:H=0.5,geometric:H=1"
#: The weights of energy that a sweep tries.
WEIGHTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, and the ends of its 95 % interval; the same where there is one seed."""

    mean: float
    lower: float
    upper: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Average values, one per seed."""
        from scipy.stats import t

        found = np.asarray(values, dtype=float)
        mean = float(found.mean())
        if len(found) < 2:
            return cls(mean, mean, mean)
        half = float(t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / math.sqrt(len(found)))
        return cls(mean, mean - half, mean + half)


@dataclass(frozen=True)
class PolicyOutcome:
    """What a policy comes to: its figures for each seed, and what happened with the first."""

    choice: PolicyChoice
    figures: tuple[Figures, ...]
    played: Played

    @property
    def label(self) -> str:
        """How tables name the policy."""
        return self.choice.label

    def mean(self, name: str) -> float:
        """Return a figure, averaged over the seeds."""
        return float(np.mean([getattr(f, name) for f in self.figures]))


@dataclass(frozen=True)
class Simulation:
    """What policies come to on the same tasks.

    Attributes
    ----------
    is_exact
        Whether regret is relative to the best schedule; otherwise it is an upper limit.
    n_own_weights
        How many tasks have a weight of energy of their own, so that a policy's H does not apply.
    """

    cluster: Cluster
    n_tasks: int
    n_nodes: int
    seeds: tuple[int, ...]
    outcomes: tuple[PolicyOutcome, ...]
    is_exact: bool
    n_own_weights: int = 0

    def against_first(self, outcome: PolicyOutcome, name: str) -> Interval:
        """Return by which share a figure differs from that of the first policy, seed by seed."""
        pairs = zip(outcome.figures, self.outcomes[0].figures, strict=True)
        return Interval.of([getattr(a, name) / getattr(b, name) - 1 for a, b in pairs])

    def tasks(self) -> pd.DataFrame:
        """Return one row per task and policy, with the first seed."""
        frames = [o.played.tasks.assign(policy=o.label) for o in self.outcomes]
        found = pd.concat(frames, ignore_index=True)
        return found[["policy", *(c for c in found.columns if c != "policy")]]

    def to_json(self) -> dict[str, Any]:
        """Return all figures as plain values."""
        return {
            "label": "simulated",
            "n_tasks": self.n_tasks,
            "n_nodes": self.n_nodes,
            "n_tasks_with_own_H": self.n_own_weights,
            "seeds": list(self.seeds),
            "regret_is_exact": self.is_exact,
            "policies": [
                {"policy": o.label, "figures": [f.to_json() for f in o.figures]}
                for o in self.outcomes
            ],
        }

    def __str__(self) -> str:
        from foretell.cluster.text import simulation_text

        return simulation_text(self)


def simulate_cluster(
    cluster: Path | str | Mapping[str, Any] | Cluster,
    tasks: Path | str | pd.DataFrame | Dataset | None = None,
    *,
    policy: str | Sequence[str | PolicyChoice] | None = None,
    seed: int = 0,
    n_seeds: int = 1,
) -> Simulation:
    """Play tasks on a cluster under several policies.

    Parameters
    ----------
    cluster
        A cluster file, or a dict of its shape.
    tasks
        A table of tasks with ``arrival_s``, needs and features as columns; by default they are made
        up as [trace] in the cluster file says. A column ``profile`` names profiles of co-runs: such
        tasks slow one another on the nodes that they share.
    policy
        Policies with their settings, such as ``"kube,heats:H=0,geometric:H=1"``.
    seed, n_seeds
        The first seed, and how many are tried; they decide made-up tasks, noise, and equals.
    """
    read = read_cluster(cluster)
    read.check_nodes()
    choices = read_policies(DEFAULT_POLICIES if policy is None else policy)
    if n_seeds < 1:
        raise UsageError(f"must be at least 1, not {n_seeds}", option=Option("n_seeds"))
    if seed < 0:
        raise UsageError(f"must be at least 0, not {seed}", option=Option("seed"))
    arrivals = None if tasks is None else read_arrivals(tasks)
    if arrivals is None and read.trace is None:
        raise UsageError(
            "there are no tasks: the cluster file has no [trace]",
            remedy=("add one, or give a table with ", Option("tasks", "trace.csv")),
        )
    return run_policies(read, arrivals, choices, range(seed, seed + n_seeds))


def run_policies(
    cluster: Cluster,
    arrivals: Sequence[Arrival] | None,
    choices: Sequence[PolicyChoice],
    seeds: Sequence[int],
    opened: tuple[Estimates, Estimates] | None = None,
) -> Simulation:
    """Play all policies with all seeds; ``opened`` has other predictions than the file's."""
    estimates, truth = open_estimates(cluster) if opened is None else opened
    trace = cluster.trace or TraceTable()
    figures: dict[str, list[Figures]] = {choice.label: [] for choice in choices}
    first: dict[str, Played] = {}
    is_exact, n_tasks, n_own, n_nodes = True, 0, 0, 0
    for seed in seeds:
        own = made_up(trace, seed) if arrivals is None else list(arrivals)
        scene = Scene(
            cluster, own, estimates, truth, trace.noise, profiles_of(cluster, (a.task for a in own))
        )
        n_tasks, n_nodes = len(own), len(cluster.nodes()[0])
        n_own = sum(arrival.task.H is not None for arrival in own)
        played = [scene.play(choice, seed) for choice in choices]
        if all(p.tasks.empty for p in played):
            raise _nothing_fits(cluster, own)
        best = {p.H: best_cost(scene, played, p.H) for p in played}
        is_exact = is_exact and None not in best.values()
        for p in played:
            figures[p.policy].append(figures_of(p, best[p.H]))
            first.setdefault(p.policy, p)
    outcomes = tuple(PolicyOutcome(c, tuple(figures[c.label]), first[c.label]) for c in choices)
    return Simulation(cluster, n_tasks, n_nodes, tuple(seeds), outcomes, is_exact, n_own)


def _nothing_fits(cluster: Cluster, arrivals: Sequence[Arrival]) -> UsageError:
    fleet = Fleet.of(cluster)
    need = fleet.need(arrivals[0].task.needs)
    largest = int(np.argmax(fleet.capacity[fleet.row["cpus"]]))
    why = "" if need is None else f" ({fleet.names[largest]}: {fleet.lacking(largest, need)})"
    return UsageError(
        f"none of the {len(arrivals)} tasks fits on any node, even on an empty one{why}; "
        "ask for less, or correct the capacity of node types"
    )


@dataclass(frozen=True)
class WeightSweep:
    """One policy with several weights of energy, and the policy to compare with, on the same tasks.

    Attributes
    ----------
    base
        The policy with its settings, without a weight.
    simulation
        The policy to compare with comes first.
    """

    base: PolicyChoice
    simulation: Simulation

    @property
    def outcomes(self) -> list[PolicyOutcome]:
        """What the policy comes to with each weight, from speed to energy."""
        return [
            o for o in sorted(self.simulation.outcomes, key=lambda o: o.choice.H or 0.0)
            if o.choice.H in WEIGHTS and replace(o.choice, H=None) == self.base
        ]  # fmt: skip

    @property
    def title(self) -> str:
        """The policy with the settings that were given, such as geometric with energy=node."""
        name, _, settings = self.base.label.partition(" ")
        return f"{name} with {settings.replace(' ', ', ')}" if settings else name

    @property
    def settings(self) -> str:
        """All settings besides H, also those of the cluster file."""
        cluster, base = self.simulation.cluster, self.base
        moves = cluster.migration.enabled if base.moves is None else base.moves
        found = {"energy": base.energy or cluster.policy.energy, "moves": "on" if moves else "off"}
        return ", ".join(f"{key}={value}" for key, value in {**found, **base.options}.items())


def simulate_weights(
    cluster: Path | str | Mapping[str, Any] | Cluster,
    tasks: Path | str | pd.DataFrame | Dataset | None = None,
    *,
    policy: str | Sequence[str | PolicyChoice] | None = None,
    seed: int = 0,
    n_seeds: int = 1,
) -> WeightSweep | None:
    """Play the same tasks with several weights of energy; None if all tasks have their own.

    The weights are tried with the last of the policies that uses them, or else with geometric;
    never with best, which takes too long.
    """
    read = read_cluster(cluster)
    if _all_have_own(read.trace, tasks):
        return None
    choices = read_policies(DEFAULT_POLICIES if policy is None else policy)
    weighted = [c for c in choices if c.make().needed(0.5) and c.name != "best"]
    base = replace(weighted[-1], H=None) if weighted else PolicyChoice("geometric")
    swept = [replace(base, H=H) for H in WEIGHTS]
    compared = [choices[0], *(c for c in swept if c != choices[0])]
    found = simulate_cluster(read, tasks, policy=compared, seed=seed, n_seeds=n_seeds)
    return WeightSweep(base, found)


def _all_have_own(
    trace: TraceTable | None, tasks: Path | str | pd.DataFrame | Dataset | None
) -> bool:
    """Whether all tasks have a weight of energy of their own."""
    if tasks is None:
        return trace is not None and trace.H is not None
    return all(arrival.task.H is not None for arrival in read_arrivals(tasks))
