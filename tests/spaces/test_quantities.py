"""Quantities: what people write, and what they read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.errors import UsageError
from foretell.spaces.quantities import (
    COST,
    ENERGY,
    KINDS,
    MEMORY,
    TIME,
    duration,
    quantity_of_name,
    read_quantity,
    write_quantity,
)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("90", TIME, 90), ("90s", TIME, 90), ("1.5h", TIME, 5400), ("1h30m", TIME, 5400),
        ("2 d 3 h", TIME, 183600), ("250ms", TIME, 0.25), ("5MIN", TIME, 300), (7, TIME, 7),
        ("1e3 s", TIME, 1000), ("20", COST, 20), ("$20", COST, 20), ("0.5 €", COST, 0.5),
        ("2kWh", ENERGY, 7.2e6), ("300J", ENERGY, 300), ("4GiB", MEMORY, 2**32),
        ("1.5 MB", MEMORY, 1.5e6), ("500mJ", ENERGY, 0.5), ("2MJ", ENERGY, 2e6),
    ],
)  # fmt: skip
def test_quantities_are_read_with_their_units(text, kind, value):
    assert read_quantity(text, kind) == pytest.approx(value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "text",
    ["1x", "", " ", "h", "-3", "0", "nan", "inf", "1..5s", "1h30", "s5", "1 2", "1e999", "٣"],
)
def test_what_is_no_quantity_is_refused_with_an_example(text, kind):
    with pytest.raises(UsageError) as caught:
        read_quantity(text, kind)
    assert KINDS[kind].example in str(caught.value)


@given(st.integers(1, 10**7))
def test_a_written_duration_is_read_back_to_its_two_largest_units(seconds):
    back = read_quantity(duration(seconds).replace("min", "m"), TIME)
    coarse = 1 if seconds < 3600 else 60 if seconds < 86400 else 3600
    assert abs(back - seconds) <= coarse


@given(st.floats(1e-6, 1e15))
def test_a_written_energy_is_read_back_to_three_figures(value):
    assert read_quantity(write_quantity(value, ENERGY), ENERGY) == pytest.approx(value, rel=0.006)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wall_time_s", (TIME, 1)), ("Runtime (ms)", (TIME, 1e-3)), ("time_min", (TIME, 60)),
        ("time", (TIME, 1)), ("energy_estimated_j", (ENERGY, 1)), ("energy_kwh", (ENERGY, 3.6e6)),
        ("peak_memory_bytes", (MEMORY, 1)), ("mem_gib", (MEMORY, 2**30)), ("workers", None),
        ("s", None), ("loss", None), ("score_d", None), ("images_per_s", None), ("images/s", None),
        ("throughput_mb_s", None), ("read_mb_s", None), ("temp_min", None), ("node_h", None),
        ("run_time_h", (TIME, 3600)), ("energy_mj", None),
    ],
)  # fmt: skip
def test_names_of_columns_tell_the_quantity_and_its_unit(name, expected):
    assert quantity_of_name(name) == expected


@pytest.mark.parametrize("text", ["500mj", "5mw", "1mwh"])
def test_a_prefix_that_may_be_milli_or_mega_must_be_written_out(text):
    with pytest.raises(UsageError, match="is not a unit"):
        read_quantity(text, ENERGY if text != "5mw" else "power")
