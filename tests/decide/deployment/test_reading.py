"""Scenarios, choices and power as users write them; garbage is refused with the option named."""

import math

import pytest

from foretell.decide.deployment.power import read_power
from foretell.decide.deployment.scenario import SCENARIOS, Scenario, read_scenario
from foretell.decide.deployment.settings import read_choices
from foretell.decide.question.space import read_axis
from foretell.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("poisson:120/s", Scenario("server", rate_per_s=120.0)),
        ("poisson: 3000/min", Scenario("server", rate_per_s=50.0)),
        ("poisson:0.5/ms", Scenario("server", rate_per_s=500.0)),
        ("burst:8/50ms", Scenario("multi-stream", n_samples=8, every_s=0.05)),
        ("offline", Scenario("offline")),
    ],
)
def test_arrivals_tell_the_scenario(text, expected):
    found = read_scenario(text)
    assert found.name == expected.name
    assert found.rate_per_s == pytest.approx(expected.rate_per_s)
    assert found.n_samples == expected.n_samples
    assert found.every_s == expected.every_s or math.isclose(found.every_s, expected.every_s)


@pytest.mark.parametrize(
    "text",
    ["", "poisson", "poisson:", "poisson:fast", "poisson:-3/s", "poisson:0/s", "poisson:nan/s",
     "poisson:1e999/s", "poisson:12", "burst:8", "burst:0/50ms", "burst:8/0ms", "burst:8/soon",
     "burst:99999999999/1s", "uniform:3/s", "120/s"],
)  # fmt: skip
def test_garbage_in_arrivals_is_refused(text):
    with pytest.raises(UsageError) as caught:
        read_scenario(text)
    assert caught.value.option.name == "arrivals"
    assert "poisson:120/s" in str(caught.value)


def test_scenarios_that_need_arrivals_say_so():
    for name in ("server", "multi-stream"):
        with pytest.raises(UsageError, match="needs arrivals"):
            read_scenario(None, name)
    with pytest.raises(UsageError, match="not known how requests arrive"):
        read_scenario(None)
    with pytest.raises(UsageError, match="Did you mean 'offline'"):
        read_scenario(None, "ofline")
    with pytest.raises(UsageError, match="is the scenario server"):
        read_scenario("poisson:1/s", "offline")
    assert set(SCENARIOS) == {"single-stream", "multi-stream", "server", "offline"}


def choices(*texts):
    return read_choices(dict(map(read_axis, texts)), [1, 2])


def test_what_can_be_chosen_is_read():
    found = choices("batch=1..64*2", "threads=1,2", "wait=0,2ms,5ms")
    assert found.batches == (1, 2, 4, 8, 16, 32, 64)
    assert found.threads == (1, 2)
    assert found.waits_s == pytest.approx((0.0, 0.002, 0.005))
    assert choices("batch=1..4").batches == (1, 2, 3, 4)
    assert choices().waits_s is None
    assert choices().threads == (1, 2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("batch=0..4", "from 1"),
        ("batch=1.5,2", "whole numbers"),
        ("batch=a,b", "whole numbers"),
        ("threads=9999999", "from 1"),
        ("batch=1..1e12", "whole numbers"),
        ("batch=0.5..7.5", "whole numbers"),
        ("bath=1,2", "Did you mean 'batch'"),
        ("wait=5", "no unit"),
        ("wait=soon", "cannot be read"),
    ],
)
def test_garbage_in_what_can_be_chosen_is_refused(text, told):
    with pytest.raises(UsageError, match=told) as caught:
        choices(text)
    assert caught.value.option.name == "vary"


@pytest.mark.parametrize("text", ["", "20", "65,20", "20,x", "1,2,3", "0,5"])
def test_garbage_in_power_is_refused(text):
    with pytest.raises(UsageError) as caught:
        read_power(text, 2)
    assert caught.value.option.name == "power"
