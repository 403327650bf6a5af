"""What a plan comes to: response times by class, error, load, energy, and the limits it breaks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from foretell.decide.queueing.job_class import JobClass
from foretell.decide.queueing.options import Option
from foretell.decide.queueing.queue_file import Queue
from foretell.wording import percent, plain

#: From this load on, waits depend on chance more than on any plan.
MOST_LOAD = 0.97
#: How unlucky a run is: a quantile.
_UNLUCKY = 0.9

MEAN, P95, ERROR, LOAD, SPRINTS, RUNS = "mean", "p95", "error", "load", "sprints", "runs"
#: What a limit is called that belongs to no class.
_LABELS = {
    LOAD: "the load limit",
    SPRINTS: "the sprint budget",
    RUNS: "the share of runs that break a limit",
}


@dataclass(frozen=True)
class Response:
    """The response time of a class: its mean, and what 95 % of the jobs do not exceed."""

    mean_s: float
    p95_s: float


@dataclass(frozen=True)
class Power:
    """Mean watts, modelled: of sprints above base, of all jobs, and with the idle engine."""

    sprint_w: float
    busy_w: float
    total_w: float


Plan = tuple[Option, ...]


class Evaluator(Protocol):
    """Says how long jobs take under a plan: by formulas, or by simulation."""

    def responses(
        self, rates_per_s: Sequence[float], plans: Sequence[Plan]
    ) -> Sequence[Sequence[Response]]:
        """Return the response times by plan and class; loads are below 1."""


@dataclass(frozen=True)
class Limit:
    """A limit, and what a plan comes to against it; latencies as in an unlucky run.

    ``name`` is the class it belongs to; empty for load and sprints, which belong to all.
    """

    what: str
    name: str
    value: float
    most: float

    @property
    def is_kept(self) -> bool:
        """Whether it holds."""
        return self.value <= self.most * (1 + 1e-9)

    @property
    def use(self) -> float:
        """The share of the limit that is used."""
        if self.most > 0:
            return self.value / self.most
        return 0.0 if self.is_kept else math.inf

    @property
    def label(self) -> str:
        """What it limits."""
        return f"{self.what} of '{plain(self.name)}'" if self.name else _LABELS[self.what]

    def __str__(self) -> str:
        """Write what it came to and what is allowed."""
        return f"{self.label} {self.outcome}, at most {self.written(self.most)}"

    @property
    def outcome(self) -> str:
        """What a plan comes to."""
        unlucky = " in the worst tenth of runs" if self.what in (MEAN, P95) else ""
        return f"{self.written(self.value)}{unlucky}"

    def written(self, value: float) -> str:
        """Write a value with its unit."""
        if self.what in (MEAN, P95):
            return seconds_text(value)
        return f"{value:.3g} W" if self.what == SPRINTS else percent(value)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"limit": self.what, "class": self.name or None, "value": _finite(self.value),
                "most": self.most, "is_kept": self.is_kept}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Assessed:
    """A plan, one option per class, and what it comes to.

    Attributes
    ----------
    responses
        The response times; empty where the load or the sprints are too much.
    limits
        All limits, kept or not.
    error
        The errors of all classes, by their weights.
    latency_s
        What is minimized: the p95 of all classes, by their weights.
    load, power
        The share of time with a job, and the mean watts.
    """

    options: Plan
    responses: tuple[Response, ...]
    limits: tuple[Limit, ...]
    error: float
    latency_s: float
    load: float
    power: Power

    @property
    def is_kept(self) -> bool:
        """Whether all limits hold."""
        return all(limit.is_kept for limit in self.limits)

    @property
    def violations(self) -> tuple[Limit, ...]:
        """The limits that do not hold."""
        return tuple(limit for limit in self.limits if not limit.is_kept)


class Unlucky(Protocol):
    """Says what limits of response times come to in a run in which chance is against them."""

    def limits(
        self, rates_per_s: Sequence[float], plans: Sequence[Plan]
    ) -> Sequence[Sequence[Limit]]:
        """Return the limits by plan."""


@dataclass(frozen=True, eq=False)
class Assessor:
    """Assesses plans of one queue.

    Attributes
    ----------
    evaluator
        Says how long jobs take; None where only limits matter.
    """

    queue: Queue
    evaluator: Evaluator | None
    unlucky: Unlucky
    runs: UnluckyRun

    def assess(self, plan: Plan, *, load_factor: float = 1.0) -> Assessed:
        """Say what a plan comes to with so many times the load, even if the bucket runs dry."""
        return self._assessed([plan], load_factor, spared=(SPRINTS,))[0]

    def assess_all(self, plans: Sequence[Plan]) -> list[Assessed]:
        """Say what plans come to; response times only of those that keep all other limits."""
        return self._assessed(plans, 1.0, spared=())

    def _assessed(
        self, plans: Sequence[Plan], load_factor: float, spared: Sequence[str]
    ) -> list[Assessed]:
        rates = [c.rate_per_s * load_factor for c in self.queue.classes]
        begun = [self._begin(rates, plan) for plan in plans]
        usable = [
            i
            for i, assessed in enumerate(begun)
            if all(limit.what in spared for limit in assessed.violations)
        ]
        left = [plans[i] for i in usable]
        limits = self.unlucky.limits(rates, left)
        responses: Sequence[Sequence[Response]] = [()] * len(left)
        if self.evaluator is not None:
            responses = self.evaluator.responses(rates, left)
        for i, of_classes, of_plan in zip(usable, responses, limits, strict=True):
            begun[i] = self._end(begun[i], of_classes, of_plan)
        return begun

    def _begin(self, rates: Sequence[float], plan: Plan) -> Assessed:
        """Say what needs no response times."""
        load, power = load_of(rates, plan), mean_power(self.queue, rates, plan)
        classes = self.queue.classes
        limits = [Limit(LOAD, "", load, MOST_LOAD)]
        if self.queue.sprint.refill_w is not None:
            used_w = mean_power(self.queue, *self.runs.of(rates, plan)).sprint_w
            limits.append(Limit(SPRINTS, "", used_w, self.queue.sprint.refill_w))
        for c, option in zip(classes, plan, strict=True):
            if c.max_error is not None:
                limits.append(Limit(ERROR, c.name, option.error, c.max_error))
        error = sum(c.weight * option.error for c, option in zip(classes, plan, strict=True))
        return Assessed(plan, (), tuple(limits), error, math.inf, load, power)

    def _end(
        self, begun: Assessed, responses: Sequence[Response], limits: Sequence[Limit]
    ) -> Assessed:
        pairs = zip(self.queue.classes, responses, strict=False)
        return replace(
            begun,
            responses=tuple(responses),
            limits=(*begun.limits, *limits),
            latency_s=sum(c.weight * response.p95_s for c, response in pairs),
        )


@dataclass(frozen=True, eq=False)
class UnluckyRun:
    """A run of some jobs in which each rate and each mean time is at its 90 % quantile."""

    n_jobs: int
    known: dict[Option, Option] = field(default_factory=dict)

    def of(self, rates: Sequence[float], plan: Plan) -> tuple[list[float], Plan]:
        """Return the rates and the plan with longer jobs."""
        counts = [max(self.n_jobs * rate / sum(rates), 1.0) for rate in rates]
        more = [rate * _unlucky(1 / n) for rate, n in zip(rates, counts, strict=True)]
        slower = (self._slower(option, n) for option, n in zip(plan, counts, strict=True))
        return more, tuple(slower)

    def _slower(self, option: Option, n_jobs: float) -> Option:
        """Return an option with longer jobs; the same one for each plan that has it."""
        if option not in self.known:
            self.known[option] = option.slower(_unlucky(option.unsprinted.service.scv / n_jobs))
        return self.known[option]


@dataclass(frozen=True, eq=False)
class ByQuantiles:
    """Limits in a run with more and longer jobs than usual, by the figures of an evaluator."""

    queue: Queue
    evaluator: Evaluator
    runs: UnluckyRun

    def limits(self, rates_per_s: Sequence[float], plans: Sequence[Plan]) -> list[list[Limit]]:
        """Return the limits by plan."""
        classes = self.queue.classes
        if not plans or not has_latency_limits(self.queue):
            return [[] for _ in plans]
        unlucky = [self.runs.of(rates_per_s, plan) for plan in plans]
        is_endless = [load_of(more, plan) >= 1 for more, plan in unlucky]
        bearable = [
            plan for (_, plan), endless in zip(unlucky, is_endless, strict=True) if not endless
        ]
        found = iter(self.evaluator.responses(unlucky[0][0], bearable))
        without_end = [Response(math.inf, math.inf)] * len(classes)
        return [latency_limits(classes, without_end if e else next(found)) for e in is_endless]


def _unlucky(variance: float) -> float:
    """Return the 90 % quantile of something positive with the mean 1; not below that.

    A gamma distribution stays right where few jobs vary a lot: most runs then have no long one.

    >>> [round(_unlucky(variance), 2) for variance in (0.0, 0.01, 1.0, 30.0)]
    [1.0, 1.13, 2.3, 1.0]
    """
    if variance < 1e-12:
        return 1.0
    from scipy.special import gammaincinv

    return max(1.0, float(gammaincinv(1 / variance, _UNLUCKY)) * variance)


def seconds_text(value: float) -> str:
    """Write a response time with three digits.

    >>> seconds_text(10692.4), seconds_text(65.04), seconds_text(math.inf)
    ('10,700 s', '65 s', 'no end')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "no end"
    return f"{float(f'{value:.3g}'):,.10g} s"


