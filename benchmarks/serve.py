"""Load on `foretell serve`: single-row predictions at a fixed rate, from a process of their own.

    python -m benchmarks.serve [--rate 300] [--seconds 60] [--example xz]

Requests leave when their time has come, whether earlier ones are answered or not, on connections
that stay open; a latency counts from the moment at which the request should have left. Memory is
that of the server and all its workers, after a warm-up and at the end. The CPU time of a prediction
tells what it costs on a machine that others use, too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import psutil

import foretell

ROOT = Path(__file__).parents[1]
EXAMPLES = {"xz": ("examples/xz/runs.csv", "time_s"),
            "vgg-layers": ("examples/vgg-layers/runs.csv", "forward_s")}  # fmt: skip
MOST_CONNECTIONS = 64
WARM_UP_S = 5


@dataclass
class Load:
    """What came of the requests."""

    latency_s: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Connections:
    """Connections that stay open, as many as are needed at once."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(self, request: bytes) -> tuple[int, bytes]:
        """Send a request and read the answer."""
        pair = self._free.pop() if self._free else await asyncio.open_connection(*self._address)
        reader, writer = pair
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        if len(self._free) < MOST_CONNECTIONS:
            self._free.append(pair)
        return int(head.split(b" ", 2)[1]), body


async def send(host: str, port: int, requests: list[bytes], rate: float, seconds: float) -> Load:
    """Send requests at a fixed rate."""
    load, connections = Load(), Connections(host, port)
    loop = asyncio.get_running_loop()

    async def one(request: bytes, due: float) -> None:
        try:
            status, body = await connections.post(request)
        except (OSError, asyncio.IncompleteReadError) as error:
            load.errors.append(f"{type(error).__name__}: {error}")
            return
        load.latency_s.append(loop.time() - due)
        if status != 200:
            load.errors.append(body.decode())

    start, tasks = loop.time(), []
    for i in range(round(rate * seconds)):
        due = start + i / rate
        if (wait_s := due - loop.time()) > 0:
            await asyncio.sleep(wait_s)
        tasks.append(asyncio.create_task(one(requests[i % len(requests)], due)))
    await asyncio.gather(*tasks)
    return load


def requests_for(model: foretell.SavedModel, name: str, n: int = 500) -> list[bytes]:
    """Make requests for configurations all over the data, and a little beyond."""
    drawn = random.Random(0)
    made = []
    for _ in range(n):
        row = {c: drawn.uniform(low, 1.5 * high) for c, (low, high) in model.ranges.items()}
        row |= {c: drawn.choice(levels) for c, levels in model.categories.items()}
        body = json.dumps({"rows": [row]}).encode()
        made.append(
            b"POST /models/%s/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n"
            b"Content-Type: application/json\r\n\r\n%s" % (name.encode(), len(body), body)
        )
    return made


def memory_mb(process: psutil.Process) -> float:
    """Return the memory of a process and its children."""
    family = [process, *process.children(recursive=True)]
    return sum(p.memory_info().rss for p in family) / 1e6


def cpu_s(process: psutil.Process) -> tuple[float, float]:
    """Return the CPU time of a process, and that of its children together."""

    def own(one: psutil.Process) -> float:
        times = one.cpu_times()
        return float(times.user + times.system)

    return own(process), sum(own(p) for p in process.children(recursive=True))


def main() -> None:
    """Serve a model, send requests, and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=300)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--example", choices=EXAMPLES, default="xz")
    args = parser.parse_args()
    table, target = EXAMPLES[args.example]
    with tempfile.TemporaryDirectory() as folder:
        fit = foretell.fit_model(
            pd.read_csv(ROOT / table)
            if args.example == "xz"
            else foretell.read_dataset(ROOT / table),
            target=target,
            output=Path(folder) / args.example,
            n_jobs=2,
        )
        model = foretell.load_model(fit.directory)
        command = [sys.executable, "-m", "foretell", "serve", folder, "--port", "0", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                url = json.loads(server.stdout.readline())["url"]
                measure(url, model, args, psutil.Process(server.pid))
            finally:
                server.send_signal(signal.SIGTERM)


def measure(
    url: str, model: foretell.SavedModel, args: argparse.Namespace, server: psutil.Process
) -> None:
    """Warm up, send the load, and print."""
    host, _, port = url.removeprefix("http://").partition(":")
    requests = requests_for(model, args.example)
    asyncio.run(send(host, int(port), requests, args.rate, WARM_UP_S))
    before_mb, before, used = memory_mb(server), time.perf_counter(), cpu_s(server)
    load = asyncio.run(send(host, int(port), requests, args.rate, args.seconds))
    took_s = time.perf_counter() - before
    spent = [1e3 * (b - a) / len(load.latency_s) for a, b in zip(used, cpu_s(server), strict=True)]
    latency_ms = 1e3 * np.array(load.latency_s)
    p50, p99 = np.percentile(latency_ms, [50, 99])
    print(
        f"{args.example}: {len(latency_ms) / took_s:.0f} predictions a second for {took_s:.0f} s   "
        f"p50 {p50:.1f} ms   p99 {p99:.1f} ms   max {latency_ms.max():.1f} ms   "
        f"{len(load.errors)} errors   memory {before_mb:.0f} → {memory_mb(server):.0f} MB   "
        f"CPU a prediction: {spent[0]:.2f} ms server, {spent[1]:.2f} ms workers"
    )
    for error in load.errors[:3]:
        print(f"  {error}")


if __name__ == "__main__":
    main()
