"""Curves: how certain a prediction is shows in the line, and the measured range in the shading."""

import numpy as np
import pytest

from foretell.predictor import Forecast
from foretell.report.pictures.curve import Curve, Levels, draw_curve, draw_levels, thinned
from foretell.report.pictures.drawing import LIGHT


def forecast(trust, width=0.1):
    value = np.linspace(10, 2, len(trust))
    lower, upper = value * (1 - width), value * (1 + width)
    nothing = np.full(len(value), np.nan)
    return Forecast(value, lower, upper, [""] * len(value), nothing, np.array(trust, object), {})


def curve(trust, **changes):
    at = np.arange(1.0, len(trust) + 1)
    given = {"low": 2.0, "high": 3.0, "levels": (2.0, 3.0), "runs_at": np.zeros(0)}
    given |= {"runs": np.zeros(0), "forecast": forecast(trust), **changes}
    return Curve("nodes", "time_s", at, **given)


def drawn_lines(figure):
    """The pieces of the predicted line, with their styles, in order."""
    lines = figure.axes[0].get_lines()
    return [(line.get_linestyle(), line.get_xdata().tolist()) for line in lines
            if line.get_color() == LIGHT.first and line.get_linestyle() != "None"]  # fmt: skip


def test_the_line_is_solid_inside_dashed_near_and_dotted_far_without_gaps():
    figure = draw_curve(curve(["near", "inside", "inside", "near", "far", "far"]), LIGHT)
    assert drawn_lines(figure) == [
        ("--", [1.0, 2.0]),
        ("-", [2.0, 3.0]),
        ("--", [3.0, 4.0]),
        (":", [4.0, 5.0, 6.0]),
    ]


@pytest.mark.parametrize(
    ("low", "high", "spans"),
    [(2.0, 3.0, [(1.0, 2.0), (3.0, 4.0)]), (1.0, 3.0, [(3.0, 4.0)]), (1.0, 4.0, [])],
)
def test_only_what_lies_beyond_the_data_is_shaded(low, high, spans):
    figure = draw_curve(curve(["inside"] * 4, low=low, high=high), LIGHT)
    shaded = [p for p in figure.axes[0].patches if p.get_facecolor()[:3] != (1, 1, 1)]
    assert [(p.get_x(), p.get_x() + p.get_width()) for p in shaded] == spans


def test_measured_runs_and_intervals_are_named_where_there_are_any():
    full = curve(["inside"] * 4, runs_at=np.array([2.0]), runs=np.array([7.0]))
    bare = curve(["inside"] * 4, forecast=forecast(["inside"] * 4, width=np.nan))
    named = [[t.get_text() for t in draw_curve(c, LIGHT).legends[0].get_texts()]
             for c in (full, bare)]  # fmt: skip
    assert named[0] == ["predicted", "90 % interval", "measured", "beyond the data"]
    assert named[1] == ["predicted", "beyond the data"]


def test_each_level_has_its_dot_in_the_order_of_the_names():
    levels = Levels("time_s", ("c4", "m4"), forecast(["inside"] * 2), np.array([1]), np.ones(1))
    axes = draw_levels(levels, LIGHT).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["c4", "m4"]
    (dots,) = [line for line in axes.get_lines() if line.get_marker() == "D"]
    assert dots.get_xydata().tolist() == [[10.0, 0.0], [2.0, 1.0]]


def test_of_very_many_runs_some_are_drawn_evenly_with_both_ends():
    assert thinned(3).tolist() == [0, 1, 2]
    chosen = thinned(10_000)
    assert len(chosen) == 200
    assert {chosen[0], chosen[-1]} == {0, 9_999}
    assert np.ptp(np.diff(chosen)) <= 1
