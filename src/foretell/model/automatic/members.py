"""The members of an ensemble: names, the techniques behind them, and which of them vote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foretell.model.automatic.ensemble import NAME
from foretell.model.techniques import TECHNIQUES, Technique, complete

#: More configurations than a member can be fitted to in a few seconds are sampled.
_MOST_POINTS = 5_000
MOST_POINTS = 50_000  # that any member sees


@dataclass(frozen=True)
class MemberSpec:
    """How a member is fitted, and when it votes.

    Attributes
    ----------
    technique, settings
        The technique, and the hyperparameters that differ from its defaults.
    most_points
        The configurations it is fitted to; of more, a random sample.
    starts_merged
        Whether it starts from the process that was fitted when repeats were merged.
    least_weight
        How much a configuration counts at least, as a share of its number of runs. Weights are
        small where a smooth process is far off: because of outliers, or because the process cannot
        follow. Members that could do not rely on them.
    inside, beyond
        How many votes it has among the usual members, inside the data and beyond. The two processes
        are much alike, and share a vote inside. Beyond, four members have a process, and would
        always outvote the only trees and the only pure law. FlatGP equals LogGP inside. Beyond,
        PowerLaw leaves it to members that know better how laws go on.
    """

    technique: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    most_points: int = _MOST_POINTS
    starts_merged: bool = False
    least_weight: float = 0.0
    inside: float = 1.0
    beyond: float = 1.0

    def build(self) -> tuple[Technique, dict[str, Any]]:
        """Return the technique and a value for each of its hyperparameters."""
        technique = TECHNIQUES.get(self.technique)()
        return technique, complete(technique, self.settings)


_BOOSTED = {"law": "PowerLaw", "rest": "boosting"}
#: The members with a name of their own. Any technique can be a member under its own name.
MEMBERS: Mapping[str, MemberSpec] = {
    "LogGP": MemberSpec("LogGP", starts_merged=True, inside=0.5),
    "RoughGP": MemberSpec("LogGP", {"form": "rough"}, starts_merged=True),
    "FlatGP": MemberSpec("LogGP", {"beyond": "flat"}, starts_merged=True, inside=0.0),
    "SparseGP": MemberSpec(
        "LogGP", {"form": "sparse"}, starts_merged=True, least_weight=0.1, inside=0.5
    ),
    "Hybrid": MemberSpec("Hybrid"),
    "TrendTrees": MemberSpec("Hybrid", {"law": "PowerLaw", "rest": "trees"}),
    "BoostedTrend": MemberSpec("Hybrid", _BOOSTED, most_points=MOST_POINTS),
    "LightTrees": MemberSpec("LightTrees", least_weight=0.3, beyond=2.0),
    "ScalingLaw": MemberSpec("ScalingLaw", beyond=2.0),
    # A larger penalty would flatten the slopes of few runs.
    "PowerLaw": MemberSpec("PowerLaw", {"penalty": 0.1}, beyond=0.0),
}
#: One of each kind: a smooth process, a rough one with few axes, laws with and without a process
#: for what they leave over, trees, one that stays constant outside the data, and the simplest law.
USUAL = ("LogGP", "SparseGP", "Hybrid", "ScalingLaw", "LightTrees", "FlatGP", "PowerLaw")
#: Fitted to explain, whether they vote or not.
LAWS = ("ScalingLaw", "PowerLaw")
#: With so few runs, only laws and one process vote: the others would have too little to learn from.
FEW_RUNS = 10
_OF_FEW = (*LAWS, "LogGP")
#: With more configurations than this, boosting votes as well.
_MANY_POINTS = 2_000


def usual_voters(n_runs: int, n_points: int) -> tuple[str, ...]:
    """Choose who votes by how much was measured."""
    if n_runs <= FEW_RUNS:
        return _OF_FEW
    return (*USUAL, "BoostedTrend") if n_points > _MANY_POINTS else USUAL


def votes_of(voters: Sequence[str]) -> tuple[list[float], list[float]]:
    """Return how many votes each voter has inside the data, and beyond.

    The numbers of votes suit the usual members, also if one of them failed or others joined. In an
    ensemble of other members all count alike; only FlatGP equals LogGP inside.
    """
    specs = [member_spec(name) for name in voters]
    if len(set(USUAL) & set(voters)) > len(USUAL) / 2:
        return [spec.inside for spec in specs], [spec.beyond for spec in specs]
    is_twice = {"LogGP", "FlatGP"} <= set(voters)
    inside = [0.0 if is_twice and name == "FlatGP" else 1.0 for name in voters]
    return inside, [1.0] * len(voters)


def member_spec(name: str) -> MemberSpec:
    """Return how a member is fitted; any technique is a member under its own name."""
    return MEMBERS.get(name, MemberSpec(name))


def read_members(value: Any) -> list[str]:
    """Read the names of members, each once; raise ValueError for an unknown one."""
    names = [value] if isinstance(value, str) else list(value)
    known = list(dict.fromkeys([*MEMBERS, *TECHNIQUES.names()]))
    known.remove(NAME)
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is not a member; choose from {', '.join(known)}")
    if not names:
        raise ValueError("an ensemble needs at least one member")
    return list(dict.fromkeys(names))
