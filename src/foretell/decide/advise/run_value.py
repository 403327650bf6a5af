"""The value of a run: how likely it changes the plan, and how much better the plan then gets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from foretell.decide.advise.belief.error_field import Array, ErrorField
from foretell.decide.plan.assess import Figures
from foretell.decide.plan.choose import PlanChooser
from foretell.decide.question.objective import LIMITS

#: A smaller improvement does not count as a change of the plan.
WORTH = 0.01
#: Exceeding a limit counts this much more than exceeding the objective.
_PENALTY = 5.0
#: A configuration that is at most half as much worse than the plan may be better after all; a log.
_CLOSE = math.log(1.5)
_N_OUTCOMES = 64
_TOLERANCE = 1e-9
_OUT_OF_REACH = 1e6


@dataclass(frozen=True)
class Worth:
    """What one run may bring.

    Attributes
    ----------
    chance
        The probability that a configuration is chosen after it that is better by more than WORTH.
    gain
        The expected improvement of the plan, as a share of its objective.
    instead
        The position of the configuration that would be chosen most often then; None for none.
    """

    chance: float
    gain: float
    instead: int | None = None


@dataclass(frozen=True)
class Choice:
    """The configurations that may be chosen, and what is known of the errors there.

    Attributes
    ----------
    fields
        By kind of quantity: the errors at these configurations first, then at all runs that may be
        made.
    is_allowed
        Which may be chosen now; the others only after they were measured.
    is_doubtful
        Which are compared by what they exceed with the probability of the risk, until a run of them
        was made.
    place_of
        For each run, the position of the same configuration among the choices, or -1.
    """

    figures: Figures
    chooser: PlanChooser
    fields: Mapping[str, ErrorField]
    is_allowed: NDArray[np.bool_]
    is_doubtful: NDArray[np.bool_]
    place_of: NDArray[np.int64]
    seed: int

    def __len__(self) -> int:
        return len(self.figures)

    @cached_property
    def _deviates(self) -> Array:
        """How far off runs may be, in standard deviations: evenly spread, a column per quantity."""
        from scipy.stats import norm

        shares = (np.arange(_N_OUTCOMES) + 0.5) / _N_OUTCOMES
        rng = np.random.default_rng([self.seed, 2])
        columns = [norm.ppf(shares)]
        columns += [norm.ppf(rng.permutation(shares)) for _ in range(len(self.fields) - 1)]
        return np.column_stack(columns)

    @cached_property
    def _caution(self) -> Array:
        """How many deviations above its mean each choice is compared at while it is doubtful."""
        question, z = self.chooser.question, NormalDist().inv_cdf
        is_cautious = self.figures.is_far & (not question.allow_far)
        return np.where(is_cautious, z(question.pessimistic), z(question.compared))

    @cached_property
    def _now(self) -> dict[str, tuple[Array, Array, Array]]:
        """By quantity, in logs: what is expected, how much more it may be, and the variance."""
        found = {}
        for kind, known in self.figures.known.items():
            value = np.log(known.value)
            risk = np.log(known.quantiles.at(self.chooser.question.confidence)) - value
            field = self.fields[kind]
            mean, variance = field.mean[: len(self)], field.variance[: len(self)] + field.noise**2
            found[kind] = (value + mean, risk, variance)
        return found

    @cached_property
    def _score(self) -> Array:
        """The score by which a configuration is chosen now; less is better."""
        known = {
            kind: (value[None], risk[None], np.sqrt(variance)[None])
            for kind, (value, risk, variance) in self._now.items()
        }
        score: Array = self._scores(known, self.is_allowed, self.is_doubtful)[0][0]
        return score

    @cached_property
    def ranked(self) -> list[int]:
        """The positions of all that may be chosen now, the best first."""
        order = np.argsort(self._score, kind="stable")
        return [int(place) for place in order if self.is_allowed[place]]

    def is_close(self, place: int) -> bool:
        """Say whether a configuration is not much worse than the chosen one."""
        return bool(self._score[place] - self._score[self.chosen] <= _CLOSE)

    @property
    def chosen(self) -> int:
        """The position of the configuration that is chosen now."""
        return self.ranked[0]

    def worth(self, run: int) -> Worth:
        """Simulate the possible results of a run, and what would be chosen after each."""
        known = {}
        for column, (kind, (value, risk, variance)) in enumerate(self._now.items()):
            effect = self.fields[kind].effect(len(self) + run)[: len(self)]
            left = np.sqrt(np.maximum(variance - effect**2, _TOLERANCE * variance))
            moved = value + np.outer(self._deviates[:, column], effect)
            known[kind] = (moved, risk * left / np.sqrt(variance), left)
        allowed, doubtful = self.is_allowed.copy(), self.is_doubtful.copy()
        place = int(self.place_of[run])
        if place >= 0:
            allowed[place], doubtful[place] = True, False
        score, loss = self._scores(known, allowed, doubtful)
        best = score.argmin(axis=1)
        better = loss[:, self.chosen] - loss[np.arange(len(loss)), best]
        is_other = (best != self.chosen) & (better > WORTH)
        instead = int(np.bincount(best[is_other]).argmax()) if is_other.any() else None
        gain = -float(np.expm1(-np.maximum(better, 0.0)).mean())
        return Worth(float(is_other.mean()), gain, instead)

    def much_better(self, share: float) -> Array:
        """Return for each choice the probability that it is the best and much better than the plan.

        The sum is the probability that the plan is far from the best. ``share``: how much better.
        """
        score, _ = self._drawn
        best = score.argmin(axis=1)
        is_much = score[np.arange(len(score)), best] < score[:, self.chosen] + np.log1p(-share)
        found: Array = np.bincount(best[is_much], minlength=len(self)) / len(score)
        return found

    @property
    def can_keep_limits(self) -> float:
        """The probability that any configuration keeps all limits."""
        score, _ = self._drawn
        return float((score.min(axis=1) < _OUT_OF_REACH).mean())

    @cached_property
    def improvements(self) -> Array:
        """By how much each choice may be better than what is expected of the plan, as a share.

        The mean over all draws, in which one that is not better counts as 0. Of the plan: by how
        much the next best may be better than it, beyond what is expected.
        """
        _, loss = self._drawn
        expected = loss.mean(axis=0)
        found: Array = _share(expected[self.chosen] - loss).mean(axis=0)
        if len(self) > 1:
            worse = loss[:, self.chosen] - np.delete(expected, self.chosen).min()
            found[self.chosen] = _share(worse).mean() - _share(worse.mean())
        return found

    @cached_property
    def _drawn(self) -> tuple[Array, Array]:
        """Possible scores and losses of each choice, a row per draw; whatever may be chosen now."""
        known = {}
        for kind, (value, risk, variance) in self._now.items():
            off = self.fields[kind].drawn[:, : len(self)]
            known[kind] = (value + off, np.zeros_like(risk), np.sqrt(variance))
        allowed = np.ones(len(self), dtype=bool)
        return self._scores(known, allowed, np.zeros(len(self), dtype=bool))

    def narrowing(self, run: int) -> Worth:
        """Say by what share a run narrows the interval of the first configuration."""
        shares = []
        for kind, (_, _, variance) in self._now.items():
            effect = self.fields[kind].effect(len(self) + run)[0]
            shares.append(1 - np.sqrt(max(variance[0] - effect**2, 0.0) / variance[0]))
        return Worth(0.0, float(np.mean(shares)))

    def _scores(
        self,
        known: Mapping[str, tuple[Array, Array, Array]],
        allowed: NDArray[np.bool_],
        doubtful: NDArray[np.bool_],
    ) -> tuple[Array, Array]:
        """Return the score and the loss of each choice: a row per outcome; less is better.

        A choice that keeps all limits has a better score than any that exceeds one.
        """
        question = self.chooser.question
        risky = {kind: np.exp(value + risk) for kind, (value, risk, _) in known.items()}
        caution = self._caution * doubtful
        objective, cautious = (
            np.log(np.maximum(self.figures.figure(self.chooser.minimize, values), 1e-300))
            for values in (
                {kind: np.exp(value) for kind, (value, _, _) in known.items()},
                {kind: np.exp(value + caution * off) for kind, (value, _, off) in known.items()},
            )
        )
        missed = np.zeros_like(objective)
        for word, most in question.limits.items():
            excess = np.log(self.figures.figure(LIMITS[word], risky) / most)
            missed = np.maximum(missed, excess)
        score = np.where(missed > _TOLERANCE, _OUT_OF_REACH + missed, cautious)
        return np.where(allowed, score, np.inf), objective + _PENALTY * missed


def _share(better: Array) -> Array:
    """Return logs of factors by which something is better as shares; 0 where it is worse."""
    found: Array = -np.expm1(-np.maximum(better, 0.0))
    return found
