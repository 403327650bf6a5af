"""When steps of Optuna trials were reported: kept in the storage, which processes share."""

from __future__ import annotations

from datetime import datetime

import optuna

KEY = "foretell:elapsed_s"


def note_step(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> dict[int, float]:
    """Keep how many seconds after its start a trial reported its latest step; return all."""
    known = elapsed_by_step(trial)
    step = trial.last_step
    if step is None or trial.datetime_start is None or step in known:
        return known
    known[step] = (datetime.now() - trial.datetime_start).total_seconds()
    # Optuna's own pruners keep what they know of a trial in the same way.
    study._storage.set_trial_system_attr(
        trial._trial_id, KEY, {str(s): round(t, 4) for s, t in known.items()}
    )
    return known


def elapsed_by_step(trial: optuna.trial.FrozenTrial) -> dict[int, float]:
    """Return the seconds from the start of a trial to each of its steps, where known."""
    return {int(s): float(t) for s, t in trial.system_attrs.get(KEY, {}).items()}
