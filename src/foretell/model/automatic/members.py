"""The members of an ensemble: names, the techniques behind them, and who votes when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretell.model.automatic.ensemble import NAME
from foretell.model.techniques import TECHNIQUES, Technique, complete

#: The members known by a name of their own: a technique and its settings.
MEMBERS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "LogGP": ("LogGP", {}),
    "RoughGP": ("LogGP", {"form": "rough"}),
    "FlatGP": ("LogGP", {"beyond": "flat"}),
    "SparseGP": ("LogGP", {"form": "sparse"}),
    "Hybrid": ("Hybrid", {}),
    "TrendTrees": ("Hybrid", {"law": "PowerLaw", "rest": "trees"}),
    "BoostedTrend": ("Hybrid", {"law": "PowerLaw", "rest": "boosting"}),
    "LightTrees": ("LightTrees", {}),
    "ScalingLaw": ("ScalingLaw", {}),
    "PowerLaw": ("PowerLaw", {"penalty": 0.1}),  # more would bend the slopes of few runs
}
#: One voice of each kind: smooth, rough with few axes, law, trees; and, which matters outside the
#: data, that nothing changes any more.
USUAL = ("LogGP", "SparseGP", "Hybrid", "TrendTrees", "FlatGP")
#: Those that are others inside the data, and have a say beyond it alone.
ONLY_BEYOND = ("FlatGP",)
LAWS = ("ScalingLaw", "PowerLaw")
#: From so few runs, trees and what stands on a law say nothing.
_FEW_RUNS = 10
_OF_FEW = (*LAWS, "LogGP")
#: From so many configurations on, boosting has its say, too.
_MANY_POINTS = 2_000


def chosen_by_number(n_runs: int, n_points: int) -> tuple[str, ...]:
    """Choose who votes by how much was measured."""
    if n_runs <= _FEW_RUNS:
        return _OF_FEW
    return (*USUAL, "BoostedTrend") if n_points > _MANY_POINTS else USUAL


def member_technique(name: str) -> tuple[Technique, dict[str, Any]]:
    """Return the technique of a member, and its settings."""
    technique_name, settings = MEMBERS.get(name, (name, {}))
    technique = TECHNIQUES.get(technique_name)()
    return technique, complete(technique, settings)


def read_members(value: Any) -> list[str]:
    """Read the names of members, each once; raise ValueError for an unknown one."""
    names = [value] if isinstance(value, str) else list(value)
    known = list(dict.fromkeys([*MEMBERS, *TECHNIQUES.names()]))
    known.remove(NAME)
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is no member; choose from {', '.join(known)}")
    if not names:
        raise ValueError("an ensemble needs a member")
    return list(dict.fromkeys(names))
