"""How far off predictions of co-runs are: measured errors by kind of co-run, for intervals."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from foretell.decide.corun.jobs import CoJob

#: Kinds of co-runs that have errors of their own.
PAIR, SHIFTED, RUNNING, TRIPLE, PINNED = "pair", "shifted", "running", "triple", "pinned"
GROUPS = (PAIR, SHIFTED, RUNNING, TRIPLE, PINNED)
CONFIDENCE = 0.9
#: With fewer, even the smallest and the largest are no interval of 90 %: those of all kinds count.
LEAST_ERRORS = 19


@dataclass(frozen=True)
class Calibration:
    """Logarithms of measured times relative to predicted ones, by kind of co-run.

    Attributes
    ----------
    source
        Where they were measured.
    """

    errors: Mapping[str, tuple[float, ...]]
    source: str

    @property
    def n_errors(self) -> int:
        """How many errors of all kinds there are."""
        return sum(map(len, self.errors.values()))

    def factors(self, group: str, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return by what a prediction is multiplied for the ends of its interval.

        Split-conformal quantiles of the errors: with n of them, the k-th smallest and largest,
        where k is (n + 1) times half of what lies outside.

        >>> errors = tuple(k / 100 for k in range(-50, 50))
        >>> low, high = Calibration({"pair": errors}, "").factors("pair")
        >>> round(math.log(low), 2), round(math.log(high), 2)
        (-0.46, 0.45)
        """
        own = sorted(self.errors.get(group, ()))
        if len(own) < LEAST_ERRORS:
            own = sorted(e for values in self.errors.values() for e in values)
        k = max(0, math.floor((len(own) + 1) * (1 - confidence) / 2) - 1)
        return math.exp(own[k]), math.exp(own[-1 - k])


def group_of(jobs: Sequence[CoJob]) -> str:
    """Return the kind of a co-run."""
    if any(job.cpus is not None for job in jobs):
        return PINNED
    if len(jobs) > 2:
        return TRIPLE
    if any(job.progress for job in jobs):
        return RUNNING
    return SHIFTED if len({job.start_s for job in jobs}) > 1 else PAIR


def n_measured(group: str) -> int:
    """Return how many jobs co-runs of a kind have."""
    return 3 if group == TRIPLE else 2


@cache
def shipped_calibration() -> Calibration | None:
    """Return the errors that foretell brings along, from its own study; None if there are none."""
    file = resources.files("foretell.corun") / "calibration.json"
    if not file.is_file():
        return None
    found = json.loads(file.read_text(encoding="utf-8"))
    return Calibration({g: tuple(e) for g, e in found["errors"].items()}, found["source"])


def coverage(
    errors: Sequence[float], calibration: Calibration, group: str, confidence: float = CONFIDENCE
) -> float:
    """Return the share of errors that an interval covers."""
    low, high = calibration.factors(group, confidence)
    ratios = np.exp(np.asarray(errors, float))
    return float(np.mean((ratios >= low) & (ratios <= high)))
