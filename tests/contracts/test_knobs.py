"""Every knob keeps the contract."""

from __future__ import annotations

import pytest

from foretell.testing import check_knob
from foretell.tune.knobs import KNOBS, Knob

VALUES = {"threads": [1, 2], "workers": [0, 1, 4], "prefetch": [1, 8], "flush_denormal": [0, 1]}


@pytest.mark.parametrize("name", KNOBS.names())
def test_knob_keeps_its_contract(name):
    check_knob(KNOBS.get(name), VALUES[name])


class Sound(Knob):
    value = 0

    def read(self):
        return self.value

    def apply(self, value):
        self.value = value

    def check(self, value):
        from foretell.errors import UsageError

        if value not in (0, 1):
            raise UsageError("it is 0 or 1")


class Deaf(Sound):
    def apply(self, value):
        pass


class Careless(Sound):
    def check(self, value):
        pass


class Sure(Sound):
    def prior(self, value, against):
        return (0.1, 0.5)


class Silent(Sound):
    def refusal(self, around):
        return " "


@pytest.mark.parametrize(
    ("knob", "words"),
    [
        (Deaf, "must return what was applied"),
        (Careless, "must refuse"),
        (Sure, "interval around 1"),
        (Silent, "must say why"),
    ],
)
def test_a_broken_knob_is_told(knob, words):
    check_knob(Sound, [0, 1])
    with pytest.raises(AssertionError, match=words):
        check_knob(knob, [0, 1])
