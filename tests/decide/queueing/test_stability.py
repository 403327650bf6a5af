"""Queues that grow without limit are refused: which classes, why, and the largest stable rates."""

import re

import pytest

from foretell.decide.queueing.stability import (
    OverloadError,
    largest_factor,
    stable_discipline,
)

from .systems import streams


@pytest.mark.parametrize("name", ["non-preemptive", "resume", "repeat", "redraw"])
@pytest.mark.parametrize("load", [1.0, 1.25])
def test_a_load_of_1_names_the_classes_and_the_largest_rates(name, load):
    classes = streams((load / 2, 1.0, 0.5), (load / 2, 1.0, 0.5))
    with pytest.raises(OverloadError) as error:
        stable_discipline(name, classes)
    text = str(error.value)
    for part in (name, "class 0", "class 1", "grows without limit", "drop tasks"):
        assert part in text
    rate = float(re.search(r"class 1 ([0-9.]+) per s", text)[1])
    stable_discipline(name, streams((0.99 * rate, 1.0, 0.5), (0.99 * rate, 1.0, 0.5)))
    with pytest.raises(OverloadError):
        stable_discipline(name, streams((1.02 * rate, 1.0, 0.5), (1.02 * rate, 1.0, 0.5)))


def test_wasted_work_counts_as_load():
    # The thesis' study with nine high jobs to one low: at a load of 0.8, evicting cannot keep up.
    rate = 0.8 / (148 + 9 * 63)
    classes = streams((rate, 148.0, 0.0), (9 * rate, 63.0, 0.0))
    assert stable_discipline("non-preemptive", classes).load == pytest.approx(0.8)
    with pytest.raises(OverloadError, match=r"repeat.* is 1\.02 in sum"):
        stable_discipline("repeat", classes)
    assert largest_factor("repeat", classes) < 1 < largest_factor("resume", classes)


def test_jobs_that_never_get_through_are_named():
    with pytest.raises(
        OverloadError, match=r"repeating diverges.*class 1.*class 0.*below"
    ) as error:
        stable_discipline("repeat", streams((0.01, 1.0, 1.0), (1.1, 0.1, 1.0)))
    assert "another discipline" in str(error.value)
    stable_discipline("redraw", streams((0.01, 1.0, 1.0), (1.1, 0.1, 1.0)))


def test_a_constant_that_is_interrupted_without_end_is_refused_as_well():
    with pytest.raises(OverloadError, match="grows without limit"):
        stable_discipline("repeat", streams((0.001, 1e5, 0.0), (1.0, 0.1, 0.0)))
