"""Formulas for arrivals in bursts: against Poisson ones, state by state, and simulations."""

from dataclasses import replace

import numpy as np
import pytest

from foretell.decide.queueing.disciplines import DISCIPLINES
from foretell.decide.queueing.marked.clearing import clearing
from foretell.decide.queueing.marked.disciplines import MARKED, mean_of
from foretell.decide.queueing.predict import queue_figures
from foretell.decide.queueing.queue_file import long_run
from foretell.decide.queueing.service.fitted import fitted_time
from foretell.decide.queueing.service.sprinted import Sprinted
from foretell.decide.queueing.stability import OverloadError
from foretell.simulate.job_arrivals import MarkedArrivals
from foretell.simulate.queue import PlayedClass, play_queue

from ..systems import streams
from .bursts import mean_numbers, random_bursts

MIXED = ((0.12, 1.5, 0.2), (0.3, 1.0, 2.0), (0.2, 1.2, 0.0))
NAMES = sorted(MARKED)


def poisson(classes):
    """The same arrivals as a process with one state."""
    rates = [c.rate_per_s for c in classes]
    return [np.array([[-sum(rates)]]), *(np.array([[rate]]) for rate in rates)]


@pytest.mark.parametrize("name", NAMES)
def test_one_state_is_poisson(name):
    classes = streams(*MIXED)
    plain, marked = DISCIPLINES.get(name)(classes), MARKED[name](classes, poisson(classes))
    s = np.array([0.01, 0.3 + 0.5j, 2.0 - 7.0j])
    for k in range(len(classes)):
        assert marked.mean_wait(k) == pytest.approx(plain.mean_wait(k), rel=1e-9)
        assert marked.mean_response(k) == pytest.approx(plain.mean_response(k), rel=1e-9)
        found, expected = marked.response_transform(k, s), plain.response_transform(k, s)
        assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_states_in_which_arrivals_are_alike_do_not_matter(name):
    classes = streams(*MIXED)
    one = poisson(classes)
    moves = np.array([[-0.3, 0.3], [0.1, -0.1]])
    two = [one[0] * np.eye(2) + moves, *(d * np.eye(2) for d in one[1:])]
    plain, marked = DISCIPLINES.get(name)(classes), MARKED[name](classes, two)
    for k in range(len(classes)):
        assert marked.mean_response(k) == pytest.approx(plain.mean_response(k), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [1, 2])
