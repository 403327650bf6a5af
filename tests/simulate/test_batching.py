"""Batches of a server: against formulas of queueing, a chain of queue lengths, and simpy."""

import math

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.decide.deployment.formulas import take_all_mean_s
from foretell.simulate.batching import LONGEST_PAUSE_S, play_batches, play_runs


def table(time_of, cap):
    return np.vstack([[0.0], [[time_of(b)] for b in range(1, cap + 1)]])


@pytest.mark.parametrize("load", [0.3, 0.7, 0.85])
def test_one_at_a_time_is_the_queue_of_pollaczek_and_khinchine(load):
    run = play_runs(table(lambda b: 0.01, 1), rate_per_s=load / 0.01, n_arrivals=100_000)
    expected = 0.01 + load * 0.01 / 2 / (1 - load)
    assert run.mean_s == pytest.approx(expected, rel=0.03)
    assert run.busy == pytest.approx(load, rel=0.01)
    assert run.mean_batch == 1


def test_spread_of_times_counts_as_in_the_formula_of_pollaczek_and_khinchine():
    times = np.vstack([np.zeros(2), [0.005, 0.015]])
    run = play_runs(times, rate_per_s=60, n_arrivals=100_000)
    second_moment = (0.005**2 + 0.015**2) / 2
    assert run.mean_s == pytest.approx(0.01 + 60 * second_moment / 2 / 0.4, rel=0.03)


@pytest.mark.parametrize("rate", [5, 30, 70])
def test_what_comes_after_a_pause_is_the_queue_of_welch(rate):
    """M/G/1 in which a job that finds the server idle takes longer, by how long that was idle."""
    pause_s, longest = 0.006, LONGEST_PAUSE_S
    run = play_runs(table(lambda b: 0.01, 1), rate_per_s=rate, pause_s=pause_s, n_arrivals=100_000)
    a = rate * longest  # idle times are exponential
    mean = pause_s * (1 - math.exp(-a)) / a
    square = (pause_s / longest) ** 2 * 2 / rate**2 * (1 - math.exp(-a) * (1 + a))
    expected = 0.01 + rate * 0.01**2 / 2 / (1 - rate * 0.01)
    expected += (2 * mean + rate * square) / (2 * (1 + rate * mean))
    assert run.mean_s == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("rate", [50, 200, 400, 600, 800, 1000])
def test_taking_all_that_wait_has_the_mean_of_inoue(rate):
    run = play_runs(table(lambda b: 0.002 + 0.0008 * b, 200), rate_per_s=rate, n_arrivals=60_000)
    assert run.mean_s == pytest.approx(take_all_mean_s(0.002, 0.0008, rate), rel=0.07)


def chain_of_batches(time_of, cap, rate, most=400):
    """Return how often batches have each size: queue lengths at starts are a Markov chain."""
    move = np.zeros((most, most))
    for waiting in range(1, most):
        size = min(waiting, cap)
        arrivals = rate * time_of(size)
        chances = np.exp(
            -arrivals + np.arange(most) * math.log(arrivals)
            - np.array([math.lgamma(k + 1) for k in range(most)])
        )  # fmt: skip
        for more, chance in enumerate(chances):
            after = min(max(waiting - size + more, 1), most - 1)  # an empty queue waits for one
            move[waiting, after] += chance
    move = move[1:, 1:] / move[1:, 1:].sum(axis=1, keepdims=True)
    values, vectors = np.linalg.eig(move.T)
    steady = np.real(vectors[:, np.argmax(values.real)])
    steady /= steady.sum()
    shares = np.zeros(cap + 1)
    for waiting, share in enumerate(steady, start=1):
        shares[min(waiting, cap)] += share
    return shares


def test_sizes_of_batches_are_those_of_the_chain_of_queue_lengths():
    def time_of(size):
        return 0.004 + 0.001 * size

    run = play_runs(table(time_of, 8), rate_per_s=500, n_arrivals=150_000)
    expected = chain_of_batches(time_of, 8, 500)
    shares = np.bincount(run.sizes, minlength=9) / len(run.sizes)
    assert shares == pytest.approx(expected, abs=0.01)


class SimpyServer:
    """The same server, written as processes that wait for one another."""

    def __init__(self, arrivals, time_of, cap, wait_s):
        self.env, self.queue, self.latencies = simpy.Environment(), [], []
        self.time_of, self.cap, self.wait_s = time_of, cap, wait_s
        self.change = self.env.event()
        self.env.process(self.arrive(arrivals))
        self.env.process(self.serve(len(arrivals)))
        self.env.run()

    def arrive(self, arrivals):
        for at in arrivals:
            yield self.env.timeout(at - self.env.now)
            self.queue.append(self.env.now)
            self.change.succeed()
            self.change = self.env.event()

    def serve(self, n):
        while len(self.latencies) < n:
            while not self.queue:
                yield self.change
            due = self.queue[0] + self.wait_s
            while len(self.queue) < self.cap and self.env.now < due:
                yield self.change | self.env.timeout(due - self.env.now)
                if due - self.env.now < 1e-12:
                    break
            batch, self.queue = self.queue[: self.cap], self.queue[self.cap :]
            yield self.env.timeout(self.time_of(len(batch)))
            self.latencies += [self.env.now - at for at in batch]


@pytest.mark.parametrize("wait_s", [0.0, 0.004, 0.03])
def test_every_latency_is_that_of_simpy(wait_s):
    def time_of(size):
        return 0.003 + 0.001 * size

    n, seed, rate, cap = 1_500, 3, 250, 6
    run = play_batches(table(time_of, cap), rate_per_s=rate, wait_s=wait_s, n_arrivals=n, seed=seed)
    arrivals = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, n))
    # Simpy's last batch waits for its full time, for nobody tells it that no more arrive.
    other = SimpyServer(arrivals.tolist(), time_of, cap, wait_s).latencies
    kept = len(run.latencies_s) - cap
    assert run.latencies_s[:kept] == pytest.approx(other[n - len(run.latencies_s) :][:kept])


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 32), st.floats(1.0, 2_000.0), st.floats(0.0, 0.05), st.integers(0, 2**31),
)  # fmt: skip
def test_nobody_is_lost_and_no_batch_is_larger_than_the_cap(cap, rate, wait_s, seed):
    times = table(lambda b: 0.001 * b, cap)
    run = play_batches(times, rate_per_s=rate, wait_s=wait_s, n_arrivals=500, seed=seed)
    assert run.sizes.sum() == 500
    assert 1 <= run.sizes.min() <= run.sizes.max() <= cap
    assert (run.latencies_s >= 0.001 - 1e-9).all()


def test_a_wait_makes_larger_batches_and_the_same_seed_the_same_run():
    times = table(lambda b: 0.004 + 0.001 * b, 16)
    runs = [
        play_batches(times, rate_per_s=120, wait_s=w, n_arrivals=20_000, seed=1)
        for w in (0.0, 0.02, 0.0)
    ]
    assert runs[1].mean_batch > runs[0].mean_batch
    assert runs[1].busy < runs[0].busy
    assert np.array_equal(runs[0].latencies_s, runs[2].latencies_s)
