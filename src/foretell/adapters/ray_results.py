"""Results of Ray Tune as tables of runs: the configuration of each trial, and its last report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.dataset import PARAMETER, Dataset, as_numbers, level_of_setting
from foretell.errors import DatasetError
from foretell.files.content import read_content

if TYPE_CHECKING:
    import pandas as pd

RESULT, ITERATION = "result.json", "training_iteration"
_MOST_BYTES = 200_000_000
#: What Ray adds to each report, and is neither a setting nor a result of the training.
_OF_RAY = frozenset(
    {
        "date", "done", "experiment_id", "experiment_tag", "hostname", "node_ip", "pid",
        "should_checkpoint", "timestamp", "timesteps_total", "episodes_total",
        "timesteps_since_restore", "iterations_since_restore", "time_since_restore", "warmup_time",
        "trial_id", "checkpoint_dir_name", "agent_timesteps_total", "trial_log_path",
    }
)  # fmt: skip


def is_ray_folder(path: Path) -> bool:
    """Whether a folder holds results of Ray Tune: trials, or a file of the experiment."""
    if not path.is_dir():
        return False
    if any(path.glob("experiment_state-*.json")) or any(path.glob("tuner.pkl")):
        return True
    return (path / RESULT).is_file() or any(path.glob(f"*/{RESULT}"))


def read_ray_results(folder: str | Path) -> Dataset:
    """Read the trials of an experiment, one row each: settings, and the last report of each.

    Files are read as JSON; nothing in them is executed. Columns of the configuration are settings,
    nested ones with their path, as in ``optimizer/lr``; None and lists become texts. The rest are
    results; ``time_total_s`` is how long the trial took, and ``training_iteration`` how many
    reports it made.
    """
    import pandas as pd

    path = Path(folder)
    if not path.is_dir():
        raise DatasetError(
            f"there is no folder {path}; give the folder of an experiment of Ray Tune"
        )
    files = sorted({*path.glob(RESULT), *path.glob(f"*/{RESULT}")})
    rows: list[dict[str, Any]] = []
    roles: dict[str, str] = {}
    for file in files:
        last = _last_report(file)
        if last is None:
            continue
        config = {k: level_of_setting(v) for k, v in _flat(last.pop("config", {}))}
        results = {
            k: v
            for k, v in _flat(last)
            if k not in _OF_RAY and k not in config and isinstance(v, bool | int | float | str)
        }
        roles |= dict.fromkeys(config, PARAMETER) | dict.fromkeys(results, "measured")
        rows.append({**config, **results})
    if not rows:
        raise DatasetError(
            f"{path} has no results of Ray Tune: no folder in it has a {RESULT} with a report. "
            "Give the folder of an experiment, which has one folder for each trial."
        )
    frame = pd.DataFrame(rows)
    return Dataset(frame, str(folder), roles, notes=tuple(_notes_of_length(frame)))


def _notes_of_length(frame: pd.DataFrame) -> Iterator[str]:
    """Say so if some trials ended before others, as schedulers such as ASHA make them."""
    import numpy as np

    if ITERATION not in frame.columns:
        return
    made = as_numbers(frame[ITERATION])
    made = made[np.isfinite(made)]
    early = sorted(int(n) for n in made if n < made.max())
    if early:
        ends = dict.fromkeys((f"{early[0]:,}", f"{early[-1]:,}"))
        yield (
            f"{len(early)} of {len(made)} trials ended early: after {' to '.join(ends)} of "
            f"{int(made.max()):,} iterations. Totals such as time_total_s, and the last "
            "value of a quality, then tell how long trials were let run, not what settings do. "
            "Judge time_this_iter_s, or whole trials only."
        )


def _last_report(file: Path) -> dict[str, Any] | None:
    """Return the last whole line of reports; a trial that was killed may have a broken one."""
    lines = read_content(file, _MOST_BYTES).splitlines()
    for line in reversed(lines):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    return None


def _flat(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """List the values of nested mappings, each with its path."""
    if not isinstance(values, Mapping):
        return
    for key, value in values.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}/")
        else:
            yield name, value
