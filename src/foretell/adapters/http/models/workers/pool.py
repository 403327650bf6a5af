"""The pool of workers: each answers one request at a time, and is replaced when it fails."""

from __future__ import annotations

import asyncio
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

from foretell.adapters.http.models.settings import Settings
from foretell.adapters.http.models.workers.process import Message, pack, read_async
from foretell.adapters.http.server import problems
from foretell.adapters.http.server.problems import ProblemError

logger = logging.getLogger("foretell.serve")

_START_S = 60.0
_STOP_S = 3.0
_RETRY_S = 1.0
#: Bytes that a read from a worker may buffer; larger answers come in parts.
_BUFFER_BYTES = 2**20


class Worker:
    """One worker process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        assert process.stdin is not None and process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    @classmethod
    async def start(cls, settings: Settings) -> Worker:
        """Start a process, and wait until it is ready."""
        limits = settings.limits
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "foretell.adapters.http.models.workers.process"),
            *(str(settings.directory), str(limits.max_models), str(limits.max_rows)),
            stdin=PIPE,
            stdout=PIPE,
            limit=_BUFFER_BYTES,
        )
        worker = cls(process)
        try:
            async with asyncio.timeout(_START_S):
                await read_async(worker._stdout)
        except BaseException:
            worker.kill()
            raise
        return worker

    async def ask(self, message: bytes) -> Message:
        """Send a request, and wait for the answer."""
        self._stdin.write(message)
        await self._stdin.drain()
        return await read_async(self._stdout)

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.returncode is None

    def kill(self) -> None:
        """End the process now."""
        with suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> None:
        """Let the process end by itself, or else kill it."""
        self._stdin.close()
        try:
            async with asyncio.timeout(_STOP_S):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()


class Pool:
    """All workers.

    Requests that may take long never occupy all workers, so that short ones find one; a single
    worker takes both. ``n_waiting`` requests wait for a worker.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._free: asyncio.Queue[Worker] = asyncio.Queue()
        self._workers: set[Worker] = set()
        self._long = asyncio.Semaphore(max(1, settings.limits.n_workers - 1))
        self.n_waiting = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closing = False

    @property
    def n_alive(self) -> int:
        """The number of workers that run."""
        return sum(worker.is_alive for worker in self._workers)

    async def start(self) -> None:
        """Start all workers."""
        await asyncio.gather(*(self._add() for _ in range(self._settings.limits.n_workers)))

    async def ask(
        self, header: Mapping[str, Any], body: bytes = b"", *, may_take_long: bool = False
    ) -> Message:
        """Have a worker answer a request; the answer may be a problem, with its own status."""
        if self.n_waiting >= self._settings.limits.max_waiting:
            raise ProblemError(
                problems.BUSY,
                f"{self.n_waiting} requests wait already; try again in a moment",
                headers={"Retry-After": "1"},
            )
        message = pack(header, body)
        async with AsyncExitStack() as stack:
            worker = await self._free_worker(stack, may_take_long=may_take_long)
            return await self._exchange(worker, message)

    async def close(self) -> None:
        """End all workers."""
        self._is_closing = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(worker.close() for worker in self._workers))
        self._workers.clear()

    async def _free_worker(self, stack: AsyncExitStack, *, may_take_long: bool) -> Worker:
        """Wait for a worker for a limited time; long requests also wait for their turn."""
        self.n_waiting += 1
        try:
            async with asyncio.timeout(self._settings.requests.request_s):
                if may_take_long:
                    await stack.enter_async_context(self._long)
                return await self._free.get()
        except TimeoutError:
            raise ProblemError(
                problems.BUSY,
                "no worker was free in time; try again later",
                headers={"Retry-After": "5"},
            ) from None
        finally:
            self.n_waiting -= 1

    async def _exchange(self, worker: Worker, message: bytes) -> Message:
        limit_s = self._settings.requests.request_s
        try:
            async with asyncio.timeout(limit_s):
                answer = await worker.ask(message)
        except TimeoutError:
            self._replace(worker)
            raise ProblemError(
                problems.TOOK_TOO_LONG,
                f"the answer was not ready after {limit_s:g} s; ask for less",
            ) from None
        except (OSError, asyncio.IncompleteReadError, ValueError):
            self._replace(worker)
            raise ProblemError(
                problems.LOST,
                "the process that worked on this request ended; if that happens again, ask for "
                "less",
            ) from None
        except BaseException:  # canceled, but the answer to this request still comes
            self._replace(worker)
            raise
        self._free.put_nowait(worker)
        return answer

    def _replace(self, worker: Worker) -> None:
        worker.kill()
        if not self._is_closing:
            logger.warning("a worker ended or was too slow; another one is started")
            task = asyncio.create_task(self._add(instead_of=worker))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _add(self, instead_of: Worker | None = None) -> None:
        if instead_of is not None:
            await instead_of.close()
            self._workers.discard(instead_of)
        while True:
            try:
                worker = await Worker.start(self._settings)
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                if instead_of is None:
                    raise
                logger.warning("a worker did not start: %s", error)
                await asyncio.sleep(_RETRY_S)
            else:
                break
        self._workers.add(worker)
        self._free.put_nowait(worker)
