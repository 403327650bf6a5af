"""Searches propose hyperparameters and receive their scores: a grid, or Optuna's TPE."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from foretell.errors import UsageError
from foretell.model.campaigns.search.priors import Prior
from foretell.model.campaigns.search.space import priors_in
from foretell.model.techniques import Technique, complete

#: Random trials before TPE uses scores: a quarter of the budget, from 2 to 10.
_STARTUP_SHARE, _MOST_STARTUP = 4, 10
#: Trials per batch. Fixed, so that the number of workers never changes the search.
_BATCH = 2
_MOST_DRAWS = 100


class Search(ABC):
    """One search over the space of one technique; equal scores give equal proposals."""

    @property
    @abstractmethod
    def n_trials(self) -> int:
        """Total number of trials."""

    @abstractmethod
    def propose(self) -> list[dict[str, Any]]:
        """Return the next batch to try; empty at the end of the search."""

    @abstractmethod
    def tell(self, scores: Sequence[float]) -> None:
        """Report the scores of the last batch, in its order; infinity for a failed trial."""


class GridSearch(Search):
    """Try every combination, in one batch or in smaller ones for racing."""

    def __init__(self, combinations: list[dict[str, Any]], *, batch_size: int | None = None):
        self._combinations = combinations
        self._batch_size = batch_size or len(combinations)
        self._next = 0

    @property
    def n_trials(self) -> int:
        """Number of combinations."""
        return len(self._combinations)

    def propose(self) -> list[dict[str, Any]]:
        """Return the next batch of combinations."""
        batch = self._combinations[self._next : self._next + self._batch_size]
        self._next += len(batch)
        return batch

    def tell(self, scores: Sequence[float]) -> None:
        """Ignore the scores: the grid is fixed."""


class TPESearch(Search):
    """Search the priors of one combination; the seed and the scores determine the proposals."""

    def __init__(
        self,
        technique: type[Technique] | Technique,
        combination: Mapping[str, Any],
        *,
        n_trials: int,
        seed: int,
    ) -> None:
        import optuna

        self._technique = technique
        self._combination = combination
        self._priors = priors_in(combination)
        self._n_trials = n_trials if self._priors else 1
        self._n_proposed = 0
        self._failed = optuna.trial.TrialState.FAIL
        startup = max(2, min(_MOST_STARTUP, n_trials // _STARTUP_SHARE))
        sampler = optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=startup, constant_liar=True
        )
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(sampler=sampler, direction="minimize")
        optuna.logging.set_verbosity(verbosity)
        self._asked: list[Any] = []

    @property
    def n_trials(self) -> int:
        """Number of trials; one if there is no prior to search."""
        return self._n_trials

    def propose(self) -> list[dict[str, Any]]:
        """Ask TPE for the next batch."""
        size = min(_BATCH, self._n_trials - self._n_proposed)
        self._n_proposed += size
        drawn = [self._draw_valid() for _ in range(size)]
        self._asked = [trial for trial, _ in drawn]
        return [params for _, params in drawn]

    def tell(self, scores: Sequence[float]) -> None:
        """Report the scores of the last batch to TPE."""
        for trial, value in zip(self._asked, scores, strict=True):
            if value == float("inf"):
                self._study.tell(trial, state=self._failed)
            else:
                self._study.tell(trial, value)

    def _draw_valid(self) -> tuple[Any, dict[str, Any]]:
        """Draw until every value is valid: normal(1, 1) can be negative, for example."""
        reason = ""
        for _ in range(_MOST_DRAWS):
            trial = self._study.ask()
            drawn = {name: _draw(trial, name, prior) for name, prior in self._priors.items()}
            try:
                return trial, complete(self._technique, {**self._combination, **drawn})
            except ValueError as error:
                reason = str(error)
                self._study.tell(trial, math.inf)  # so that TPE avoids this region
        raise UsageError(
            f"{self._technique.name}: {_MOST_DRAWS} draws in a row gave no valid value ({reason}); "
            "narrow the prior"
        )


def _draw(trial: Any, name: str, prior: Prior) -> Any:
    if prior.options is not None:
        # Draw positions: Optuna needs scalar categories, and these may be lists.
        return prior.options[trial.suggest_categorical(name, range(len(prior.options)))]
    if prior.whole_bounds is not None:
        low, high = prior.whole_bounds
        return prior.shape(trial.suggest_int(name, low, high))
    assert prior.bounds is not None
    return prior.shape(trial.suggest_float(name, *prior.bounds, log=prior.is_log))
