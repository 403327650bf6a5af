"""Policies: the rules that pick a node; one file each, and one line here."""

from __future__ import annotations

from foretell.decide.placement.policies._base import Options, Policy
from foretell.registry import Registry

POLICIES: Registry[Policy] = Registry(
    "policy",
    {
        "geometric": "foretell.decide.placement.policies.geometric:GeometricPolicy",
        "heats": "foretell.decide.placement.policies.heats:HeatsPolicy",
        "kube": "foretell.decide.placement.policies.kube:KubePolicy",
        "peaks": "foretell.decide.placement.policies.peaks:PeaksPolicy",
        "first_fit": "foretell.decide.placement.policies.first_fit:FirstFitPolicy",
        "random": "foretell.decide.placement.policies.at_random:RandomPolicy",
        "best": "foretell.decide.placement.policies.best:BestPolicy",
    },
    group="foretell.policies",
)

__all__ = ["POLICIES", "Options", "Policy"]
