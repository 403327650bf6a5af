"""Batch times that are kept: found for the same network only, and never trusted if damaged."""

import json

import pytest

from foretell.decide.deployment.batch_times import Point
from foretell.deploy.cache import PointCache
from foretell.deploy.network import Effort, Network

NETWORK = Network("net.py:build", (1, 4, 4))
DESCRIPTION = {"graph": "abc", "torch": "2.0"}
POINT = Point(2, 8, 0.004, (0.9, 1.0, 1.3), 0.01, 1.9, 20)


def cache(folder, network=NETWORK, effort=None, **described):
    return PointCache(folder, network, {**DESCRIPTION, **described}, effort or Effort())


@pytest.fixture
def folder(tmp_path):
    cache(tmp_path / "deep" / "down").add(POINT)
    return tmp_path / "deep" / "down"


def test_points_are_found_again(folder):
    found = cache(folder)
    assert found.get(2, 8) == POINT
    assert found.get(2, 9) is None
    assert found.get(1, 8) is None


def test_another_network_input_version_or_effort_finds_nothing(folder):
    for other in (
        cache(folder, graph="abd"),
        cache(folder, torch="2.1"),
        cache(folder, Network("net.py:build", (1, 4, 5))),
        cache(folder, Network("net.py:build", (1, 4, 4), "float64")),
        cache(folder, Network("net.py:build", (1, 4, 4), arguments={"n_heads": 4})),
        cache(folder, effort=Effort(n_calls=40)),
        PointCache(folder, NETWORK, DESCRIPTION, Effort(), largest=64),
    ):
        assert other.get(2, 8) is None


def test_the_name_of_the_file_of_a_network_does_not_matter(folder):
    assert cache(folder, Network("moved.py:build", (1, 4, 4))).get(2, 8) == POINT


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-30],
        lambda text: "",
        lambda text: text.replace('"format": 2', '"format": 9'),
        lambda text: text.replace("0.004", "-1.0"),
        lambda text: text.replace('"batch"', '"btch"'),
        lambda text: "[]",
        lambda text: json.dumps({**json.loads(text), "points": 3}),
    ],
)
def test_a_damaged_file_is_as_good_as_none(folder, damage):
    [file] = folder.glob("*.json")
    file.write_text(damage(file.read_text()))
    found = cache(folder)
    assert found.get(2, 8) is None
    found.add(POINT)
    assert cache(folder).get(2, 8) == POINT


def test_a_folder_that_cannot_be_written_costs_nothing_but_the_cache(tmp_path):
    (tmp_path / "file").write_text("")
    found = cache(tmp_path / "file" / "inside")
    found.add(POINT)
    assert found.get(2, 8) == POINT
