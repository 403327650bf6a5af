"""Disciplines against simulators of other people, and BuTools where line-solver has it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from foretell.decide.queueing.predict import queue_figures
from foretell.decide.queueing.service.sprinted import Sprinted
from foretell.decide.queueing.stability import stable_discipline
from foretell.simulate.queue import PlayedClass, play_queue
from foretell.simulate.sprinting import SprintPower

from ....simulate.queue_oracles import mean_responses_in_ciw, play_in_simpy
from ..systems import streams

THREE = ((0.1, 0.8, 1.0), (0.15, 1.0, 1.0), (0.1, 1.5, 1.0))
MIXED = ((0.12, 1.5, 0.2), (0.1, 1.0, 2.0), (0.1, 1.2, 0.0))


def interval(values, n_batches=20):
    """The mean and four standard errors of it, from means of batches."""
    means = np.array([batch.mean() for batch in np.array_split(values, n_batches)])
    return means.mean(), 4 * means.std(ddof=1) / math.sqrt(n_batches)


@pytest.mark.parametrize("name", ["non-preemptive", "resume", "repeat", "redraw"])
def test_means_and_p95_agree_with_ciw(name):
    pairs = [(rate, mean) for rate, mean, _ in THREE]
    played = mean_responses_in_ciw(pairs, name, n_jobs=8_000, seed=7)
    for figures, responses in zip(
        queue_figures(name, streams(*THREE)).classes, played, strict=True
    ):
        mean, wide = interval(responses)
        assert abs(figures.mean_s - mean) < wide + 0.01 * mean
        assert np.mean(responses <= figures.p95_s) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("name", ["non-preemptive", "resume", "repeat"])
def test_means_of_any_times_agree_with_simpy(name):
    classes, n, random = streams(*MIXED), 5_000, np.random.default_rng(5)
    rates = np.array([c.rate_per_s for c in classes])
    at_s = np.cumsum(random.exponential(1 / rates.sum(), n))
    class_of = random.choice(len(classes), n, p=rates / rates.sum())
    sizes = np.zeros(n)
    for k, of_class in enumerate(classes):
        sizes[class_of == k] = of_class.service.draw(random, int((class_of == k).sum()))
    ends = play_in_simpy(at_s, class_of, sizes, discipline=name)
    for k, figures in enumerate(queue_figures(name, classes).classes):
        responses = (ends - at_s)[class_of == k]
        mean, wide = interval(responses)
        assert abs(figures.mean_s - mean) < wide + 0.01 * mean


@pytest.mark.parametrize("name", ["non-preemptive", "resume", "repeat", "redraw"])
def test_means_p95_and_waste_agree_with_our_own_simulation(name):
    classes = streams(*MIXED)
    played = play_queue(
        [PlayedClass(c.name, c.rate_per_s, c.service) for c in classes], name, n_jobs=80_000, seed=2
    )
    found = queue_figures(name, classes)
    assert found.waste == pytest.approx(played.waste, abs=0.003)
    assert found.load == pytest.approx(played.load, rel=0.02)
    for figures in found.classes:
        responses = played.responses_of(figures.name)
        mean, wide = interval(responses)
        assert abs(figures.mean_s - mean) < wide + 0.01 * mean
        for level, time in ((0.5, figures.p50_s), (0.95, figures.p95_s), (0.99, figures.p99_s)):
            # Constant times have jumps: there, many levels have the same time.
            assert np.mean(responses <= 0.99 * time) - 0.012 < level
            assert level < np.mean(responses <= 1.01 * time) + 0.012


@pytest.mark.parametrize("name", ["non-preemptive", "resume", "repeat", "redraw"])
def test_sprints_and_their_time_agree_with_our_own_simulation(name):
    plain = streams(*MIXED)
    sprinted = [replace(c, service=Sprinted(c.service, 0.7, 2.0)) for c in plain]
    played = play_queue(
        [PlayedClass(c.name, c.rate_per_s, c.service, 0.7) for c in plain], name,
        sprint=SprintPower(speedup=2.0), n_jobs=80_000, seed=3,
    )  # fmt: skip
    found = stable_discipline(name, sprinted)
    share = sum(c.rate_per_s * found.sprint_s(k) for k, c in enumerate(plain))
    assert played.sprinted_s / played.span_s == pytest.approx(share, rel=0.03)
    for k, of_class in enumerate(plain):
        mean, wide = interval(played.responses_of(of_class.name))
        assert abs(found.mean_response(k) - mean) < wide + 0.01 * mean


@pytest.mark.parametrize("name", ["resume", "repeat", "redraw"])
def test_time_to_make_way_agrees_with_our_own_simulation(name):
    plain = streams((0.1, 1.5, 0.2), (0.12, 1.0, 1.0), (0.15, 0.8, 0.5))
    classes = [
        replace(c, evict_s=evict_s) for c, evict_s in zip(plain, (0.6, 0.3, 9.0), strict=True)
    ]
    played = play_queue(
        [PlayedClass(c.name, c.rate_per_s, c.service, evict_s=c.evict_s) for c in classes], name,
        n_jobs=150_000, seed=4,
    )  # fmt: skip
    found, without = queue_figures(name, classes), queue_figures(name, plain)
    assert found.load == pytest.approx(played.load, rel=0.02)
    assert found.waste == pytest.approx(played.waste, abs=0.003)
    for figures, before in zip(found.classes, without.classes, strict=True):
        simulated = played.figures_of(figures.name)
        for value, estimate in (
            (figures.wait_s, simulated.wait), (figures.mean_s, simulated.response),
        ):  # fmt: skip
            assert abs(value - estimate.value) < 2 * estimate.half_width + 0.003 * value
        share = np.mean(played.responses_of(figures.name) <= figures.p95_s)
        assert share == pytest.approx(0.95, abs=0.006)
        assert figures.mean_s > 1.05 * before.mean_s
