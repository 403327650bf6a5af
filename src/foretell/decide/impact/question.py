"""What is asked about an impact: which column is judged, by which levels, and which is which."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any

from foretell.errors import Option, UsageError, listing, suggest

LOWER, HIGHER = "lower", "higher"
#: From which range on a setting matters much, and from which it matters, of times and of qualities.
USUAL_LEVELS, QUALITY_LEVELS = (0.20, 0.10), (0.05, 0.01)
#: Words in names of rates and of qualities, of which more is better.
_RATE_WORDS = {"throughput", "speedup", "bandwidth", "fps", "qps", "rps"}
_QUALITY_WORDS = {
    "accuracy", "acc", "score", "auc", "auroc", "auprc", "f1", "r2", "precision", "recall", "iou",
    "miou", "dice", "bleu", "rouge", "ndcg", "psnr", "ssim", "silhouette", "reward", "return",
}  # fmt: skip
#: Words in names of qualities of which less is better, and of what a run takes.
_LOSS_WORDS = {
    "loss", "losses", "logloss", "error", "errors", "rmse", "mse", "mae", "perplexity", "wer",
    "regret",
}  # fmt: skip
_COST_WORDS = {"time", "duration", "latency", "energy", "cost", "costs"}
#: What may be needed to get somewhere, as in time_to_accuracy.
_EFFORT_WORDS = _COST_WORDS | {
    "seconds", "minutes", "hours", "epoch", "epochs", "step", "steps", "iteration", "iterations",
    "iters", "updates", "rounds", "trials", "episodes", "samples", "examples", "tokens",
    "evaluations",
}  # fmt: skip
#: How names of rates end, and names of what a run takes, of which less is always better.
_RATES = re.compile(r"(_per_s|_per_sec|_per_second|_per_min|_per_h|/s)$")
_UNITS = {
    "s", "ms", "us", "ns", "min", "h", "j", "kj", "mj", "wh", "kwh", "w", "kw",
    "bytes", "kb", "mb", "gb", "kib", "mib", "gib",
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """A column that settings may change.

    Attributes
    ----------
    high, medium
        From which range on the impact of a setting is high, and medium.
    is_ratio
        Whether values differ by factors, as times do, rather than by amounts, as qualities do.
    """

    name: str
    is_lower_better: bool
    high: float
    medium: float
    is_ratio: bool = True


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]


def _rises(name: str) -> bool:
    """Whether more is better of a target, as far as its name tells.

    >>> [_rises(name) for name in ("samples_per_s", "time_per_step_s", "test_accuracy", "energy_j")]
    [True, False, True, False]
    """
    is_quality = _has(_QUALITY_WORDS, name) and not _has(_LOSS_WORDS, name)
    return _is_rate(name) or (is_quality and not _is_effort(name))


def _falls(name: str) -> bool:
    """Whether less is better of a quality, as far as its name tells.

    >>> [_falls(name) for name in ("energy_j", "val_loss", "latency_p99", "f1", "images_per_s")]
    [True, True, True, False, False]
    """
    words = _words(name)
    is_cost = _is_effort(name) or (words[-1] in _UNITS if words else False)
    return not _rises(name) and (is_cost or bool((_LOSS_WORDS | _COST_WORDS) & set(words)))


def _is_rate(name: str) -> bool:
    """Whether a name is that of a rate of which more is better; time per second is a speed.

    >>> [_is_rate(name) for name in ("images_per_s", "errors_per_s", "simulated_time_per_s")]
    [True, False, True]
    """
    words = set(_words(name))
    bad = (_COST_WORDS | _LOSS_WORDS) & words
    if _RATES.search(name.lower()):
        return bad <= {"time"}
    return bool(_RATE_WORDS & words) and not bad


def _is_effort(name: str) -> bool:
    """Whether a name is that of what it takes to get somewhere: what follows is not judged.

    >>> [_is_effort(name) for name in ("epochs_to_accuracy", "image_to_text_score")]
    [True, False]
    """
    return any(word in _EFFORT_WORDS and to == "to" for word, to in pairwise(_words(name)))


def _has(words: set[str], name: str) -> bool:
    """Whether a name has one of some words, and does not end as that of what a run takes.

    What ends in min may be a minimum, too: then the word before counts.

    >>> [_has({"score"}, name) for name in ("score_min", "score_s", "score_time", "score_time_min")]
    [True, False, False, False]
    """
    found = _words(name)
    ends = found[-2:] if found[-1:] == ["min"] else found[-1:]
    return bool(words & set(found)) and not (_UNITS - {"min"} | _COST_WORDS) & set(ends)


@dataclass(frozen=True)
class CostRule:
    """What a run costs: hours × machines × price, and GB that leave × their price.

    Attributes
    ----------
    machines, out_gb
        A number, or the column that holds it.
    """

    price_per_hour: float = 0.0
    machines: float | str = 1.0
    price_per_gb: float = 0.0
    out_gb: float | str = 0.0

    def __post_init__(self) -> None:
        for name in ("price_per_hour", "machines", "price_per_gb", "out_gb"):
            value = getattr(self, name)
            if not isinstance(value, str) and not (math.isfinite(value) and value >= 0):
                raise UsageError(f"must be at least 0, not {value:g}", option=Option(name))

    @property
    def is_free(self) -> bool:
        """Whether nothing costs anything, because no price is known."""
        return not (self.price_per_hour or self.price_per_gb)

    @property
    def columns(self) -> list[str]:
        """The columns that it depends on."""
        if self.is_free:
            return []
        return [figure for figure in (self.machines, self.out_gb) if isinstance(figure, str)]


@dataclass(frozen=True)
class ImpactQuestion:
    """What to find out.

    Attributes
    ----------
    target, quality
        The columns that are judged; a quality is judged by levels of its own.
    by
        The columns that tell workloads apart; each workload is looked at on its own.
    system, hyper
        Settings of the system, and of what runs on it.
    skip
        Columns that are not settings.
    levels
        By column, from which ranges on an impact is high and medium.
    better
        By column, ``lower`` or ``higher``, where its name does not tell which is better.
    baseline
        The usual value of settings; by default the most frequent one.
    """

    target: str
    quality: str | None = None
    by: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    hyper: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    levels: Mapping[str, Sequence[float]] = field(default_factory=dict)
    better: Mapping[str, str] = field(default_factory=dict)
    baseline: Mapping[str, Any] = field(default_factory=dict)
    cost: CostRule = field(default_factory=CostRule)
    seed: int = 0

    @classmethod
    def of(cls, target: str, **asked: Any) -> ImpactQuestion:
        """Check what is asked; a single name may stand for a list of names."""
        known = [f.name for f in fields(cls)]
        prices = {f.name for f in fields(CostRule)}
        cost = CostRule(**{name: asked.pop(name) for name in list(asked) if name in prices})
        for name in asked:
            if name not in known:
                raise UsageError(f"there is no option '{name}'. {suggest(name, known)}")
        for name in ("by", "system", "hyper", "skip"):
            given = asked.get(name) or ()
            asked[name] = (given,) if isinstance(given, str) else tuple(given)
        return cls(target=target, cost=cost, **asked)

    def __post_init__(self) -> None:
        if self.quality == self.target:
            raise UsageError(
                f"'{self.target}' is the target already", option=Option("quality", self.quality)
            )
        for name, others in (("hyper", self.system), ("by", (*self.system, *self.hyper))):
            for column in getattr(self, name):
                if column in others:
                    raise UsageError(
                        f"'{column}' is given twice; choose one", option=Option(name, column)
                    )
        judged = (self.target, self.quality)
        for name in ("by", "system", "hyper", "skip"):
            if twice := [c for c in getattr(self, name) if c in judged]:
                raise UsageError("it is what is judged", option=Option(name, twice[0]))
        self._check_levels()
        self._check_better()
        if self.seed < 0:
            raise UsageError(f"must be at least 0, not {self.seed}", option=Option("seed"))

    def informed(self, better: Mapping[str, str]) -> ImpactQuestion:
        """Take which is better from the source of the runs, where that was not asked.

        A target that it maximizes is a quality, unless its name is that of a rate.
        """
        known = {n: side for n, side in better.items() if n in (self.target, self.quality)}
        levels = dict(self.levels)
        if known.get(self.target) == HIGHER and not _is_rate(self.target):
            levels.setdefault(self.target, QUALITY_LEVELS)
        return replace(self, better=known | dict(self.better), levels=levels)

    def _check_levels(self) -> None:
        for column, given in self.levels.items():
            option = Option("levels", ",".join(f"{x:g}" for x in given), key=column)
            self._check_judged(column, option)
            if len(given) != 2 or not 0 < given[1] < given[0]:
                raise UsageError(
                    "levels are two ranges, from which on an impact is high, and medium, such as "
                    "0.2,0.1",
                    option=option,
                )

    def _check_better(self) -> None:
        for column, side in self.better.items():
            option = Option("better", side, key=column)
            self._check_judged(column, option)
            if side not in (LOWER, HIGHER):
                raise UsageError(f"'{side}' must be {LOWER} or {HIGHER}", option=option)

    def _check_judged(self, column: str, option: Option) -> None:
        judged = [o.name for o in self._judged()]
        if column not in judged:
            raise UsageError(
                f"'{column}' is not judged, only {listing(judged)}. {suggest(column, judged)}",
                option=option,
            )

    def _judged(self) -> list[Outcome]:
        """Return the target and the quality as their names tell."""
        is_other = _is_rate(self.target) or _is_effort(self.target)
        is_quality = _has(_QUALITY_WORDS | _LOSS_WORDS, self.target) and not is_other
        levels = QUALITY_LEVELS if is_quality else USUAL_LEVELS
        found = [Outcome(self.target, not _rises(self.target), *levels)]
        if self.quality is not None:
            falls = _falls(self.quality)
            found.append(Outcome(self.quality, falls, *QUALITY_LEVELS, is_ratio=False))
        return found

    @property
    def outcomes(self) -> list[Outcome]:
        """The target, and the quality if there is one, with their levels."""
        found = []
        for outcome in self._judged():
            side = self.better.get(outcome.name)
            high, medium = self.levels.get(outcome.name, (outcome.high, outcome.medium))
            is_lower = outcome.is_lower_better if side is None else side == LOWER
            found.append(replace(outcome, is_lower_better=is_lower, high=high, medium=medium))
        return found
