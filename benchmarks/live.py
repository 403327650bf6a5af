"""Run k-means tasks for real on emulated nodes, through a real Kubernetes API server.

    python -m benchmarks.live -o live.csv [--runs examples/placement/runs.csv]

Nodes are those of `examples/placement/cluster.toml`: fake kubelets that start every pod as a
process under the CPU limit of their type, one at a time. The same pods arrive at the same moments
for each scheduler: kube-scheduler, and foretell as a scheduler of its own. Models are fitted on
measured runs of the same program. It needs a control plane (`make kubernetes`), and takes minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.adapters.kubernetes.control_plane import ControlPlane, find_servers, wait_until
from tests.adapters.kubernetes.kubelets import Kubelets, pod

import foretell
from foretell.measure.running.cpu_limit import CpuLimit
from foretell.measure.running.machine import describe_machine

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "placement"
CPUS = {"whole": 1.0, "half": 0.5, "quarter": 0.25}
SCHEDULERS = {"kube-scheduler": None, "foretell H=0": 0.0, "foretell H=1": 1.0}
PODS = "/api/v1/namespaces/default/pods"
_PATIENCE_S = 600


def make_tasks(n: int = 24, every_s: float = 2.5, seed: int = 1) -> pd.DataFrame:
    """Draw tasks, with the moments at which they arrive."""
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "arrival_s": np.cumsum(random.exponential(every_s, n)).round(2),
            "cpu": 1,
            "points": random.integers(16_384, 65_537, n),
            "iterations": random.integers(25, 101, n),
        }
    )


def fit_types(runs: pd.DataFrame, folder: Path) -> None:
    """Fit a model of the time on each type of node."""
    columns = ["points", "iterations", "wall_time_s"]
    for name, cpus in CPUS.items():
        own = runs.loc[runs["cpus"] == cpus, columns].reset_index(drop=True)
        foretell.fit_model(own, target="wall_time_s", output=folder / name, n_jobs=1)


@contextlib.contextmanager
def emulated_nodes(plane: ControlPlane) -> Iterator[Kubelets]:
    """Register a node of each type."""
    with contextlib.ExitStack() as stack:
        kubelets = stack.enter_context(Kubelets(plane.api()))
        for name, cpus in CPUS.items():
            limit = stack.enter_context(contextlib.closing(CpuLimit()))

            def hold(pid: int, limit: CpuLimit = limit, cpus: float = cpus) -> None:
                limit.release()
                limit.hold(pid, cpus)

            kubelets.add(f"{name}-1", {"type": name}, cpu=1, memory="1Gi", hold=hold)
        yield kubelets


@contextlib.contextmanager
def scheduler(plane: ControlPlane, H: float | None, folder: Path) -> Iterator[str]:
    """Start a scheduler; return the name by which pods ask for it."""
    if H is None:
        server = plane.scheduler()
        try:
            yield "default-scheduler"
        finally:
            server.stop()
        return
    words = [
        *(sys.executable, "-m", "foretell", "cluster", "schedule", folder / "cluster.toml"),
        *("--mode", "standalone", "--policy", f"geometric:H={H:g}", "--port", "0", "--json"),
        *("--kubeconfig", plane.kubeconfig()),
    ]
    log = folder / f"foretell-{H:g}.log"
    with log.open("wb") as output:
        process = subprocess.Popen([str(w) for w in words], stdout=output, stderr=output)
    try:
        wait_until(lambda: '"url"' in log.read_text() or process.poll() is not None, log.read_text)
        yield "foretell"
    finally:
        process.terminate()
        process.wait()


def run_tasks(tasks: pd.DataFrame, api: Any, kubelets: Kubelets, name: str) -> pd.DataFrame:
    """Create a pod for each task when it arrives; return what happened to them."""
    began_s = time.monotonic()
    for i, task in enumerate(tasks.itertuples()):
        time.sleep(max(0.0, began_s + task.arrival_s - time.monotonic()))
        arguments = [str(task.points), str(task.iterations)]
        notes = {"foretell/points": task.points, "foretell/iterations": task.iterations}
        command = [sys.executable, str(EXAMPLE / "kmeans.py"), *arguments]
        api.create(PODS, pod(f"task-{i}", scheduler=name, annotations=notes, command=command))
    wait_until(lambda: len(kubelets.finished) == len(tasks), "the tasks", _PATIENCE_S)
    starts = {title: at_s for at_s, title, _ in kubelets.started}
    rows = [
        (int(title.rpartition("-")[2]), node, node.rpartition("-")[0], starts[title] - began_s,
         ended_s - began_s, seconds)
        for ended_s, title, node, seconds in kubelets.finished
    ]  # fmt: skip
    columns = ["task", "node", "type", "start_s", "end_s", "time_s"]
    found = pd.DataFrame(rows, columns=columns).set_index("task").sort_index()
    return tasks.join(found)


def measure(runs: pd.DataFrame, tasks: pd.DataFrame) -> pd.DataFrame:
    """Run the tasks under each scheduler."""
    servers = find_servers()
    if servers is None:
        raise SystemExit("there is no Kubernetes control plane here; `make kubernetes` builds one")
    found = []
    with tempfile.TemporaryDirectory(prefix="foretell-live-") as name:
        folder = Path(name)
        shutil.copy(EXAMPLE / "cluster.toml", folder)
        fit_types(runs, folder / "models")
        plane = ControlPlane(servers, folder / "plane")
        with contextlib.closing(plane):
            plane.start()
            for label, H in SCHEDULERS.items():
                load = os.getloadavg()[0]
                with emulated_nodes(plane) as kubelets, scheduler(plane, H, folder) as asked:
                    table = run_tasks(tasks, plane.api(), kubelets, asked)
                plane.clear()
                found.append(table.assign(scheduler=label, load=round(load, 1)))
                print(f"{label}: mean completion "
                      f"{(table['end_s'] - table['arrival_s']).mean():.1f} s")  # fmt: skip
    return pd.concat(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=EXAMPLE / "runs.csv")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    started = datetime.now(UTC).isoformat()
    table = measure(pd.read_csv(given.runs), make_tasks())
    table.round(3).to_csv(given.output, index_label="task")
    about = {"started_at": started, "ended_at": datetime.now(UTC).isoformat(),
             "machine": describe_machine()}  # fmt: skip
    given.output.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
