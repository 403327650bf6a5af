"""A real server on the loopback interface that answers HTTP requests in batches, and its load.

Two processes: the server computes a network, and the load sends requests at random times (Poisson)
whatever the answers do. A latency is from the time at which a request is sent to its answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
_TIMEOUT_S = 20.0
N_CLIENTS = 32
#: A batch that is computed before any request: the allocator then keeps memory for it, as it does
#: where batch times are measured.
LARGEST = 32


@dataclass
class Serving:
    """How the server batches; ``slo_s`` lets it adapt its largest batch, as Clipper does."""

    batch: int
    wait_s: float = 0.0
    threads: int = 1
    slo_s: float | None = None


# The server


class Batcher:
    """Takes all that wait, up to the cap, when the last batch is done."""

    def __init__(self, compute, serving):
        self.compute, self.serving = compute, serving
        self.waiting, self.arrived = deque(), asyncio.Event()
        self.cap = float(serving.batch) if serving.slo_s is None else 1.0
        self.pool = ThreadPoolExecutor(1)
        self.sizes, self.spans = [], []

    async def answer(self, body):
        done = asyncio.get_running_loop().create_future()
        self.waiting.append((time.perf_counter(), body, done))
        self.arrived.set()
        return await done

    async def run(self):
        loop = asyncio.get_running_loop()
        while True:
            await self._fill()
            n = min(len(self.waiting), int(self.cap))
            batch = [self.waiting.popleft() for _ in range(n)]
            started = time.perf_counter()
            results = await loop.run_in_executor(self.pool, self.compute, [b for _, b, _ in batch])
            self.sizes.append(n)
            self.spans.append(time.perf_counter() - started)
            for (_, _, done), result in zip(batch, results, strict=True):
                if not done.done():
                    done.set_result(result)
            if self.serving.slo_s is not None:
                self._adapt(time.perf_counter() - batch[0][0])

    async def _fill(self):
        """Wait for the first request, and then for others, but not for long."""
        while not self.waiting:
            self.arrived.clear()
            await self.arrived.wait()
        due = self.waiting[0][0] + self.serving.wait_s
        while len(self.waiting) < int(self.cap):
            left = due - time.perf_counter()
            if left <= 0:
                break
            self.arrived.clear()
            try:
                await asyncio.wait_for(self.arrived.wait(), left)
            except TimeoutError:
                break

    def _adapt(self, latency_s):
        """Grow by one while the oldest request is in time, and shrink by a tenth otherwise."""
        if latency_s <= self.serving.slo_s:
            self.cap = min(self.cap + 1, self.serving.batch)
        else:
            self.cap = max(0.9 * self.cap, 1.0)


async def handle(batcher, reader, writer):
    """Answer the requests of one connection: HTTP/1.1, kept alive."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            answer = await batcher.answer(body)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


def warm_up(compute, n_bytes, cap):
    """Compute some batches, and one that is as large as any that was measured."""
    for n in (1, cap, LARGEST):
        for _ in range(5):
            compute([bytes(n_bytes)] * n)


