"""Every policy keeps the contract, and policies that do not are caught."""

from __future__ import annotations

import numpy as np
import pytest

from foretell.decide.placement.policies import POLICIES, Policy
from foretell.errors import UsageError
from foretell.registry import Registry
from foretell.testing import check_policy


@pytest.mark.parametrize("name", POLICIES.names())
def test_policy_keeps_its_contract(name):
    check_policy(POLICIES.get(name))


class Sound(Policy):
    def needed(self, H):
        return ["time"]

    def scores(self, candidates, H, random):
        return -candidates.time_s


class Short(Sound):
    def scores(self, candidates, H, random):
        return candidates.time_s[:1]


class Listing(Policy):
    def scores(self, candidates, H, random):
        return [0.0] * len(candidates.nodes)


class Restless(Sound):
    def scores(self, candidates, H, random):
        return np.random.default_rng().random(len(candidates.nodes))


class Greedy(Sound):
    def scores(self, candidates, H, random):
        candidates.fleet.used += 1
        return candidates.time_s


class Infinite(Sound):
    def scores(self, candidates, H, random):
        return np.full(len(candidates.nodes), np.inf)


class Reversed(Sound):
    def shown(self, scores):
        return -scores


class Curious(Sound):
    def needed(self, H):
        return ["temperature"]


class Careless(Sound):
    def needed(self, H):
        return ()


class CarelessOfPower(Sound):
    def scores(self, candidates, H, random):
        return -candidates.extra_w


class Unmoved(Sound):
    can_move = True

    def beats_by(self, scores, stay):
        return stay - scores


def test_a_sound_policy_passes():
    check_policy(Sound)


@pytest.mark.parametrize(
    "broken",
    [
        Short,
        Listing,
        Restless,
        Greedy,
        Infinite,
        Reversed,
        Curious,
        Careless,
        CarelessOfPower,
        Unmoved,
    ],
)
def test_broken_policies_are_caught(broken):
    with pytest.raises(AssertionError, match=broken.__name__):
        check_policy(broken)


def install(folder, package, target):
    """Install a package that announces a policy 'mine'."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[foretell.policies]\nmine = {target}\n")


@pytest.mark.parametrize(
    ("target", "why"), [("json:Nope", "no attribute 'Nope'"), ("no_such:Mine", "No module named")]
)
def test_a_policy_that_cannot_be_loaded_is_named_with_its_package(
    tmp_path, monkeypatch, target, why
):
    install(tmp_path, "broken", target)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry("policy", {}, group="foretell.policies")
    with pytest.raises(UsageError, match=rf"'mine' .* cannot be loaded from {target}: .*{why}"):
        registry.get("mine")


def test_two_packages_with_a_policy_of_one_name_are_refused(tmp_path, monkeypatch):
    for package in ("one", "two"):
        install(tmp_path, package, f"{package}:Mine")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry("policy", {}, group="foretell.policies")
    with pytest.raises(UsageError, match=r"two packages have a policy 'mine': .*uninstall"):
        registry.get("mine")
