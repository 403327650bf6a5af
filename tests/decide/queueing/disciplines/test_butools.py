"""Means of non-preemptive and resumed queues against BuTools, where line-solver brings it along."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from foretell.decide.queueing.disciplines import DISCIPLINES
from foretell.decide.queueing.marked.disciplines import MARKED
from foretell.decide.queueing.queue_file import read_queue
from foretell.decide.queueing.service.fitted import fitted_time
from foretell.decide.queueing.service.phases_left import _generator, _start
from foretell.decide.queueing.times import streams_of

from ..marked.bursts import random_bursts
from ..systems import streams

pytestmark = pytest.mark.filterwarnings("ignore")  # it uses matrices, which numpy warns of


@pytest.fixture(scope="module")
def butools():
    """Return the two functions of BuTools; line-solver itself is heavy, and stays unimported."""
    spec = importlib.util.find_spec("line_solver")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("line-solver is not installed")
    folder = Path(spec.submodule_search_locations[0]) / "lib" / "thirdparty"
    sys.path.insert(0, str(folder))
    try:
        plain = importlib.import_module("butools.queues.npprio")
        preemptive = importlib.import_module("butools.queues.prprio")
    finally:
        sys.path.remove(str(folder))
    # It counts phases in floats, which no longer are sizes of matrices.
    preemptive.np = SimpleNamespace(**{n: getattr(np, n) for n in dir(np) if n[0] != "_"})
    preemptive.np.empty = lambda n: np.empty(n, dtype=int)
    return {"non-preemptive": plain.MMAPPH1NPPR, "resume": preemptive.MMAPPH1PRPR}


def means_by_butools(function, classes, matrices=()):
    rates = [c.rate_per_s for c in classes]
    matrices = matrices or [[[-sum(rates)]], *([[rate]] for rate in rates)]
    arrivals = [np.matrix(matrix) for matrix in matrices]
    starts = [np.matrix(_start(c.service.parts)) for c in classes]
    generators = [np.matrix(_generator(c.service.parts).toarray()) for c in classes]
    found = function(arrivals, starts, generators, "stMoms", 1, "prec", 1e-14)
    return [float(np.ravel(moments)[0]) for moments in found]


TASKS = {
    "map_s": 5.0,
    "map_scv": 1,
    "overhead_s": 2,
    "shuffle_s": 1,
    "reduce_s": 1,
    "reduce_scv": 1,
}


def of_tasks(load):
    """Two classes of 22 phases in all, as Spark jobs have them."""
    jobs = [
        {"name": "low", "tasks": 8, "reduce_tasks": 2, **TASKS},
        {"name": "high", "tasks": 5, "reduce_tasks": 3, **TASKS},
    ]
    queue = {"slots": 3, "class": [{**job, "rate_per_s": 0.01} for job in jobs]}
    mean = sum(c.service.mean for c in streams_of(read_queue(queue), {}))
    queue["class"] = [{**job, "rate_per_s": load / mean} for job in jobs]
    return streams_of(read_queue(queue), {})


SYSTEMS = {
    "two exponentials": streams((0.3, 1.0, 1.0), (0.2, 1.5, 1.0)),
    "four classes": streams((0.1, 2.0, 0.5), (0.2, 0.7, 3.0), (0.1, 1.0, 0.3), (0.2, 0.8, 1.0)),
    "22 phases": of_tasks(0.7),
    "22 phases, loaded": of_tasks(0.95),
}


@pytest.mark.parametrize("name", ["non-preemptive", "resume"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_means_are_those_of_butools(butools, name, system):
    classes = SYSTEMS[system]
    found = DISCIPLINES.get(name)(classes)
    expected = means_by_butools(butools[name], classes)
    for k, mean in enumerate(expected):
        assert found.mean_response(k) == pytest.approx(mean, rel=1e-8)


@pytest.mark.parametrize("name", ["non-preemptive", "resume"])
@pytest.mark.parametrize(
    ("seed", "n_states", "scvs", "load"),
    [(1, 2, (0.25, 2.0), 0.7), (2, 3, (1.0, 0.5, 2.0), 0.9), (3, 4, (0.2, 0.2), 0.95)],
)
def test_means_of_bursts_are_those_of_butools(butools, name, seed, n_states, scvs, load):
    services = [fitted_time(2.0 / (k + 1), scv) for k, scv in enumerate(scvs)]
    matrices, classes = random_bursts(seed, n_states, services, load)
    found = MARKED[name](classes, matrices)
    for k, mean in enumerate(means_by_butools(butools[name], classes, matrices)):
        assert found.mean_response(k) == pytest.approx(mean, rel=1e-8)
