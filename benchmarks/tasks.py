"""How fast the task runtime is, how true forecasts of graphs are, and what isolation costs.

    python -m benchmarks.tasks [overhead] [cholesky] [forecast] [sandbox] [graphs] [-o FILE]

*overhead*: empty tasks with dependencies, beside executors of the standard library, Dask and Ray.
*cholesky*: a factorization by blocks on one and two workers, beside LAPACK. *forecast*: blocks and
workers that were never run. *sandbox*: calls and megabytes. *graphs*: random programs, in parallel
and in order. The machine should do nothing else; all parts take about eight minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np

import foretell
from foretell.tasks import Graph, OwnerKey, foresee, task

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples" / "tasks"))
sys.path.insert(0, str(ROOT / "examples" / "secure-tasks"))
sys.path.insert(0, str(ROOT))

import cholesky  # noqa: E402 - of the examples
import kernels  # noqa: E402

N_EMPTY = 5_000
BLOCKS = (64, 128, 256, 512)
UNSEEN = (96, 160, 192, 320, 384)
SIZE = 2048


@task(reads="key", writes="key")
def empty(key):
    pass


def nothing(*_):
    return None


def best_of(work, n_rounds=3):
    """Return the shortest of several rounds: others on the machine only make it longer."""
    times = []
    for _ in range(n_rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def ours(n, **options):
    """Time empty tasks in ten chains, from the first call to the end of the last task."""
    keys = [f"key {k}" for k in range(10)]
    times = []
    for _ in range(3):
        with Graph(workers=2, **options) as graph:
            for key in keys:  # the workers start
                empty(key)
            graph.wait()
            started = time.perf_counter()
            for k in range(n):
                empty(keys[k % 10])
            graph.wait()
            times.append((time.perf_counter() - started) / n)
    return min(times)


def overhead():
    found = {f"threads, {policy}": ours(N_EMPTY, policy=policy)
             for policy in ("critical", "breadth", "work")}  # fmt: skip
    with ThreadPoolExecutor(2) as pool:
        found["ThreadPoolExecutor, no dependencies"] = (
            best_of(lambda: [f.result() for f in [pool.submit(nothing) for _ in range(N_EMPTY)]])
            / N_EMPTY
        )
    found["processes"] = ours(1_000, on="processes")
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(nothing, range(10)))
        found["ProcessPoolExecutor, no dependencies"] = (
            best_of(lambda: [f.result() for f in [pool.submit(nothing) for _ in range(1_000)]])
            / 1_000
        )
    found |= dask_overhead()
    return found | ray_overhead()


def dask_overhead():
    try:
        from dask.threaded import get
    except ImportError:
        return {}
    graph = {f"t{k}": (nothing, f"t{k - 10}") if k >= 10 else (nothing,) for k in range(2_000)}
    return {"Dask threads": best_of(lambda: get(graph, list(graph), num_workers=2)) / 2_000}


def ray_overhead(n=300):
    try:
        import ray
    except ImportError:
        return {}
    from foretell.executors.cluster import Cluster

    cluster = Cluster("local", n_cpus=2)
    try:
        remote = ray.remote(num_cpus=1)(nothing)
        ray.get([remote.remote() for _ in range(20)])

        def bare():
            last = [None] * 10
            for k in range(n):
                last[k % 10] = remote.remote(last[k % 10])
            ray.get(last)

        found = {"bare Ray": best_of(bare) / n}
        found["Ray"] = ours(n, on="ray")
        return found
    finally:
        cluster.close()


def matrix_of(n):
    random = np.random.default_rng(0)
    found = random.standard_normal((n, n))
    found += found.T
    found[np.diag_indices(n)] += 4 * n**0.5
    return found


def factorization(matrix, block, workers):
    """Factorize a matrix by blocks; return the time it took, and the graph."""
    blocks = cholesky.blocks_of(matrix, block)
    started = time.perf_counter()
    graph = cholesky.factorize(blocks, len(matrix) // block, workers)
    return time.perf_counter() - started, graph


def lapack(matrix):
    """Factorize a matrix with LAPACK on two threads; return the time it took."""
    from scipy.linalg.lapack import dpotrf
    from threadpoolctl import threadpool_limits

    own = np.array(matrix, order="F")
    with threadpool_limits(2):
        started = time.perf_counter()
        dpotrf(own, lower=1, overwrite_a=1, clean=0)
        return time.perf_counter() - started


def factorize_all(n_rounds=15):
    """Factorize in turns, so that a slower moment of the machine meets all alike."""
    matrix = matrix_of(SIZE)
    rounds = [
        (factorization(matrix, 256, 1)[0], factorization(matrix, 256, 2)[0], lapack(matrix))
        for _ in range(n_rounds)
    ]
    one, two, whole = map(statistics.median, zip(*rounds, strict=True))
    return {"one worker, s": one, "two workers, s": two, "speed-up": one / two,
            "LAPACK on two threads, s": whole, "beside LAPACK": two / whole}  # fmt: skip


def forecasts():
    """Fit on some runs, and foresee others: blocks never run, and workers never run."""
    from foretell.tasks.trace import write_table

    matrix, graphs = matrix_of(SIZE), {}
    for _ in range(5):  # in turns, so that a slower moment of the machine meets all alike
        for workers, block in product((1, 2), sorted({*BLOCKS, *UNSEEN})):
            graph = factorization(matrix, block, workers)[1]
            graphs.setdefault((workers, block), []).append(graph)
    measured = {key: statistics.median(g.time_s for g in own) for key, own in graphs.items()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seen = [g for (_, block), own in graphs.items() if block in BLOCKS for g in own[1:3]]
        alone = [g for (workers, _), own in graphs.items() if workers == 1 for g in own[1:3]]
        models = {}
        for key, own in (("blocks", seen), ("workers", alone)):
            write_table(own, folder / f"{key}.csv")
            fitted = foretell.fit_model(folder / f"{key}.csv", target="cpu_time_s",
                                        output=folder / key)  # fmt: skip
            models[key] = fitted.best
        computed = {
            block: statistics.median(sum(t.cpu_s for t in g.tasks) for g in graphs[1, block])
            for block in UNSEEN
        }
        found = judged(measured, models) | by_cpu_time(computed, models["blocks"])
        return found | {"rounds of one setting differ by": noise_of(graphs)}


def noise_of(graphs):
    """Return how far a round is from the median of its setting, as a share; the median of all."""
    off = []
    for own in graphs.values():
        times = np.array([graph.time_s for graph in own])
        off += list(np.abs(times / np.median(times) - 1))
    return float(np.median([one for one in off if one > 0]))


def by_cpu_time(computed, model):
    """Compare forecasts for one worker with CPU times, which other programs change little."""
    off = {}
    for block, cpu_s in computed.items():
        found = foresee(cholesky.main, model=model, workers=1, overhead_s=0.0,
                        fix={"n": SIZE, "block": block}).best  # fmt: skip
        off[block] = round(found.makespan_s / cpu_s - 1, 4)
    mean = float(np.mean(np.abs(list(off.values()))))
    return {"off on blocks never run, by CPU time": off, "mean error of these": mean}


def judged(measured, models):
    def off(model, block, workers):
        found = foresee(cholesky.main, model=model, workers=workers,
                        fix={"n": SIZE, "block": block}).best  # fmt: skip
        inside = found.lower_s <= measured[workers, block] <= found.upper_s
        return found.makespan_s, found.makespan_s / measured[workers, block] - 1, inside

    by_block = {b: off(models["blocks"], b, 2) for b in UNSEEN}
    by_workers = {b: off(models["workers"], b, 2) for b in sorted({*BLOCKS, *UNSEEN})}
    two = {block: time_s for (workers, block), time_s in measured.items() if workers == 2}
    foreseen = {b: off(models["blocks"], b, 2)[0] for b in two}
    chosen = min(foreseen, key=foreseen.get)
    started = time.perf_counter()
    large = foresee(cholesky.main, model=models["blocks"], workers=2, overhead_s=1e-5,
                    fix={"n": 38 * 53, "block": 53})  # fmt: skip
    took = time.perf_counter() - started
    return {
        "measured, s": {f"{w} workers, block {b}": t for (w, b), t in measured.items()},
        "off on blocks never run": {b: round(o[1], 4) for b, o in by_block.items()},
        "off on workers never run": {b: round(o[1], 4) for b, o in by_workers.items()},
        "mean error on blocks": float(np.mean([abs(o[1]) for o in by_block.values()])),
        "mean error on workers": float(np.mean([abs(o[1]) for o in by_workers.values()])),
        "inside the 90 % interval": sum(o[2] for o in by_block.values()) / len(by_block),
        "chosen block": chosen,
        "regret": two[chosen] / min(two.values()) - 1,
        "tasks foreseen": large.best.n_tasks,
        "foreseeing them, s": took,
    }


def sandboxes():
    from foretell.tasks.isolation.sandbox import Sandbox

    sandbox = Sandbox("kernels", Path(kernels.__file__).resolve())
    owner = OwnerKey()
    try:

        def timed(work, n):
            times = []
            for _ in range(n):
                started = time.perf_counter()
                work()
                times.append(time.perf_counter() - started)
            return statistics.median(times)

        small = timed(lambda: sandbox.call(kernels.nothing, (1, 1)), 500)
        array = np.random.default_rng(0).random(2**21)  # 16 MiB
        plain = timed(lambda: sandbox.call(kernels.nothing, (array, 1)), 7)
        at_rest = owner.seal(array)
        whole = timed(lambda: sandbox.call(kernels.nothing, (at_rest, 1), owner), 7)
        sealing = timed(lambda: owner.seal(array), 7)
        mb = array.nbytes / 1e6
        return {"call, s": small, "channel, s per MB": (plain - small) / mb,
                "sealed input, s per MB": (whole - small) / mb,
                "sealing it, s per MB": sealing / mb,
                "both, s per MB": (whole - small + sealing) / mb}  # fmt: skip
    finally:
        sandbox.close()


def random_graphs(n=100_000):
    """Compare random programs in parallel and in order, as the tests do with fewer."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st
    from tests.tasks.random_programs import fresh, in_order, play, programs

    counts = {"threads": n, "processes": max(n // 200, 5)}
    done = dict.fromkeys(counts, 0)
    for on, most in counts.items():

        @settings(max_examples=most, deadline=None, database=None,
                  suppress_health_check=list(HealthCheck))  # fmt: skip
        @given(program=programs, workers=st.integers(1, 3),
               policy=st.sampled_from(["critical", "breadth", "work"]))  # fmt: skip
        def same(program, workers, policy):
            arrays = fresh()
            with Graph(workers=workers, policy=policy, on=on):  # noqa: B023
                play(program, arrays)
            for found, expected in zip(arrays, in_order(program), strict=True):
                np.testing.assert_array_equal(found, expected)
            done[on] += 1  # noqa: B023

        same()
    return {f"programs that gave the same on {on}": count for on, count in done.items()}


PARTS = {"overhead": overhead, "cholesky": factorize_all, "forecast": forecasts,
         "sandbox": sandboxes, "graphs": random_graphs}  # fmt: skip


def show(name, found):
    print(f"\n{name}")
    for key, value in found.items():
        if isinstance(value, dict):
            inner = ", ".join(f"{k}: {v:.4g}" for k, v in value.items())
            print(f"  {key}: {inner}")
        elif name == "overhead" or (isinstance(value, float) and value < 1e-3):
            print(f"  {key}: {1e6 * value:.1f} µs")
        else:
            print(f"  {key}: {value:.4g}" if isinstance(value, float) else f"  {key}: {value}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--graphs", type=int, default=100_000, help="random programs on threads")
    parser.add_argument("-o", "--output", type=Path, help="write the figures as JSON")
    given = parser.parse_args()
    found = {}
    for name in given.parts or PARTS:
        part = PARTS[name]
        found[name] = part(given.graphs) if name == "graphs" else part()
        show(name, found[name])
    if given.output is not None:
        given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
