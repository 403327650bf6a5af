"""What isolation of tasks costs: five programs, plain, as tasks, in sandboxes, and sealed.

    python -m benchmarks.secure_tasks [-o FILE] [--repeats 7] [--quick]

Workers 1 and 2 are measured; more are simulated from the tasks that were measured. The machine
should do nothing else; it takes about six minutes. Sandboxes are running before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import numpy as np

from foretell.measure.running.machine import describe_machine, describe_versions
from foretell.tasks import Graph, OwnerKey, foresee
from foretell.tasks.trace import write_table

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "secure-tasks"
sys.path.insert(0, str(FOLDER))

import kernels  # noqa: E402 - of the examples

VARIANTS = {
    "tasks": {},
    "sandbox": {"isolation": "sandbox"},
    "sandbox+sealed": {"isolation": "sandbox", "sealed": True},
}
MORE_WORKERS = (4, 8, 16, 32, 64)


class Program:
    """One program on blocks of its data; it calls kernels through a function that it is given."""

    def __init__(self, name, block, data, steps):
        self.name, self.block, self.data, self.steps = name, block, data, steps


def cholesky(n, block):
    random = np.random.default_rng(0)
    matrix = random.standard_normal((n, n))
    matrix += matrix.T
    matrix[np.diag_indices(n)] += 4 * n**0.5
    m = n // block
    data = {
        (i, j): np.asfortranarray(matrix[i * block : (i + 1) * block, j * block : (j + 1) * block])
        for i in range(m)
        for j in range(i + 1)
    }

    def steps(call, a, wait):
        a = dict(a)
        for k in range(m):
            a[k, k] = call(kernels.potrf, a[k, k], block)
            for i in range(k + 1, m):
                a[i, k] = call(kernels.trsm, a[k, k], a[i, k], block)
            for i in range(k + 1, m):
                a[i, i] = call(kernels.syrk, a[i, k], a[i, i], block)
                for j in range(k + 1, i):
                    a[i, j] = call(kernels.gemm, a[i, k], a[j, k], a[i, j], block)
        return a[m - 1, m - 1]

    return Program(f"Cholesky {n}", block, data, steps)


def matmul(n, block):
    random = np.random.default_rng(0)
    m = n // block
    data = {
        (which, i, j): random.standard_normal((block, block))
        for which in "ab"
        for i in range(m)
        for j in range(m)
    }

    def steps(call, given, wait):
        found = None
        for i in range(m):
            for j in range(m):
                found = given["zero"]
                for k in range(m):
                    found = call(kernels.product, given["a", i, k], given["b", k, j], found, block)
        return found

    data["zero"] = np.zeros((block, block))
    return Program(f"matrix product {n}", block, data, steps)


def dot(n, block):
    random = np.random.default_rng(0)
    data = {(w, k): random.random(block) for w in "xy" for k in range(n // block)}

    def steps(call, given, wait):
        return [call(kernels.dot, given["x", k], given["y", k], block) for k in range(n // block)]

    return Program(f"dot {n:.0e}", block, data, steps)


def stream(n, block, *, barriers):
    random = np.random.default_rng(0)
    m = n // block
    data = {("a", k): random.random(block) for k in range(m)}

    def steps(call, given, wait):
        found = {}
        for k in range(m):
            found["b", k] = call(kernels.scale, given["a", k], block)
        wait()
        for k in range(m):
            found["c", k] = call(kernels.add, given["a", k], found["b", k], block)
        wait()
        for k in range(m):
            found["d", k] = call(kernels.triad, found["b", k], found["c", k], block)
        return found["d", m - 1]

    name = f"Stream {n:.0e}, {'barriers' if barriers else 'dependencies'}"
    program = Program(name, block, data, steps)
    program.barriers = barriers
    return program


def inference(n, block):
    random = np.random.default_rng(0)
    shapes = [((6, 1, 5, 5), 6), ((16, 6, 5, 5), 16), ((400, 120), 120), ((120, 84), 84),
              ((84, 10), 10)]  # fmt: skip
    weights = [(0.1 * random.standard_normal(shape), np.zeros(n_out)) for shape, n_out in shapes]
    data = {k: random.random((block, 1, 28, 28)) for k in range(n // block)}
    data["weights"] = weights

    def steps(call, given, wait):
        return [call(kernels.lenet, given[k], given["weights"], block) for k in range(n // block)]

    return Program(f"LeNet, {n} images", block, data, steps)


def programs(quick):
    if quick:
        return [cholesky(128, 64), stream(20_000, 10_000, barriers=True), inference(64, 32)]
    return [
        cholesky(1024, 128), cholesky(1024, 256), cholesky(2048, 512), matmul(1024, 256),
        dot(4_000_000, 500_000), stream(2_000_000, 250_000, barriers=False),
        stream(2_000_000, 250_000, barriers=True), inference(2048, 256),
    ]  # fmt: skip


def run_plain(program):
    started = time.perf_counter()
    program.steps(lambda function, *values: function.body(*values), program.data, lambda: None)
    return time.perf_counter() - started


def run_graph(program, options, workers, owner):
    """Return the time from the first task to the end of all, and the graph."""
    is_sealed = options.get("sealed", False)
    data = program.data
    if is_sealed:
        data = {key: owner.seal(value) for key, value in data.items()}
    functions = {}

    def call(function, *values):
        if function not in functions:
            functions[function] = function.with_options(**options)
        return functions[function](*values)

    with Graph(workers=workers, owner=owner) as graph:
        for _ in range(workers):  # sandboxes start with their first task
            call(kernels.pause, 0.4)
        graph.wait()
        n_before = len(graph.tasks)
        started = time.perf_counter()
        program.steps(call, data, graph.wait if getattr(program, "barriers", False) else nothing)
        graph.wait()
        took = time.perf_counter() - started
    graph.tasks = graph.tasks[n_before:]
    graph.waits = [w for w in graph.waits if w.n_before > n_before]
    return took, graph


def nothing():
    return None


def simulated(graph):
    """Simulate the measured tasks on more workers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.csv"
        write_table([graph], path)
        found = foresee(path, workers=list(MORE_WORKERS), overhead_s=1.2e-5)
    return {str(cell.workers): cell.makespan_s for cell in found.cells}


