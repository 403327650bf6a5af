"""Ensemble as a technique: what automatic mode fits, for campaigns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from foretell.executors import SerialExecutor
from foretell.model.automatic.bench import Bench, FitTask, answer, fit_member
from foretell.model.automatic.ensemble import NAME, EnsembleRegressor
from foretell.model.automatic.members import USUAL, read_members
from foretell.model.techniques import Hyperparameter, Params, TrainingRows
from foretell.model.techniques._base import LogTechnique


class EnsembleTechnique(LogTechnique):
    """Fit every member, rehearse the questions, and weigh the members by the answers."""

    name = NAME
    regressor = EnsembleRegressor
    hyperparameters = (
        Hyperparameter("members", list(USUAL), read_members, is_list=True, has_words=True),
    )

    def fit(self, prepared: TrainingRows, params: Params, seed: int) -> EnsembleRegressor:
        """Fit one member after the other."""
        bench = Bench.of(prepared, params["members"], seed)
        voters = (FitTask(name) for name in bench.voters)
        fits = {task.member: fitted for task, fitted in _run(bench, fit_member, voters)}
        answers: dict[int, dict[str, Any]] = {}
        for task, log_y in _run(bench, answer, bench.rehearsals(fits)):
            answers.setdefault(task.fold, {})[task.member] = log_y
        return bench.assemble(fits, answers).regressor


def _run(
    bench: Bench, work: Callable[[Bench, FitTask], Any], tasks: Iterable[FitTask]
) -> Iterable[tuple[Any, Any]]:
    """Run tasks here, and raise the first error."""
    for task, result, *_ in SerialExecutor(bench).run(work, tasks):
        if isinstance(result, Exception):
            raise result
        yield task, result
