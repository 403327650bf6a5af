"""What is asked of a deployment: the scenario, the limit, what to minimize, how many replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from foretell.decide.deployment.batch_times import Times
from foretell.decide.deployment.scenario import Scenario
from foretell.decide.deployment.settings import Assessed, Choices, Figures, Setting
from foretell.errors import Option, UsageError, suggest

P99, MEAN, ENERGY = "p99", "mean", "energy"
#: More replicas than these are not tried.
MOST_REPLICAS = 1_000
#: What is minimized among settings that keep the limit on the fewest cores.
GOALS = (P99, MEAN, ENERGY)
#: A queue is only taken for one that has an end below this share of capacity.
MOST_LOAD = 0.97


@dataclass(frozen=True)
class Question:
    """What is asked.

    Attributes
    ----------
    limit_s
        What 99 of 100 requests must stay below; None if anything will do.
    most_replicas
        None: as many as it takes.
    overhead_s
        What the server adds to each batch.
    pause_s
        What a batch takes longer after the server had nothing to do; None for what was measured of
        the network.
    """

    scenario: Scenario
    choices: Choices
    limit_s: float | None = None
    goal: str = P99
    most_replicas: int | None = None
    overhead_s: float = 0.0
    pause_s: float | None = None

    def __post_init__(self) -> None:
        if self.goal not in GOALS:
            raise UsageError(
                f"there is no goal '{self.goal}'. {suggest(self.goal, GOALS)}",
                option=Option("minimize"),
            )
        if self.most_replicas is not None and not 1 <= self.most_replicas <= MOST_REPLICAS:
            raise UsageError(
                f"must be from 1 to {MOST_REPLICAS:,}, not {self.most_replicas}",
                option=Option("replicas"),
            )


class Play(Protocol):
    """Says what a setting comes to."""

    def __call__(
        self, setting: Setting, scenario: Scenario, *, sureness: float, is_rough: bool
    ) -> Figures:
        """Play a setting, with times longer by some standard errors; roughly, or thoroughly."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen setting and all others.

    Attributes
    ----------
    p99_s
        The ends of the 90 % interval of the p99.
    holds_to_per_s
        The rate up to which the chosen setting keeps the limit; None where rates mean nothing.
    assessed
        All settings that were played, roughly and with pessimistic times.
    """

    chosen: Setting
    figures: Figures
    p99_s: tuple[float, float]
    holds_to_per_s: float | None
    assessed: tuple[Assessed, ...]


def goal_value(goal: str, figures: Figures) -> float:
    """Return what is minimized."""
    return {P99: figures.p99_s, MEAN: figures.mean_s, ENERGY: figures.core_s}[goal]


def ranked(found: Iterable[Assessed], goal: str, times: Times) -> list[Assessed]:
    """Return settings that can be used, best first.

    Fewest cores come first, then fewest replicas, then what is minimized. Of settings that are
    equal within a percent, the one that can serve most comes first: it bears the most load.
    """
    kept = [a for a in found if a.is_kept and a.figures is not None]
    first: list[Assessed] = []
    rest = sorted(kept, key=lambda a: _key(a, goal))
    while rest:
        best = _key(rest[0], goal)
        equal = [a for a in rest if _key(a, goal)[:2] == best[:2]]
        equal = [a for a in equal if _key(a, goal)[2] <= 1.01 * best[2]]
        equal.sort(key=lambda a: (a.setting.wait_s, -_capacity(a.setting, times), a.setting.batch))
        first += equal
        rest = [a for a in rest if a not in equal]
    return first


def _key(one: Assessed, goal: str) -> tuple[int, int, float]:
    assert one.figures is not None
    return one.setting.cores, one.setting.replicas, goal_value(goal, one.figures)


def _capacity(setting: Setting, times: Times) -> float:
    return times[setting.threads].per_s(setting.batch)


def best_batches(found: Sequence[Assessed], goal: str, n: int) -> list[int]:
    """Return the batch sizes of the best settings, whether they keep the limit or not."""
    known = [a for a in found if a.figures is not None]
    known.sort(key=lambda a: (not a.is_kept, goal_value(goal, a.figures)))  # type: ignore[arg-type]
    return list(dict.fromkeys(a.setting.batch for a in known))[:n]


def fewest_replicas(will_do: Callable[[int], bool], least: int, most: int) -> int:
    """Return the fewest replicas that will do; where none will, the most that may be tried.

    Steps are doubled until a number will do, and the last step is halved.

    >>> fewest_replicas(lambda n: n >= 11, 3, 1000), fewest_replicas(lambda n: n >= 11, 3, 8)
    (11, 8)
    """
    high, step = least, 1
    while not will_do(high):
        if high >= most:
            return most
        least, high, step = high + 1, min(high + step, most), 2 * step
    while least < high:
        middle = (least + high) // 2
        least, high = (least, middle) if will_do(middle) else (middle + 1, high)
    return high
