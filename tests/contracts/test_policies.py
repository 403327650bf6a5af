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
    [Short, Restless, Greedy, Infinite, Reversed, Curious, Careless, CarelessOfPower, Unmoved],
)
def test_broken_policies_are_caught(broken):
    with pytest.raises(AssertionError, match=broken.__name__):
        check_policy(broken)


def test_two_packages_with_a_policy_of_one_name_are_refused(tmp_path, monkeypatch):
    for package in ("one", "two"):
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[foretell.policies]\nmine = {package}:Mine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry("policy", {}, group="foretell.policies")
    with pytest.raises(UsageError, match=r"two packages have a policy 'mine': .*uninstall"):
        registry.get("mine")
