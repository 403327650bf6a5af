"""Arrivals by Markov processes that tests share, and a queue of them solved state by state."""

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

from foretell.decide.queueing.queue_file import long_run
from foretell.decide.queueing.streams import Stream


def random_bursts(seed, n_states, services, load):
    """Return the matrices of a random process, and the classes, with this load in sum."""
    random = np.random.default_rng([14, seed])
    shape = (n_states, n_states)
    matrices = [random.exponential(1, shape) * (random.random(shape) < 0.6) for _ in services]
    silent = random.exponential(0.1, shape) * (1 - np.eye(n_states))
    silent -= np.diag((silent + sum(matrices)).sum(axis=1))
    rates = [(long_run([silent, *matrices]) @ matrix).sum() for matrix in matrices]
    factor = load / sum(rate * time.mean for rate, time in zip(rates, services, strict=True))
    streams = [
        Stream(f"class {k}", float(factor * rate), time)
        for k, (rate, time) in enumerate(zip(rates, services, strict=True))
    ]
    return [factor * matrix for matrix in (silent, *matrices)], streams


def mean_numbers(matrices, ends_per_s, *, preempts, most=45):
    """Return how many jobs of two classes with exponential times are there on average.

    Every state of the queue is written down: that of the arrivals, the jobs of both classes, and
    whose job is in the engine. Jobs beyond ``most`` of a class are turned away.
    """
    n_states = len(matrices[0])
    keys = [
        (i, low, high, runs)
        for i in range(n_states)
        for low in range(most + 1)
        for high in range(most + 1)
        for runs in _possible(low, high, preempts)
    ]
    place = {key: n for n, key in enumerate(keys)}
    moves = []
    for i, low, high, runs in keys:
        here = place[i, low, high, runs]
        for j in range(n_states):
            if i != j:
                moves.append((here, place[j, low, high, runs], matrices[0][i, j]))
            for k, (more_low, more_high) in enumerate(((1, 0), (0, 1))):
                after = (min(low + more_low, most), min(high + more_high, most))
                then = _next(after, runs, preempts)
                moves.append((here, place[j, *after, then], matrices[k + 1][i, j]))
        if runs is not None:
            after = (low - (runs == 0), high - (runs == 1))
            moves.append((here, place[i, *after, _next(after, None, preempts)], ends_per_s[runs]))
    rows, columns, rates = zip(*(m for m in moves if m[0] != m[1]), strict=True)
    n = len(keys)
    generator = sparse.csr_array((rates, (rows, columns)), shape=(n, n))
    generator = sparse.lil_array((generator - sparse.diags_array(generator.sum(axis=1))).T)
    generator[0] = np.ones(n)
    shares = spsolve(sparse.csc_array(generator), np.eye(1, n)[0])
    return [float(shares @ [key[1 + k] for key in keys]) for k in (0, 1)]


def _possible(low, high, preempts):
    if preempts:
        return [_next((low, high), None, preempts)]
    return [k for k, n in ((0, low), (1, high)) if n] or [None]


def _next(jobs, runs, preempts):
    """Whose job is in the engine; None is nobody's."""
    if runs is not None and not preempts:
        return runs
    return 1 if jobs[1] else 0 if jobs[0] else None
