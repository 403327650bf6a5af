"""Every meter keeps the contract, or says what it lacks on this machine."""

from __future__ import annotations

import pytest

from foretell.measure.meters import METERS, Meter, Setting
from foretell.measure.sweep import Power
from foretell.outcomes import OUTCOMES
from foretell.testing import check_meter


@pytest.mark.parametrize("name", METERS.names())
def test_meter_keeps_its_contract(name):
    check_meter(METERS.get(name), Setting(Power(idle_w=10, busy_w=20)))


@pytest.mark.parametrize("name", METERS.names())
def test_what_a_meter_measures_is_known_as_an_outcome(name):
    assert {*METERS.get(name).columns} <= OUTCOMES  # or a fit would predict from it


class Sound(Meter):
    columns = ("n_looks",)

    def start(self, tree):
        pass

    def stop(self, tree):
        return {"n_looks": 1.0}


class Unnamed(Sound):
    columns = ()


class Foreign(Sound):
    def stop(self, tree):
        return {"others": 1.0}


class Negative(Sound):
    def stop(self, tree):
        return {"n_looks": -1.0}


class ForeignTrace(Sound):
    def reading(self, tree):
        return {"others": 1.0}


class Silent(Sound):
    def missing(self):
        return " "


@pytest.mark.parametrize(
    ("meter", "words"),
    [
        (Unnamed, "must name what is measured"),
        (Foreign, "must return its columns only"),
        (Negative, "must be a non-negative number"),
        (ForeignTrace, r"reading\(\) must return its columns only"),
        (Silent, "must say why"),
    ],
)
def test_a_broken_meter_is_told(meter, words):
    check_meter(Sound)
    with pytest.raises(AssertionError, match=words):
        check_meter(meter)
