"""Choosing how to serve a network: measure few batch times, model the rest, play the settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from foretell.decide.deployment.batch_times import OPTIMISTIC, Times
from foretell.decide.deployment.points import Points
from foretell.decide.deployment.power import Power, read_power
from foretell.decide.deployment.question import ENERGY, MEAN, MOST_LOAD, P99, Choice, Play, Question
from foretell.decide.deployment.scenario import (
    MULTI_STREAM,
    OFFLINE,
    SERVER,
    SINGLE_STREAM,
    Scenario,
    read_scenario,
)
from foretell.decide.deployment.server import choose_server
from foretell.decide.deployment.settings import Choices, Setting, read_choices
from foretell.decide.deployment.streams import choose_stream
from foretell.deploy.answer import Deployment
from foretell.deploy.cache import default_folder
from foretell.deploy.measuring import Measured, Stopwatch, measure_points
from foretell.deploy.network import Effort, Network, read_network
from foretell.deploy.play import Player
from foretell.errors import NothingUsableError, Option, UsageError, suggest
from foretell.spaces.quantities import read_latency
from foretell.spaces.values import Values

AUTO, ALL = "auto", "all"
#: Requests that are played to see which points a choice depends on.
_N_WANTED = 4_000


@dataclass(frozen=True)
class DeployOptions:
    """How a network is measured and its settings are judged; the defaults suit most.

    Attributes
    ----------
    dtype
        Of the input; ``int64:1000`` draws whole numbers below 1,000.
    minimize
        ``p99``, ``mean`` or ``energy``, among settings that keep the limit on the fewest cores.
    replicas
        At most so many; None for as many as it takes.
    overhead_s
        What the server adds to each batch.
    pause_s
        What a batch takes longer after the server had nothing to do; None for what is measured of
        the network.
    measure
        ``auto``: at most a quarter of the batch times, and for each number of threads no more than
        there are powers of two up to the largest batch, but up to three in any case; ``all``: all.
    power
        Watts when idle and when busy, ``20W,65W``; None looks the processor up.
    cache
        Where batch times are kept; None keeps none. By default in the user's cache folder.
    progress
        Called with what is measured next.
    """

    dtype: str = "float32"
    minimize: str = P99
    replicas: int | None = None
    overhead_s: float = 0.0
    pause_s: float | None = None
    measure: str = AUTO
    power: str | None = None
    cache: Path | None = field(default_factory=default_folder)
    effort: Effort = field(default_factory=Effort)
    seed: int = 0
    progress: Callable[[str], None] | None = None


def choose_deployment(
    build: str | Callable[..., Any],
    input_shape: str | Sequence[int],
    arrivals: str | Scenario | None = None,
    *,
    p99: str | float | None = None,
    vary: Mapping[str, Values] | None = None,
    scenario: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    **options: Any,
) -> Deployment:
    """Choose batch size, batching delay, threads and replicas for serving a network.

    Parameters
    ----------
    build
        A function that returns a ``torch.nn.Module``: itself, or ``file.py:function``. It is called
        in processes of their own; its weights may be random.
    input_shape
        Of one sample, without the batch: ``"1,28,28"`` or ``(1, 28, 28)``.
    arrivals
        ``poisson:120/s``, or ``burst:8/50ms`` for 8 samples together every 50 ms.
    p99
        What 99 of 100 requests must stay below: ``50ms``, or seconds.
    vary
        What can be chosen: ``batch``, ``threads``, ``wait``.
    scenario
        ``single-stream`` or ``offline``, which need no arrivals.
    arguments
        Of the function that builds the network.
    options
        Fields of ``DeployOptions``: dtype, minimize, replicas, overhead_s, pause_s, measure, power,
        cache, effort, seed, progress.

    >>> from foretell import choose_deployment
    >>> found = choose_deployment("net.py:build", (1, 28, 28), "poisson:120/s",
    ...                           p99="50ms")                    # doctest: +SKIP
    >>> found.setting.batch                                       # doctest: +SKIP
    8
    """
    chosen = _options(options)
    network = read_network(build, input_shape, chosen.dtype, arguments)
    question = Question(
        read_scenario(arrivals, scenario),
        read_choices(vary or {}, _default_threads()),
        _limit(p99),
        chosen.minimize,
        chosen.replicas,
        chosen.overhead_s,
        chosen.pause_s,
    )
    _check_used(question, vary or {})
    power = _power(chosen.power)
    measured, description = _measure(network, question, chosen)
    if measured.most_batch is not None:
        question = replace(question, choices=_without(question.choices, measured.most_batch))
    if max(question.choices.threads) > (n_cores := max(_default_threads())):
        measured.notes.append(
            f"More threads were asked for than the {n_cores} cores that this process may use: they "
            "take turns on these, and on more cores times are others."
        )
    player = Player(measured.times, question.overhead_s, question.pause_s, chosen.seed)
    choice = choose(question, measured.times, player)
    return Deployment(network, question, choice, measured, description, power, chosen.seed)


def choose(question: Question, times: Times, play: Play) -> Choice:
    """Choose a setting by the times of batches."""
    if question.scenario.name == SERVER:
        return choose_server(question, times, play)
    return choose_stream(question, times, play)


def _options(given: Mapping[str, Any]) -> DeployOptions:
    known = list(vars(DeployOptions()))
    for name in given:
        if name not in known:
            raise UsageError(f"there is no option '{name}'. {suggest(name, known)}")
    found = DeployOptions(**given)
    if found.measure not in (AUTO, ALL):
        raise UsageError(
            f"must be '{AUTO}' or '{ALL}', not '{found.measure}'", option=Option("measure")
        )
    if found.seed < 0:
        raise UsageError(f"must be at least 0, not {found.seed}", option=Option("seed"))
    for name in ("overhead", "pause"):
        value = getattr(found, f"{name}_s")
        if value is not None and not 0 <= value < float("inf"):
            raise UsageError(f"must be 0 s or more, not {value}", option=Option(name))
    return found


def _check_used(question: Question, vary: Mapping[str, Values]) -> None:
    """Refuse what the scenario has no use for, rather than ignore it."""
    name, choices = question.scenario.name, question.choices
    if name == SERVER:
        return
    if any(wait_s > 0 for wait_s in choices.waits_s or ()):
        raise UsageError(
            f"in the scenario {name} no sample waits for others; leave the wait out",
            option=Option("vary", key="wait"),
        )
    if name == SINGLE_STREAM and "batch" in vary and choices.batches != (1,):
        raise UsageError(
            f"in the scenario {name} there is one sample at a time; leave the batch out",
            option=Option("vary", key="batch"),
        )
    if name != MULTI_STREAM and question.most_replicas not in (None, 1):
        raise UsageError(
            f"the scenario {name} is about one replica; leave the replicas out",
            option=Option("replicas", str(question.most_replicas)),
        )
    if name == OFFLINE and question.goal == MEAN:
        raise UsageError(
            f"in the scenario {name} no request waits, and the most samples per second are chosen; "
            "leave it out",
            option=Option("minimize", MEAN),
            remedy=("or write ", Option("minimize", ENERGY)),
        )


def _limit(p99: str | float | None) -> float | None:
    if p99 is None:
        return None
    try:
        return read_latency(p99)
    except UsageError as error:
        raise UsageError(error.text, option=Option("p99")) from None


def _default_threads() -> list[int]:
    """Return powers of two up to the cores that this process may use, and all of them."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return sorted({2**k for k in range(n.bit_length()) if 2**k <= n} | {n})


