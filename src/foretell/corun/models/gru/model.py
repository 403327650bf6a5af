"""The sequence-to-sequence model behind the interface of all models of co-runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from foretell.corun.models.gru.network import CROSSING, Array, end_step, run
from foretell.corun.models.gru.sequences import HORIZON, sequence_of
from foretell.corun.models.gru.train import GruOptions, masked, train_network

if TYPE_CHECKING:
    from foretell.corun.models.cases import Case


class GruModel:
    """Predicts the trace of a job beside its neighbors, and where the job ends in it."""

    name: ClassVar[str] = "GRU"

    def __init__(
        self, options: GruOptions | None = None, *, rule: str = CROSSING, n_seeds: int = 1
    ) -> None:
        self._options, self._rule = options or GruOptions(), rule
        self._n_seeds = n_seeds
        self.networks: list[dict[str, Array]] = []

    @classmethod
    def of(cls, network: Mapping[str, Array]) -> GruModel:
        """Return the model that a file holds."""
        found = cls()
        found.networks = [dict(network)]
        return found

    def fit(self, cases: Sequence[Case]) -> None:
        """Train one network per seed; their ends are averaged."""
        from dataclasses import replace

        seeds = range(self._options.seed, self._options.seed + self._n_seeds)
        self.networks = [train_network(cases, replace(self._options, seed=s)) for s in seeds]

    def predict(self, case: Case) -> list[float]:
        """Return how long each job takes, from its start."""
        return self.predict_by(case, self._rule)

    def predict_by(self, case: Case, rule: str, horizon: int = HORIZON) -> list[float]:
        """Return how long each job takes if a rule decides where the sequence stops."""
        begin = min(job.start_s for job in case.jobs)
        found = []
        for k, job in enumerate(case.jobs):
            sequence = sequence_of(case, k)
            inputs = masked(sequence.inputs, self._options)
            steps = [end_step(run(n, inputs, horizon), rule)[0] for n in self.networks]
            end = begin + sequence.step_s * float(np.mean(steps))
            found.append(max(end - job.start_s, 1e-3))
        return found
