"""Measuring one point after the other: where times drift, intervals are wider, and that is told."""

import pytest

from foretell.decide.deployment.batch_times import Point
from foretell.decide.deployment.points import Points
from foretell.deploy.measuring import measure_points
from foretell.deploy.network import BatchFailedError
from foretell.errors import NothingUsableError


class Cache(dict):
    def get(self, threads, batch):
        return super().get((threads, batch))

    def add(self, point):
        self[point.threads, point.batch] = point


class FakeStopwatch:
    """Times batches by a line, and slower from the second time on."""

    def __init__(self, slower, disturbed=0.0, most_batch=1000):
        self.slower, self.disturbed, self.most_batch = slower, disturbed, most_batch
        self.cache, self.seen, self.failed = Cache(), set(), []

    def point(self, threads, batch):
        if not self.can_compute(threads, batch):
            raise BatchFailedError("no room")
        return self.cache.get(threads, batch) or self.timed(threads, batch)

    def can_compute(self, threads, batch):
        if batch > self.most_batch:
            self.failed.append(batch)
        return batch <= self.most_batch

    def timed(self, threads, batch):
        factor = self.slower if (threads, batch) in self.seen else 1.0
        self.seen.add((threads, batch))
        median = factor * (0.002 + 0.001 * batch)
        return Point(threads, batch, median, (1.0,), 0.01, 1.0, 20, self.disturbed)


def measured(stopwatch):
    return measure_points(stopwatch, Points(range(1, 33), [1, 2]), lambda _: [])


def test_times_that_stay_the_same_are_known_as_well_as_their_rounds_say():
    found = measured(FakeStopwatch(1.0))
    assert found.notes == []
    assert {p.error for p in found.points} == {0.01}


def test_times_that_drift_make_all_errors_larger_and_a_note():
    found = measured(FakeStopwatch(1.2))
    assert min(p.error for p in found.points) == pytest.approx(0.13, abs=0.01)
    assert "changed by 20 %" in found.notes[0]


def test_a_single_disturbance_does_not_make_everything_impossible():
    found = measured(FakeStopwatch(80.0))
    assert max(p.error for p in found.points) < 0.3


def test_points_of_the_cache_are_not_timed_again():
    stopwatch = FakeStopwatch(1.2)
    first = measured(stopwatch)
    stopwatch.timed = None
    again = measured(stopwatch)
    assert again.n_cached == len(again.points)
    assert {(p.threads, p.batch): p for p in again.points} == {
        (p.threads, p.batch): p for p in first.points
    }


def test_disturbed_measurements_are_told():
    assert any("Other work disturbed" in n for n in measured(FakeStopwatch(1.0, 0.5)).notes)


@pytest.mark.parametrize("most_batch", [1, 6, 17, 31])
def test_the_largest_batch_that_can_be_computed_is_found_by_halving_and_told_once(most_batch):
    stopwatch = FakeStopwatch(1.0, most_batch=most_batch)
    found = measured(stopwatch)
    assert found.most_batch == most_batch
    assert found.notes == [f"Batches of {most_batch + 1} and more cannot be computed: no room."]
    assert len(stopwatch.failed) <= 6
    assert stopwatch.largest == most_batch  # which processes of other threads compute first
    assert {p.threads for p in found.points if p.batch == most_batch} == {1, 2}
    assert max(p.batch for p in found.points) == most_batch


def test_a_network_that_computes_no_batch_at_all_is_told():
    with pytest.raises(NothingUsableError, match="a batch of 1 cannot be computed: no room"):
        measured(FakeStopwatch(1.0, most_batch=0))