def load_of(rates: Sequence[float], plan: Plan) -> float:
    """Return the share of time with a job."""
    return sum(rate * option.mean_s for rate, option in zip(rates, plan, strict=True))


def mean_power(queue: Queue, rates: Sequence[float], plan: Plan) -> Power:
    """Return the mean watts; power that is not given counts as 0."""
    sprint, load = queue.sprint, load_of(rates, plan)
    base_w = sprint.base_w or 0.0
    extra_w = max((sprint.sprint_w or base_w) - base_w, 0.0)
    idle_w = base_w if sprint.idle_w is None else sprint.idle_w
    sprinting = sum(rate * option.sprint_s for rate, option in zip(rates, plan, strict=True))
    busy_w = base_w * load + extra_w * sprinting
    return Power(extra_w * sprinting, busy_w, busy_w + idle_w * max(1 - load, 0.0))


def has_latency_limits(queue: Queue) -> bool:
    """Whether any class has a limit of its response time."""
    return any(c.mean_s is not None or c.p95_s is not None for c in queue.classes)


def latency_limits(classes: Sequence[JobClass], responses: Sequence[Response]) -> list[Limit]:
    """Return the limits of response times, and what they come to."""
    found = []
    for c, response in zip(classes, responses, strict=True):
        if c.mean_s is not None:
            found.append(Limit(MEAN, c.name, response.mean_s, c.mean_s))
        if c.p95_s is not None:
            found.append(Limit(P95, c.name, response.p95_s, c.p95_s))
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
