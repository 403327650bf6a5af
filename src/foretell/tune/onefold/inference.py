"""Inference of a trial's network: measured between trainings, once for each architecture."""

from __future__ import annotations

import inspect
import math
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from foretell.errors import Option, UsageError, listing, suggest
from foretell.tune.onefold.space import settings_key


class Servable(Protocol):
    """What can tell how fast a network answers, such as `foretell.Deployable`."""

    def latency(self, **architecture: Any) -> Any:
        """Return an object with ``mean_s``, ``p99_s``, ``throughput``, ``batch``, ``threads``."""


@dataclass(frozen=True)
class Inference:
    """How a network is served best, and what that gives.

    Attributes
    ----------
    wait_s
        How long a request waits at most for others to join its batch.
    energy_j
        Of one sample, if it is known.
    label
        Where the figures come from.
    """

    mean_s: float
    p99_s: float
    throughput: float | None = None
    batch: int | None = None
    threads: int | None = None
    replicas: int = 1
    wait_s: float | None = None
    energy_j: float | None = None
    label: str = "measured"

    @classmethod
    def read(cls, found: Any) -> Inference:
        """Return what a `Servable` told; its numbers must be times."""
        whole = getattr(found, "deployment", None)  # the answer of choose_deployment
        setting = getattr(whole, "setting", found)
        energy_j = getattr(found, "energy_j", getattr(whole, "joules", None))
        read = cls(
            mean_s=float(found.mean_s),
            p99_s=float(found.p99_s),
            throughput=_number(getattr(found, "throughput", None)),
            batch=_whole(getattr(found, "batch", None)),
            threads=_whole(getattr(found, "threads", None)),
            replicas=_whole(getattr(setting, "replicas", None)) or 1,
            wait_s=_number(getattr(setting, "wait_s", None)),
            energy_j=_number(energy_j),
            label="measured" if whole is None else "simulated from measured batch times",
        )
        # An infinite p99 is an answer: the network cannot keep up.
        if not (read.mean_s > 0 and read.p99_s > 0):
            raise ValueError(f"a latency must be above 0, not {read.mean_s} s, p99 {read.p99_s} s")
        return read


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def architecture_names(
    servable: Servable | None, architecture: tuple[str, ...] | None, names: list[str]
) -> tuple[str, ...]:
    """Return the settings that a network is built from.

    By default those that the function which builds it has as parameters.
    """
    if servable is None:
        return ()
    if architecture is not None:
        unknown = [name for name in architecture if name not in names]
        if unknown:
            raise UsageError(
                f"'{unknown[0]}' is no setting of the search. {suggest(unknown[0], names)}",
                option=Option("architecture"),
            )
        return tuple(architecture)
    build = getattr(servable, "build", None)
    if not callable(build):
        raise UsageError(
            "it has no function that builds a network, so that the settings which change the "
            f"network must be named; those of the search are {listing(names)}",
            option=Option("deployable"),
            remedy=("name them with ", Option("architecture", "...")),
        )
    parameters = inspect.signature(build).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return tuple(names)
    return tuple(name for name in names if name in {p.name for p in parameters})


@dataclass
class InferenceCache:
    """Latencies by architecture, and how long it takes to get one.

    Measuring while a network trains would disturb both, so it happens between trainings.
    """

    servable: Servable | None
    architecture: tuple[str, ...]
    known: dict[str, Inference] = field(default_factory=dict)
    costs_s: list[float] = field(default_factory=list)

    def remember(self, config: Mapping[str, Any], inference: Inference) -> None:
        """Take a latency that is known from an earlier trial."""
        self.known[self._key(config)] = inference

    def find(self, config: Mapping[str, Any]) -> Inference | None:
        """Return what is known of the network of a configuration, without measuring."""
        return self.known.get(self._key(config))

    def measured(self, config: Mapping[str, Any]) -> Inference | None:
        """Return the latency of the network of a configuration; measure it if it is new."""
        if self.servable is None:
            return None
        found = self.find(config)
        if found is None:
            started = time.perf_counter()
            built_from = {name: config[name] for name in self.architecture}
            found = Inference.read(self.servable.latency(**built_from))
            self.costs_s.append(time.perf_counter() - started)
            self.remember(config, found)
        return found

    @property
    def cost_s(self) -> float | None:
        """How long it takes to find a latency; None if none was found yet."""
        return statistics.median(self.costs_s) if self.costs_s else None

    def _key(self, config: Mapping[str, Any]) -> str:
        return settings_key({name: config[name] for name in self.architecture})


def is_within(p99_s: float, limit_s: float | None) -> bool:
    """Whether a latency keeps its limit."""
    return limit_s is None or (math.isfinite(p99_s) and p99_s <= limit_s)