def _power(given: str | None) -> Power | None:
    n_cores = os.cpu_count() or 1
    if given is not None:
        return read_power(given, n_cores)
    from foretell.measure.meters.energy import IDLE_SHARE, rated_power

    rated = rated_power()
    if rated is None:
        return None
    model, watts = rated
    return Power(IDLE_SHARE * watts, watts, n_cores, f"rated power of {model}")


def _measure(
    network: Network, question: Question, options: DeployOptions
) -> tuple[Measured, dict[str, Any]]:
    threads = question.choices.threads
    plan = Points(sizes_of(question), threads, options.measure == ALL)
    folder = None if options.cache is None else Path(options.cache)

    def wanted(times: Times) -> list[tuple[int, int]]:
        return wanted_points(question, times, options.seed)

    with Stopwatch(network, threads[0], options.effort, folder) as stopwatch:
        return measure_points(stopwatch, plan, wanted, options.progress), stopwatch.description


def sizes_of(question: Question) -> list[int]:
    """Return the batch sizes whose times matter: a server has batches of all sizes to its cap."""
    batches = question.choices.batches
    name = question.scenario.name
    if name == SINGLE_STREAM:
        return [1]
    if name == OFFLINE:
        return list(batches)
    most = batches[-1]
    if name == MULTI_STREAM:
        most = min(most, question.scenario.n_samples)
    return list(range(1, most + 1))


def wanted_points(question: Question, times: Times, seed: int) -> list[tuple[int, int]]:
    """Return what a rough choice depends on: its largest batch, and the usual one."""
    player = Player(times, question.overhead_s, question.pause_s, seed, n_rough=_N_WANTED)
    # Where only one batch size counts, the one to try next is the one that may turn out best.
    is_offline = question.scenario.name == OFFLINE

    def roughly(setting: Setting, scenario: Scenario, **how: Any) -> Any:
        sureness = OPTIMISTIC if is_offline else how["sureness"]
        return player(setting, scenario, sureness=sureness, is_rough=True)

    try:
        # Waits change the choice of points little, and take most of the time.
        choices = replace(question.choices, waits_s=(0.0,))
        few = replace(question, choices=choices, limit_s=_soft_limit(question, times))
        found = choose(few, times, roughly)
    except NothingUsableError:
        return []
    threads = found.chosen.threads
    return [(threads, max(1, round(found.figures.mean_batch))), (threads, found.chosen.batch)]


def _soft_limit(question: Question, times: Times) -> float | None:
    """Return the limit, unless replicas would be looked for, which takes long."""
    if question.scenario.name != SERVER:
        return question.limit_s
    best = max(t.per_s(b, question.overhead_s) for t in times.values() for b in t.batches)
    return question.limit_s if question.scenario.rate_per_s < MOST_LOAD * best / 2 else None


def _without(choices: Choices, most_batch: int) -> Choices:
    batches = tuple(b for b in choices.batches if b <= most_batch) or (most_batch,)
    return replace(choices, batches=batches)
