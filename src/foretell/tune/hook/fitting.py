"""The process that fits the model of a job's epoch times, at the lowest priority."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from foretell.executors.cores import limit_threads
from foretell.tune.gaps import without_gaps
from foretell.tune.hook.background import fitting_row, job_key, models_folder
from foretell.tune.store import EpochRow, open_store
from foretell.tune.store.rows import WARM_UP

if TYPE_CHECKING:
    import pandas as pd

_TIME_LIMIT_S = 60.0
_MOST_ROWS = 1000


def fit_epochs(store: Path, job: str) -> Path | None:
    """Fit the newest epochs of a job, and put the model beside the store; None if none is made."""
    from foretell.model.directory import BEST
    from foretell.model.fit import fit_model

    with open_store(store) as opened:
        rows = opened.rows(job, most=_MOST_ROWS)
        n_rows = opened.n_rows(job)
    table = _table(rows)
    if table is None:
        return None
    folder = models_folder(store)
    with tempfile.TemporaryDirectory(dir=folder) as output:
        fit_model(table, target="epoch_s", output=output, time_limit_s=_TIME_LIMIT_S, seed=0)
        made = folder / f"{job_key(job)}-{n_rows}.foretell"
        (Path(output) / BEST).replace(made)
    for old in folder.glob(f"{job_key(job)}-*.foretell"):
        if old != made:
            old.unlink(missing_ok=True)
    return made


def _table(rows: list[EpochRow]) -> pd.DataFrame | None:
    """Return epochs as a table without gaps; None if nothing in it varies."""
    import pandas as pd

    if not rows:
        return None
    records = [
        {
            **fitting_row(r.hyper, {k: v for k, v in r.system.items() if k != "cpus"},
                          is_warm_up=r.phase == WARM_UP, is_shared=r.n_siblings > 0),
            "epoch_s": r.epoch_s,
        }
        for r in rows
    ]  # fmt: skip
    table, _ = without_gaps(pd.DataFrame(records), "epoch_s")
    return table if len(table.columns) > 1 else None


def main(store: str, job: str) -> None:
    """Fit, and give the lock back."""
    with contextlib.suppress(OSError):
        os.nice(19)
    path = Path(store)
    try:
        limit_threads()
        fit_epochs(path, job)
    finally:
        (models_folder(path) / f"{job_key(job)}.lock").unlink(missing_ok=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
