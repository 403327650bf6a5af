"""What holds for every queue: conservation, order of disciplines, growth with the load."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from foretell.decide.queueing.predict import queue_figures
from foretell.decide.queueing.streams import work_rate

from ..systems import discipline, streams

SHAPES = some.lists(
    some.tuples(
        some.floats(0.05, 1.0), some.floats(0.2, 5.0), some.sampled_from([0.0, 0.05, 0.4, 1.0, 2.5])
    ),
    min_size=1,
    max_size=4,
)
LOADS = some.floats(0.05, 0.95)
FEW = settings(max_examples=25, deadline=None)
FEWER = settings(max_examples=8, deadline=None)  # with quantiles


def loaded(shapes, load):
    """Scale the rates so that all classes together bring a load."""
    total = sum(rate * mean for rate, mean, _ in shapes)
    return tuple((rate * load / total, mean, scv) for rate, mean, scv in shapes)


@FEW
@given(SHAPES, LOADS)
def test_waits_weighted_by_load_do_not_depend_on_priorities(shapes, load):
    classes = loaded(shapes, load)
    found = discipline("non-preemptive", *classes)
    weighted = sum(s.load * found.mean_wait(k) for k, s in enumerate(found.streams))
    in_order = load * work_rate(found.streams, 2) / (2 * (1 - load))
    assert weighted == pytest.approx(in_order, rel=1e-9)


@FEW
@given(SHAPES, LOADS)
def test_resuming_is_never_slower_than_repeating_and_wastes_nothing(shapes, load):
    classes = loaded(shapes, load)
    resumed, repeated = (discipline(name, *classes) for name in ("resume", "repeat"))
    for k, stream in enumerate(resumed.streams):
        assert repeated.gross_s(k) >= stream.service.mean * (1 - 1e-6)
        if math.isfinite(repeated.gross_s(k)) and repeated.load < 1:
            assert repeated.mean_response(k) >= resumed.mean_response(k) * (1 - 1e-6)


@FEWER
@given(SHAPES, some.floats(0.05, 0.9), some.sampled_from(["non-preemptive", "resume"]))
def test_more_load_means_longer_times_for_all(shapes, load, name):
    light, heavy = (queue_figures(name, streams(*loaded(shapes, x))) for x in (load, load + 0.05))
    for less, more in zip(light.classes, heavy.classes, strict=True):
        assert more.mean_s > less.mean_s
        assert more.wait_s > less.wait_s
        if less.response is not None and more.response is not None:
            assert more.p95_s > less.p95_s * (1 - 0.01)  # blurred where times have jumps


@FEWER
@given(SHAPES, LOADS, some.sampled_from(["non-preemptive", "resume", "redraw"]))
def test_quantiles_are_in_order_and_means_between_least_and_most(shapes, load, name):
    classes = loaded(shapes, load)
    found = discipline(name, *classes)
    if found.load >= 1:
        return
    for figures, (_, mean, _) in zip(
        queue_figures(name, streams(*classes)).classes, classes, strict=True
    ):
        assert figures.wait_s >= 0
        assert figures.mean_s >= (mean if name != "redraw" else 0)
        if figures.response is not None:
            assert 0 < figures.p50_s <= figures.p95_s <= figures.p99_s


@FEWER
@given(some.tuples(LOADS, some.floats(0.2, 5.0), some.sampled_from([0.05, 0.4, 1.0, 2.5])))
def test_alone_a_class_is_served_in_order_whatever_the_discipline(shape):
    load, mean, scv = shape
    found = [
        queue_figures(name, streams((load / mean, mean, scv))).classes[0]
        for name in ("non-preemptive", "resume", "repeat", "redraw")
    ]
    for other in found[1:]:
        assert other.mean_s == pytest.approx(found[0].mean_s, rel=1e-9)
        assert other.p95_s == pytest.approx(found[0].p95_s, rel=1e-6)


@FEW
@given(LOADS, some.floats(0.2, 0.8), some.sampled_from([0.05, 1.0, 2.5]))
def test_two_classes_of_the_same_jobs_are_on_average_one(load, share, scv):
    halves = ((load * (1 - share), 1.0, scv), (load * share, 1.0, scv))
    found = discipline("non-preemptive", *halves)
    mean = (1 - share) * found.mean_response(0) + share * found.mean_response(1)
    assert mean == pytest.approx(discipline("resume", (load, 1.0, scv)).mean_response(0), rel=1e-9)