def measure(program, repeats):
    """Run all variants in turns, so that a slower moment of the machine meets all alike."""
    from threadpoolctl import threadpool_limits

    owner = OwnerKey()
    plain, runs = [], {}
    for _ in range(repeats):
        with threadpool_limits(1):
            run_plain(program)
            plain.append(run_plain(program))
        for name, workers in product(VARIANTS, (1, 2)):
            run = run_graph(program, VARIANTS[name], workers, owner)
            runs.setdefault((name, workers), []).append(run)
    return {
        "name": program.name, "block": program.block, "plain_s": statistics.median(plain),
        "variants": {name: variant(runs[name, 1], runs[name, 2]) for name in VARIANTS},
    }  # fmt: skip


def shown(found):
    for name, own in found["variants"].items():
        times = ", ".join(f"{w}: {1e3 * t:.1f} ms" for w, t in own["measured"].items())
        print(f"{found['name']}, block {found['block']}, {name}: {times}", flush=True)
    return found


def variant(one, two):
    """Put together the runs of a variant on one worker and on two."""
    times = [[took for took, _ in runs] for runs in (one, two)]
    of_median = min(one, key=lambda run: abs(run[0] - statistics.median(times[0])))[1]
    return {
        "measured": {"1": statistics.median(times[0]), "2": statistics.median(times[1])},
        "range": {"1": [min(times[0]), max(times[0])], "2": [min(times[1]), max(times[1])]},
        "n_tasks": len(of_median.tasks), "simulated": simulated(of_median),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=FOLDER / "measured.json")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="small programs, to see that it works")
    given = parser.parse_args()
    found = {
        "about": {
            "at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
            "machine": describe_machine(),
            "versions": describe_versions(),
            "repeats": given.repeats,
        },
        "programs": [shown(measure(program, given.repeats)) for program in programs(given.quick)],
    }
    given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