def test_means_are_those_of_all_states_written_down(name, seed):
    matrices, classes = random_bursts(
        seed, 2, [fitted_time(1.0, 1.0), fitted_time(0.6, 1.0)], load=0.5
    )
    numbers = mean_numbers(
        matrices, [1 / c.service.mean for c in classes], preempts=name == "resume"
    )
    found = MARKED[name](classes, matrices)
    for k, number in enumerate(numbers):  # by Little's law
        assert found.mean_response(k) * classes[k].rate_per_s == pytest.approx(number, rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_states_whose_changes_have_too_few_eigenvectors_have_figures(name):
    arriving = np.diag([0.1, 0.2, 0.6])
    silent = np.array([[-1.1, 1.0, 0.0], [0.0, -1.2, 1.0], [1.0, 1.0, -2.6]])
    near = silent + 1e-5 * np.array([[-1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    found, expected = (
        MARKED[name](
            streams((float((long_run([quiet, arriving]) @ arriving).sum()), 1.0, 0.5)),
            [quiet, arriving],
        )
        for quiet in (silent, near)
    )
    assert found.mean_response(0) == pytest.approx(expected.mean_response(0), rel=1e-4)
    s = np.array([0.01, 0.3 + 0.5j, 2.0 - 7.0j])
    transforms = [of.response_transform(0, s) for of in (found, expected)]
    assert transforms[0] == pytest.approx(transforms[1], rel=1e-4)


def test_clearing_at_one_s_does_not_depend_on_another():
    turned = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0], [1.0, 0.0, 1.0]])
    quiet = turned @ (np.eye(3, k=1) - np.eye(3)) @ np.linalg.inv(turned)  # one vector only
    every = np.linspace(0, 2, 21) * (1 + 1j)
    together = clearing(quiet, (), every).roots
    alone = [clearing(quiet, (), every[i : i + 1]).roots[0] for i in range(len(every))]
    assert np.array_equal(together, alone)


def test_priorities_only_exchange_waits():
    services = [fitted_time(1.0, 0.3), fitted_time(0.5, 2.0), fitted_time(2.0, 0.0)]
    matrices, classes = random_bursts(3, 3, services, load=0.8)

    def waiting_work(order):
        found = MARKED["non-preemptive"](
            [classes[i] for i in order], [matrices[0], *(matrices[1 + i] for i in order)]
        )
        return sum(classes[i].load * found.mean_wait(k) for k, i in enumerate(order))

    assert waiting_work([2, 0, 1]) == pytest.approx(waiting_work([0, 1, 2]), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("seed", "n_states", "load"), [(4, 2, 0.7), (5, 4, 0.9)])
def test_all_figures_agree_with_our_own_simulation(name, seed, n_states, load):
    services = [fitted_time(1.0, 0.2), fitted_time(0.7, 2.0), fitted_time(0.5, 0.5)]
    matrices, classes = random_bursts(seed, n_states, services, load)
    sprinted = [replace(c, service=Sprinted(c.service, 0.5, 2.0)) for c in classes]
    played = play_queue(
        [PlayedClass(c.name, c.rate_per_s, c.service) for c in sprinted], name,
        arrivals=MarkedArrivals(tuple(matrices)), n_jobs=60_000, seed=3,
    )  # fmt: skip
    for figures in queue_figures(name, sprinted, matrices=matrices).classes:
        simulated = played.figures_of(figures.name)
        for value, estimate in (
            (figures.wait_s, simulated.wait), (figures.mean_s, simulated.response),
            (figures.p50_s, simulated.p50), (figures.p95_s, simulated.p95),
        ):  # fmt: skip
            assert abs(value - estimate.value) < 2 * estimate.half_width + 0.01 * estimate.value


def test_vectors_that_do_not_suffice_are_no_trouble():
    # Three states one after another, left at the same rate: the matrix has one eigenvector only.
    silent = np.array([[-1.0, 0.5, 0.0], [0.0, -1.0, 0.5], [0.0, 0.0, -1.0]])
    low = np.array([[0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.5, 0.0, 0.5]])
    high = low * [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    services = [fitted_time(0.8, 0.5), fitted_time(0.5, 0.5)]
    matrices = [silent, low - high, high]
    rates = [(long_run(matrices) @ d).sum() for d in matrices[1:]]
    classes = [replace(c, rate_per_s=float(r), service=time) for c, r, time in zip(
        streams((1.0, 1.0, 1.0), (1.0, 1.0, 1.0)), rates, services, strict=True)]  # fmt: skip
    nudged = [silent + 1e-6 * np.array([[-1, 1, 0], [1, -1, 0], [0, 0, 0]]), *matrices[1:]]
    for name in NAMES:
        for k in (0, 1):
            found = MARKED[name](classes, matrices).mean_response(k)
            near = MARKED[name](classes, nudged).mean_response(k)
            assert found == pytest.approx(near, rel=1e-4)


def test_rare_long_bursts_have_an_exact_mean():
    # The mean is far from the decay of the tail: most jobs come alone, and few in long bursts.
    matrices = [np.array([[-1.502, 0.002], [1e-5, -0.01001]]), np.array([[1.5, 0.0], [0.0, 0.01]])]
    rate = float((long_run(matrices) @ matrices[1]).sum())
    (alone,) = streams((rate, 1.0, 1.0))
    numbers = _one_class_number(matrices, 1.0)
    found = MARKED["non-preemptive"]([alone], matrices).mean_response(0)
    assert found * rate == pytest.approx(numbers, rel=1e-6)


def _one_class_number(matrices, end_per_s, most=20_000):
    """The mean number of jobs of one class, by R of a matrix-geometric solution."""
    up, here = matrices[1], matrices[0] - end_per_s * np.eye(2)
    ratio = np.zeros((2, 2))
    for _ in range(most):
        ratio = -(up + end_per_s * ratio @ ratio) @ np.linalg.inv(here)
    rest = np.linalg.inv(np.eye(2) - ratio)
    equations = np.vstack([(matrices[0] + end_per_s * ratio).T, rest.sum(axis=1)])
    first = np.linalg.lstsq(equations, [0.0, 0.0, 1.0], rcond=None)[0]
    return float((first @ ratio @ rest @ rest).sum())


def test_a_load_of_one_is_refused():
    matrices, classes = random_bursts(6, 2, [fitted_time(1.0, 1.0)], load=1.01)
    with pytest.raises(OverloadError, match="largest stable rates are 99"):
        queue_figures("resume", classes, matrices=matrices)


def test_mean_of_a_time_that_is_nearly_always_nothing():
    assert mean_of(lambda s: 1 - 1e-4 + 1e-4 / (1 + 50 * s), 1.0) == pytest.approx(5e-3, rel=1e-9)
    assert mean_of(lambda s: np.ones_like(s), 1.0) == 0.0
