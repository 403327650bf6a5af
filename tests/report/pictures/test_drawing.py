"""Axes that suit their values: logarithmic or not, from zero or not, with ticks to read."""

import numpy as np
import pytest

from foretell.report.pictures.drawing import add_legend, fit_axis, new_axes, scale_axis


@pytest.mark.parametrize(
    ("values", "scale", "starts_at_zero"),
    [
        ([1.0, 1.1, 1.2], "linear", False),
        ([1.0, 5.0, 10.0], "linear", True),
        ([1.0, 10.0, 100.0], "log", False),
        ([-1.0, 100.0], "linear", False),
        ([0.0, 100.0], "linear", True),
        ([3.0, 3.0], "linear", False),
    ],
)
def test_an_axis_suits_the_span_of_its_values(values, scale, starts_at_zero):
    _, axes = new_axes()
    fit_axis(axes.yaxis, np.array(values))
    low, high = axes.get_ylim()
    assert axes.get_yscale() == scale
    assert bool(low == 0) is starts_at_zero
    assert low <= min(values)
    assert max(values) < high


@pytest.mark.parametrize(
    ("ticks", "is_log", "are_taken"),
    [
        ([1.0, 2.0, 4.0, 8.0], True, True),
        ([1.0, 2.0, 4.0, 8.0], False, True),
        ([1.0, 1.01, 8.0], False, False),  # too close to be told apart
        (list(np.linspace(1, 8, 20)), False, False),  # too many
    ],
)
def test_measured_values_are_the_ticks_if_they_can_be_told_apart(ticks, is_log, are_taken):
    _, axes = new_axes()
    axes.set_xlim(1, 8)
    scale_axis(axes.xaxis, is_log=is_log, ticks=ticks)
    assert (axes.get_xticks().tolist() == ticks) is are_taken


def test_a_legend_names_what_was_drawn_in_the_order_asked_for():
    figure, axes = new_axes()
    axes.plot([1], [1], label="b")
    axes.plot([1], [1], label="a")
    add_legend(figure, axes, ["a", "never drawn", "b"], n_across=2)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
