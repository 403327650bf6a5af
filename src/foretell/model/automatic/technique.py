"""Ensemble as a technique: what automatic mode fits, for campaigns."""

from __future__ import annotations

from foretell.model.automatic.bench import Bench, fit_member, rehearse
from foretell.model.automatic.ensemble import NAME, EnsembleRegressor
from foretell.model.automatic.members import USUAL, read_members
from foretell.model.techniques import Hyperparameter, Params, Technique, TrainingRows


class EnsembleTechnique(Technique):
    """Fit every member, rehearse the questions, and weigh the members by the answers."""

    name = NAME
    regressor = EnsembleRegressor
    needs_units = True
    weighs_rows = True
    hyperparameters = (
        Hyperparameter("members", list(USUAL), read_members, is_list=True, has_words=True),
    )

    def fit(self, prepared: TrainingRows, params: Params, seed: int) -> EnsembleRegressor:
        """Fit one member after the other."""
        bench = Bench.of(prepared, params["members"], seed)
        fits = {job.member: fit_member(bench, job) for job in bench.jobs()}
        return bench.assemble(fits, rehearse(bench, fits)).regressor
