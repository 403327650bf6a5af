"""The contract of knobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from foretell.errors import UsageError
from foretell.tune.knobs import Knob, Surroundings


def check_knob(knob: type[Knob], values: Sequence[Any]) -> None:
    """Raise AssertionError, saying what was expected, unless a knob keeps its contract.

    The values are two or more that the knob can have.

    >>> from foretell.tune.knobs.prefetch import PrefetchKnob
    >>> check_knob(PrefetchKnob, [1, 4])
    """
    name, instance = knob.__name__, knob()
    before = instance.read()
    try:
        for value in [*values, *values]:
            _check_value(instance, value)
    finally:
        instance.apply(before)
    assert instance.read() == before, f"{name}.apply() must put back what read() returned"
    _check_refusals(instance)
    for value in values:
        for against in values:
            low, high = instance.prior(value, against)
            is_interval = 0 < low <= 1 <= high < math.inf
            assert is_interval, f"{name}.prior() must be an interval around 1, not {low} to {high}"


def _check_value(knob: Knob, value: Any) -> None:
    name = type(knob).__name__
    knob.check(value)
    knob.apply(value)
    assert knob.read() == value, f"{name}.read() must return what was applied, {value!r}"
    n_cores = knob.n_cores(value)
    assert 0 <= n_cores < math.inf, f"{name}.n_cores() must be a number of cores, not {n_cores}"


def _check_refusals(knob: Knob) -> None:
    name = type(knob).__name__
    for around in (Surroundings(), Surroundings(2, "two trainings share it")):
        why = knob.refusal(around)
        assert why is None or why.strip(), f"{name}.refusal() must say why"
    try:
        knob.check("no such value")
    except UsageError:
        return
    raise AssertionError(f"{name}.check() must refuse what the knob cannot be with a UsageError")