async def serve(compute, serving, n_bytes):
    batcher = Batcher(compute, serving)
    loop = asyncio.get_running_loop()
    # In the thread that will serve, as threads have memory of their own.
    await loop.run_in_executor(batcher.pool, warm_up, compute, n_bytes, serving.batch)
    running = asyncio.create_task(batcher.run())
    server = await asyncio.start_server(lambda r, w: handle(batcher, r, w), "127.0.0.1", 0)
    sys.stdout.write(json.dumps({"port": server.sockets[0].getsockname()[1]}) + "\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)  # until told to end
    running.cancel()
    server.close()
    sys.stdout.write(json.dumps({"sizes": batcher.sizes, "spans": batcher.spans}) + "\n")
    sys.stdout.flush()


def network_of(asked):
    """Return a function from the bytes of samples to the bytes of answers."""
    import torch

    from foretell.deploy.child import build_network

    torch.set_num_threads(asked["serving"]["threads"])
    torch.manual_seed(0)
    model = build_network(asked["build"], asked["arguments"])
    shape = tuple(asked["shape"])

    def compute(bodies):
        samples = np.frombuffer(b"".join(bodies), dtype=np.float32).reshape(len(bodies), *shape)
        with torch.inference_mode():
            found = model(torch.from_numpy(samples.copy())).numpy()
        return [row.tobytes() for row in found]

    return compute


# The load


async def client(port, body, queue, latencies):
    """Send requests as they come, one at a time."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    while (sent := await queue.get()) is not None:
        writer.write(request)
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(client.length))
        latencies.append(time.perf_counter() - sent)
        queue.task_done()
    writer.close()


async def load(port, body, rate_per_s, n, seed):
    """Send n requests at random times; return the latency of each."""
    random = np.random.default_rng(seed)
    gaps = random.exponential(1 / rate_per_s, n)
    queue, latencies = asyncio.Queue(), []
    clients = [asyncio.create_task(client(port, body, queue, latencies)) for _ in range(N_CLIENTS)]
    await asyncio.sleep(0.2)  # until they are connected
    due = time.perf_counter()
    for n_sent, gap in enumerate(gaps, start=1):
        due += gap
        left = due - time.perf_counter()
        if left > 0:
            await asyncio.sleep(left)
        queue.put_nowait(time.perf_counter())
        if len(clients) < n_sent - len(latencies):  # all connections wait for an answer
            clients.append(asyncio.create_task(client(port, body, queue, latencies)))
    for _ in clients:
        queue.put_nowait(None)
    await asyncio.wait_for(asyncio.gather(*clients), _TIMEOUT_S)
    return latencies


async def one_after_the_other(port, body, n):
    """Send requests one after the other; return the latency of each."""
    queue, latencies = asyncio.Queue(), []
    task = asyncio.create_task(client(port, body, queue, latencies))
    for _ in range(n):
        queue.put_nowait(time.perf_counter())
        await queue.join()
    queue.put_nowait(None)
    await task
    return latencies


def play_load(asked):
    body = np.random.default_rng(0).random(asked["shape"], dtype=np.float32).tobytes()
    client.length = asked["answer_bytes"]
    port = asked["port"]
    if asked["rate_per_s"] is None:
        return asyncio.run(one_after_the_other(port, body, asked["n"]))
    return asyncio.run(load(port, body, asked["rate_per_s"], asked["n"], asked["seed"]))


# From outside


@dataclass
class Server:
    """A running server; close it."""

    process: subprocess.Popen
    port: int
    shape: tuple
    answer_bytes: int
    n_sent: int = 0

    def latencies(self, rate_per_s, n, seed=0):
        """Return latencies of n requests: at a rate, or one after the other if that is None."""
        asked = {"port": self.port, "shape": self.shape, "rate_per_s": rate_per_s, "n": n,
                 "seed": seed, "answer_bytes": self.answer_bytes}  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.batch_server", "load", json.dumps(asked)],
            capture_output=True, text=True, check=True, cwd=ROOT,
        )  # fmt: skip
        self.n_sent += n
        return np.array(json.loads(done.stdout))

    def close(self):
        """End the server; return the sizes of its batches, and how long each took."""
        told, _ = self.process.communicate("", timeout=_TIMEOUT_S)
        found = json.loads(told.splitlines()[-1])
        return np.array(found["sizes"], dtype=int), np.array(found["spans"])


def start_server(build, shape, serving, arguments=None, answer_bytes=40):
    """Start a server for a network."""
    asked = {"build": build, "arguments": arguments or {}, "shape": list(shape),
             "serving": asdict(serving)}  # fmt: skip
    # What the main thread sets with Torch does not hold in the thread that serves.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(serving.threads))
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.batch_server", "serve", json.dumps(asked)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, **threads},
    )  # fmt: skip
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the server ended with code {process.wait()}")
    return Server(process, json.loads(line)["port"], tuple(shape), answer_bytes)


def main():
    role, asked = sys.argv[1], json.loads(sys.argv[2])
    if role == "serve":
        told = os.dup(1)
        os.dup2(2, 1)
        compute = network_of(asked)
        os.dup2(told, 1)
        n_bytes = 4 * int(np.prod(asked["shape"]))
        asyncio.run(serve(compute, Serving(**asked["serving"]), n_bytes))
    else:
        sys.stdout.write(json.dumps([float(f"{x:.6g}") for x in play_load(asked)]) + "\n")


if __name__ == "__main__":
    main()
