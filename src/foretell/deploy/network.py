"""A network to serve: what the user names, and the processes that build and time it."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from foretell import _version
from foretell.errors import NothingUsableError, Option, UsageError, suggest

_MOST_NUMBERS = 10**8
FLOATS, WHOLE = ("float32", "float64", "float16", "bfloat16"), ("int64", "int32")
_DTYPE = re.compile(rf"(?:{'|'.join(FLOATS)})|(?:{'|'.join(WHOLE)})(?::[1-9][0-9]{{0,8}})?")


#: Marks processes that build and time networks.
_MARK = "FORETELL_TIMES_A_NETWORK"


@dataclass(frozen=True)
class Effort:
    """How long each batch size is timed; the defaults take 1.2 s or more.

    ``n_pauses``: single samples that are timed after a pause.
    """

    n_warm_ups: int = 3
    warm_up_s: float = 0.2
    n_calls: int = 20
    calls_s: float = 1.0
    n_pauses: int = 20


@dataclass(frozen=True)
class Network:
    """A function that builds a network, its arguments, and the shape of one sample.

    Attributes
    ----------
    build
        ``file.py:function`` or ``package.module:function``.
    dtype
        Of the input; ``int64:1000`` draws whole numbers below 1,000.
    """

    build: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "build": self.build,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "arguments": dict(self.arguments),
        }


def read_network(
    build: str | Callable[..., Any],
    shape: str | Sequence[int],
    dtype: str = "float32",
    arguments: Mapping[str, Any] | None = None,
) -> Network:
    """Check what the user names, as far as that takes no PyTorch."""
    name = build if isinstance(build, str) else _name_of(build)
    place, _, function = name.rpartition(":")
    if not (place and function):
        raise UsageError(
            f"'{name}' names no function; write FILE.py:FUNCTION, such as net.py:build"
        )
    if place.endswith(".py"):
        if not Path(place).is_file():
            raise UsageError(f"there is no file {place}; write FILE.py:FUNCTION")
        name = f"{Path(place).absolute()}:{function}"
    if not _DTYPE.fullmatch(dtype):
        raise UsageError(
            f"'{dtype}' is no type of input. {suggest(dtype.partition(':')[0], FLOATS + WHOLE)} "
            "For indices write int64:1000, whole numbers below 1,000",
            option=Option("dtype"),
        )
    try:
        json.dumps(dict(arguments or {}))
    except TypeError:
        raise UsageError(f"arguments of {function} must be plain values: {arguments}") from None
    return Network(name, _read_shape(shape), dtype, dict(arguments or {}))


def _name_of(build: Callable[..., Any]) -> str:
    """Name a function so that another process finds it: by its file."""
    name = getattr(build, "__qualname__", type(build).__name__)
    try:
        file = inspect.getsourcefile(build)
    except TypeError:
        file = None
    if file is None or "<" in name or not Path(file).is_file():
        raise UsageError(
            f"{name} cannot be called from another process, in which each number of threads is "
            "timed; write it as a function of its own, in a file"
        )
    return f"{file}:{name}"


def _read_shape(shape: str | Sequence[int]) -> tuple[int, ...]:
    parts: Sequence[Any] = re.split(r"[,x×]", shape) if isinstance(shape, str) else shape
    try:
        found = tuple(int(part) for part in parts)
    except (TypeError, ValueError):
        found = ()
    if not found or min(found) < 1 or math.prod(found) > _MOST_NUMBERS:
        raise UsageError(
            f"'{shape}' is not the shape of one sample: whole numbers above 0, without the batch; "
            "write 1,28,28",
            option=Option("input"),
        )
    return found


class TorchMissingError(UsageError):
    """PyTorch is not installed."""


class BatchFailedError(Exception):
    """A batch size that the network cannot compute here."""


class NetworkProcess:
    """A process that holds a network, and times its batches with one number of threads."""

    def __init__(self, network: Network, threads: int) -> None:
        if _MARK in os.environ:
            raise UsageError(
                "a file that builds a network also asks how to serve it when it is imported; put "
                'that call under `if __name__ == "__main__":`'
            )
        self.network, self.threads = network, threads
        self._said = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - kept open
        words = [sys.executable, "-m", "foretell.deploy.child"]
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            env=_environment(threads),
        )
        try:
            self.description = self._ask({**network.to_json(), "threads": threads})
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._said.close()

    def timed(self, batch: int, effort: Effort) -> dict[str, Any]:
        """Return the times of a batch size; raise a BatchFailedError if it cannot be computed."""
        return self._ask({"batch": batch, **vars(effort)})

    def _ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._fail(self._process.wait(), "batch" in question)
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise _worded(answer)
        return answer

    def _fail(self, code: int, is_timing: bool) -> None:
        self._said.seek(0)
        lines = [line.strip() for line in self._said.read().splitlines() if line.strip()]
        last = f": {lines[-1]}" if lines else ""
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        if is_timing and code == -9:
            raise BatchFailedError("it was killed, probably as it took too much memory")
        raise NothingUsableError(f"the process that times {self.network.build} {how}{last}")


def _environment(threads: int) -> dict[str, str]:
    """Return the environment of a process: as many threads as are to be timed, from the start."""
    source = str(Path(_version.__file__).parents[1])
    paths = [source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    own = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    own |= {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), _MARK: "1"}
    return {**os.environ, **own}


def _worded(answer: Mapping[str, Any]) -> Exception:
    text, kind = answer["failed"], answer["kind"]
    if kind == "torch":
        return TorchMissingError(
            "a network is timed with PyTorch, which is not installed: pip install 'foretell[torch]'"
        )
    if kind == "batch":
        return BatchFailedError(text)
    if kind == "name":
        found = json.loads(text)
        known = suggest(found["name"], found["known"]) if found["known"] else "It has none."
        return UsageError(f"{found['place']} has no function '{found['name']}'. {known}")
    return UsageError(text)
