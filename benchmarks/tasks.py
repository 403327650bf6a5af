"""How fast the task runtime is, how true forecasts of graphs are, and what isolation costs.

    python -m benchmarks.tasks [overhead] [cholesky] [speed] [sandbox] [-o FILE]

*overhead*: empty tasks with dependencies, beside executors of the standard library, Dask and Ray.
*cholesky*: a factorization by blocks on one and two workers, beside LAPACK and the best schedule.
*speed*: how long it takes to foresee ten thousand tasks. *sandbox*: calls and megabytes. The
machine should do nothing else; all parts take about two minutes. How true forecasts are is told by
``benchmarks.task_forecasts``, and random programs are compared by ``benchmarks.random_graphs``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np

import foretell
from benchmarks.task_programs import by_blocks, cholesky, positive_definite
from foretell.tasks import Graph, OwnerKey, foresee, task
from foretell.tasks.trace import write_table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples" / "secure-tasks"))
sys.path.insert(0, str(ROOT))

import kernels  # noqa: E402 - of the examples

N_EMPTY = 5_000
SIZE = 2048


@task(reads="key", writes="key")
def empty(key):
    pass


@task(writes="key")
def where(key):
    """Say which process runs this, after so long that others start as well."""
    time.sleep(0.05)
    return os.getpid()


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


def start_all(graph, n_workers=2):
    """Wait until all processes or actors of a graph work."""
    seen = set()
    for k in range(100):
        handles = [where(f"start {k} {i}") for i in range(2 * n_workers)]
        graph.wait()
        seen |= {handle.value for handle in handles}
        if len(seen) >= n_workers:
            return
    raise RuntimeError(f"only {len(seen)} of {n_workers} workers started")


def one_round(n, **options):
    """Time empty tasks in ten chains, from the first call to the end of the last task."""
    keys = [f"key {k}" for k in range(10)]
    with Graph(workers=2, **options) as graph:
        if options.get("on", "threads") != "threads":
            start_all(graph)
        for key in keys:
            empty(key)
        graph.wait()
        started = time.perf_counter()
        for k in range(n):
            empty(keys[k % 10])
        graph.wait()
        return (time.perf_counter() - started) / n


def ours(n, **options):
    """Return the shortest of several rounds."""
    return min(one_round(n, **options) for _ in range(3))


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


def quotient(ones, others):
    """Return the median of the quotients of rounds."""
    return statistics.median(one / other for one, other in zip(ones, others, strict=True))


def dask_overhead():
    try:
        from dask.threaded import get
    except ImportError:
        print("Dask is not installed here, and is left out")
        return {}
    graph = {f"t{k}": (nothing, f"t{k - 10}") if k >= 10 else (nothing,) for k in range(2_000)}
    return {"Dask threads": best_of(lambda: get(graph, list(graph), num_workers=2)) / 2_000}


def ray_overhead(n=300, n_rounds=9):
    try:
        import ray
    except ImportError:
        print("Ray is not installed here, and is left out")
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

        rounds = []
        for _ in range(n_rounds):  # in turns, so that a slower moment meets both
            started = time.perf_counter()
            bare()
            rounds.append(((time.perf_counter() - started) / n, one_round(n, on="ray")))
        theirs, own = zip(*rounds, strict=True)
        return {"bare Ray": statistics.median(theirs), "Ray": statistics.median(own),
                "Ray beside bare Ray": {"median of quotients": quotient(own, theirs)}}  # fmt: skip
    finally:
        cluster.close()


def factorization(block, workers):
    """Factorize a matrix by blocks; return the time of all its tasks, and its graph."""
    gc.collect()
    gc.freeze()  # what earlier rounds left is none of this one's business
    blocks = by_blocks.blocks_of(positive_definite(SIZE), block)
    graph = by_blocks.factorize(blocks, workers)
    return graph.time_s, graph


def lapack(n_threads, n_matrices=1):
    """Factorize matrices at once, each with LAPACK on some threads; return the time it took."""
    from threadpoolctl import threadpool_limits

    own = [np.array(positive_definite(SIZE), order="F") for _ in range(n_matrices)]
    with threadpool_limits(n_threads):
        take_root = by_blocks.unlocked.take_root
        threads = [threading.Thread(target=take_root, args=(a,)) for a in own[1:]]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        take_root(own[0])
        for thread in threads:
            thread.join()
        return time.perf_counter() - started


def scheduled(graph, workers):
    """Return what the tasks of a run would take without any overhead, the longest way first."""
    with tempfile.TemporaryDirectory() as folder:
        path = graph.trace(Path(folder) / "run.csv")
        return foresee(path, workers=workers, overhead_s=0.0).best.makespan_s


def factorize_all(n_rounds=15):
    """Factorize in turns, so that a slower moment of the machine meets all alike."""
    rounds = [
        (factorization(256, 1), factorization(256, 2), lapack(2), lapack(1), lapack(1, 2))
        for _ in range(n_rounds)
    ]
    one, two = ([r[k][0] for r in rounds] for k in (0, 1))
    whole, alone, both = ([r[k] for r in rounds] for k in (2, 3, 4))
    graphs = [[r[k][1] for r in rounds] for k in (0, 1)]
    cpu = [statistics.median(sum(t.cpu_s for t in g.tasks) for g in own) for own in graphs]
    best = [statistics.median(scheduled(g, 2) for g in own) for own in graphs]
    median = statistics.median
    return {"one worker, s": median(one), "two workers, s": median(two),
            "speed-up": quotient(one, two),
            "LAPACK on two threads, s": median(whole), "beside LAPACK": quotient(two, whole),
            "LAPACK on one thread, s": median(alone),
            "two factorizations at once, one thread each, s": median(both),
            "speed-up of two at once, the limit of the machine": 2 * quotient(alone, both),
            "fastest two workers, s": min(two), "fastest LAPACK, s": min(whole),
            "CPU time of tasks on one worker, s": cpu[0], "on two, s": cpu[1],
            "two workers without overhead, tasks as on one, s": best[0],
            "tasks as on two, s": best[1]}  # fmt: skip


def speed():
    """Foresee ten thousand tasks, with a model that was fitted on a run."""
    with tempfile.TemporaryDirectory() as folder:
        graphs = [factorization(block, 1)[1] for block in (64, 128, 256, 512)]
        write_table(graphs, Path(folder) / "runs.csv")
        model = foretell.fit_model(Path(folder) / "runs.csv", target="cpu_time_s").best
    gc.collect()
    gc.freeze()
    times = []
    for _ in range(3):
        started = time.perf_counter()
        found = foresee(cholesky, model=model, workers=2, overhead_s=1e-5,
                        fix={"n": 39 * 53, "block": 53})  # fmt: skip
        times.append(time.perf_counter() - started)
    return {"tasks foreseen": found.best.n_tasks, "foreseeing them, s": statistics.median(times)}


def sandboxes():
    from foretell.tasks.isolation.sandbox import Sandbox

    sandbox = Sandbox("kernels", Path(kernels.__file__).resolve()).start()
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


PARTS = {"overhead": overhead, "cholesky": factorize_all, "speed": speed, "sandbox": sandboxes}


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
    parser.add_argument("-o", "--output", type=Path, help="write the figures as JSON")
    given = parser.parse_args()
    found = {}
    for name in given.parts or PARTS:
        found[name] = PARTS[name]()
        show(name, found[name])
    if given.output is not None:
        given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
