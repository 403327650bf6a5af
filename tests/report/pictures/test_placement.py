"""Pictures of a simulated cluster: the front of energy and time, and its labels."""

import pytest

from foretell.report.pictures.drawing import LIGHT
from foretell.report.pictures.placement import Point, draw_front, front

POINTS = [
    Point("kube", "kube", "kube", 100.0, 9e3),
    Point("geometric H=0 energy=node", "geometric energy=node", "H=0", 50.0, 8e3),
    Point("geometric H=0.4 energy=node", "geometric energy=node", "H=0.4", 80.0, 8.5e3),
    Point("geometric H=1 energy=node", "geometric energy=node", "H=1", 200.0, 5e3),
]


def test_the_front_has_no_point_that_another_beats_in_both():
    assert [p.tag for p in front(POINTS)] == ["H=0", "H=1"]


def test_only_the_front_is_joined_by_a_line():
    axes = draw_front(POINTS, LIGHT).axes[0]
    joined = [line for line in axes.lines if line.get_linewidth() > 0]
    assert [list(line.get_xdata()) for line in joined] == [[50.0, 200.0]]


def test_labels_of_policies_with_the_same_figures_do_not_overprint():
    same = Point("heats H=0", "heats", "H=0", 50.0, 8e3)
    figure = draw_front([*POINTS, same], LIGHT)
    figure.draw_without_rendering()
    boxes = [t.get_window_extent() for t in figure.axes[0].texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.parametrize("n", [2, 4])
def test_no_label_leaves_the_picture(n):
    figure = draw_front(POINTS[:n], LIGHT)
    figure.draw_without_rendering()
    box = figure.axes[0].get_window_extent()
    for text in figure.axes[0].texts:
        assert box.x0 <= text.get_window_extent().x0
        assert text.get_window_extent().x1 <= box.x1
