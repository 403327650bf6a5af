"""The process that builds a network and times its batches: one for each number of threads.

It reads a line of JSON for each request from standard input, and answers with a line.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_N_ROUNDS, _N_LEVELS = 8, 200
#: Rounds that got less of the processor than this share of what the round with the second most got
#: were disturbed by other work; others are made instead, up to so many in all.
_DISTURBED, _MOST_ROUNDS = 0.9, 24
#: A pause after which a processor has forgotten as much as it will: its caches, and its speed.
_PAUSE_S = 0.03


def main() -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the user's code prints must not get into the answers
    network: _Network | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if network is None:
                network = _Network(asked)
                answer = network.description()
            else:
                answer = network.timed(asked)
        except _FailedError as error:
            answer = {"failed": str(error), "kind": error.kind}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


class _FailedError(Exception):
    """What went wrong, for the user."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind


class _Network:
    """A network with random weights, and its timer."""

    def __init__(self, asked: dict[str, Any]) -> None:
        torch = _torch()
        torch.set_num_threads(asked["threads"])
        torch.manual_seed(0)
        self._shape = tuple(asked["shape"])
        self._dtype, _, below = asked["dtype"].partition(":")
        self._below = int(below or 2)
        self.model = build_network(asked["build"], asked["arguments"])
        self.source = _source_of(asked["build"].rpartition(":")[0])

    def make_input(self, n: int, seed: int) -> Any:
        """Return random samples."""
        torch = _torch()
        torch.manual_seed(seed)
        dtype = getattr(torch, self._dtype)
        if dtype.is_floating_point:
            return torch.rand((n, *self._shape), dtype=dtype)
        return torch.randint(0, self._below, (n, *self._shape), dtype=dtype)

    def description(self) -> dict[str, Any]:
        """Return what the times depend on, and the shape of the output."""
        from foretell.deploy.shapes import UnfitNetworkError, check_shapes

        try:
            output = check_shapes(self.model, self.make_input)
        except UnfitNetworkError as error:
            raise _FailedError(str(error), "shapes") from None
        torch = _torch()
        with torch.inference_mode():
            made = self.model(self.make_input(1, 0))
        made = made[0] if isinstance(made, tuple | list) else made
        return {
            "graph": _graph(self.model, self.source),
            "n_parameters": sum(p.numel() for p in self.model.parameters()),
            "output_shape": list(output),
            "output_dtype": str(made.dtype).removeprefix("torch."),
            "torch": torch.__version__,
        }

    def timed(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Time calls with one batch size, in rounds."""
        torch = _torch()
        try:
            samples = self.make_input(asked["batch"], 0)
            n_rounds = max(2, min(_N_ROUNDS, asked["n_calls"]))
            with torch.inference_mode():
                self._warm_up(samples, asked)
                gc.collect()
                gc.disable()
                rounds = [self._round(samples, asked) for _ in range(n_rounds)]
                while len(rounds) < _MOST_ROUNDS and len(_undisturbed(rounds)) < n_rounds:
                    rounds.append(self._round(samples, asked))
                n_pauses = asked["n_pauses"] if asked["batch"] == 1 else 0
                rested = [self._after_pause(samples) for _ in range(n_pauses)]
        except Exception as error:  # a network of the user's own may raise anything
            raise _FailedError(_said(error), "batch") from None
        finally:
            gc.enable()
        return _summary(_undisturbed(rounds) or rounds, len(rounds), rested)

    def _warm_up(self, samples: Any, asked: dict[str, Any]) -> None:
        started, n = time.perf_counter(), 0
        while n < asked["n_warm_ups"] or time.perf_counter() - started < asked["warm_up_s"]:
            self.model(samples)
            n += 1

    def _after_pause(self, samples: Any) -> float:
        """Return the time of one call after a pause, as a server has them between requests."""
        time.sleep(_PAUSE_S)
        started = time.perf_counter()
        self.model(samples)
        return time.perf_counter() - started

    def _round(self, samples: Any, asked: dict[str, Any]) -> _Round:
        """Return the times of some calls, and the CPU seconds of all of them together."""
        least, least_s = -(-asked["n_calls"] // _N_ROUNDS), asked["calls_s"] / _N_ROUNDS
        times: list[float] = []
        cpu, total = time.process_time(), 0.0
        while len(times) < least or total < least_s:
            started = time.perf_counter()
            self.model(samples)
            times.append(time.perf_counter() - started)
            total += times[-1]
        return times, time.process_time() - cpu


_Round = tuple[list[float], float]


def _undisturbed(rounds: list[_Round]) -> list[_Round]:
    """Return the rounds in which no other work took the processor away.

    Slow ones that had it are kept: a server has those, too.
    """
    busy = [cpu_s / sum(times) for times, cpu_s in rounds]
    least = _DISTURBED * sorted(busy)[-2]
    return [one for one, share in zip(rounds, busy, strict=True) if share >= least]


def _summary(rounds: list[_Round], n_rounds: int, rested: list[float]) -> dict[str, Any]:
    """Return what was found in rounds, and in calls after a pause."""
    import numpy as np

    times = np.concatenate([times for times, _ in rounds])
    medians = np.array([np.median(times) for times, _ in rounds])
    median = float(np.median(times))
    at = (np.arange(_N_LEVELS) + 0.5) / _N_LEVELS
    levels = np.quantile(times, at) if len(times) > _N_LEVELS else np.sort(times)
    return {
        "median_s": median,
        "levels": [float(f"{x:.5g}") for x in levels / median],
        "error": float(medians.std(ddof=1) / median / np.sqrt(len(medians))),
        "busy_cores": sum(cpu for _, cpu in rounds) / float(times.sum()),
        "n_calls": len(times),
        "disturbed": 1 - len(rounds) / n_rounds,
        "pause_s": max(0.0, float(np.median(rested)) - median) if rested else 0.0,
    }


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise _FailedError("PyTorch is not installed", "torch") from None
    return torch


def build_network(name: str, arguments: dict[str, Any]) -> Any:
    """Call the user's function."""
    place, _, function_name = name.rpartition(":")
    function = _function(place, function_name)
    try:
        model = function(**arguments)
    except Exception as error:  # code of the user's own may raise anything
        raise _FailedError(f"{name} raised {_said(error)}{_line_of(error)}", "build") from None
    if not isinstance(model, _torch().nn.Module):
        raise _FailedError(
            f"{name} must return a torch.nn.Module, and returned {type(model).__name__}", "build"
        )
    return model.eval()


def _function(place: str, name: str) -> Callable[..., Any]:
    try:
        module = _module(place)
    except Exception as error:  # as above
        raise _FailedError(
            f"{place} cannot be imported: {_said(error)}{_line_of(error)}", "import"
        ) from None
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            own = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
            raise _FailedError(json.dumps({"place": place, "name": name, "known": own}), "name")
        found = getattr(found, part)
    if not callable(found):
        raise _FailedError(f"{name} in {place} is not a function", "build")
    function: Callable[..., Any] = found
    return function


def _module(place: str) -> Any:
    if not place.endswith(".py"):
        return importlib.import_module(place)
    path = Path(place).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _said(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _line_of(error: Exception) -> str:
    """Say in which line of the user's code an error arose."""
    trace, line = error.__traceback__, None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file != __file__ and not file.startswith("<"):
            line = line or f" ({Path(file).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return line or ""


def _source_of(place: str) -> str:
    """Return the code beside the user's function, which the network may call."""
    try:
        if place.endswith(".py"):
            return Path(place).read_text("utf-8")
        return inspect.getsource(importlib.import_module(place))
    except (OSError, TypeError, UnicodeDecodeError):
        return ""


def _graph(model: Any, source: str) -> str:
    """Return a digest of the structure: layers, shapes of weights, and the code between them."""
    kinds = sorted({type(layer) for layer in model.modules()}, key=lambda kind: kind.__qualname__)
    sources = []
    for kind in kinds:
        if not kind.__module__.startswith("torch."):
            try:
                sources.append(inspect.getsource(kind))
            except (OSError, TypeError):
                sources.append(kind.__qualname__)
    weights = [(n, list(t.shape), str(t.dtype)) for n, t in model.state_dict().items()]
    text = json.dumps([repr(model), weights, sources, source])
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    main()
