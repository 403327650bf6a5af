"""Studies of Optuna as tables of runs: parameters, values, and how long trials took."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.dataset import PARAMETER, Dataset, level_of_setting
from foretell.errors import DatasetError, Option, UsageError, error_lines, listing, suggest
from foretell.files.text_file import near_file
from foretell.wording import counted

if TYPE_CHECKING:
    import optuna

#: The schemes of storages; sqlite may name a driver, as sqlite+pysqlite does.
_STORAGE = re.compile(r"^[a-z][a-z0-9+]*://", re.IGNORECASE)
VALUE, DURATION = "value", "duration_s"


def is_storage(source: str) -> bool:
    """Whether a text is the address of a storage of Optuna.

    >>> is_storage("sqlite:///study.db"), is_storage("runs.csv")
    (True, False)
    """
    return bool(_STORAGE.match(source))


def read_optuna_study(url: str, name: str | None = None) -> Dataset:
    """Read the finished trials of a study, one row each.

    Columns are the parameters, ``value`` (with several objectives, ``value_0`` and so on, or their
    names), and ``duration_s``. Numbers that trials stored as user attributes are results as well.
    Parameters that are None or a list become texts. Which values are better is that of the study.

    Parameters
    ----------
    url
        The address of the storage, such as ``sqlite:///study.db``.
    name
        The name of the study; not needed if the storage has one.
    """
    import pandas as pd

    study = _load(url, name)
    found = study.get_trials(deepcopy=False)
    trials = [t for t in found if t.state.name == "COMPLETE"]
    if not trials:
        raise DatasetError(
            f"the study '{study.study_name}' has no finished trial; run it first, or name another"
        )
    names = _value_names(study)
    rows: list[dict[str, Any]] = []
    roles: dict[str, str] = {}
    for trial in trials:
        values = dict(zip(names, trial.values or (), strict=False))
        took = trial.duration
        values[DURATION] = float("nan") if took is None else took.total_seconds()
        values |= {k: v for k, v in trial.user_attrs.items() if _is_number(v)}
        own = {k: v for k, v in values.items() if k not in trial.params}
        roles |= dict.fromkeys(trial.params, PARAMETER) | dict.fromkeys(own, "measured")
        rows.append({**{k: level_of_setting(v) for k, v in trial.params.items()}, **own})
    sides = ["higher" if d.name == "MAXIMIZE" else "lower" for d in study.directions]
    better = dict(zip(names, sides, strict=True))
    left_out = Counter(t.state.name.lower() for t in found if t.state.name != "COMPLETE")
    notes = [
        f"{n} of {counted(len(found), 'trial')} left out, which did not come to the end: {state}."
        for state, n in sorted(left_out.items())
    ]
    name = f"study '{study.study_name}'"
    return Dataset(pd.DataFrame(rows), name, roles, better=better, notes=notes)


def _value_names(study: optuna.Study) -> list[str]:
    n = len(study.directions)
    if n == 1:
        return [VALUE]
    return list(study.metric_names or [f"{VALUE}_{i}" for i in range(n)])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _load(url: str, name: str | None) -> optuna.Study:
    import optuna

    _check_file(url)
    try:
        # By default Optuna writes its tables into any database.
        storage = optuna.storages.RDBStorage(url, skip_table_creation=True)
        known = optuna.get_all_study_names(storage)
    except Exception as error:  # whatever a database or its driver raises
        reason = error_lines(error.__cause__ or error)[0]
        raise UsageError(
            f"{url} cannot be read as a storage of Optuna: {reason}; check the address"
        ) from None
    if not known:
        raise UsageError(f"{url} has no study; run one with this storage first")
    if name is None:
        if len(known) > 1:
            raise UsageError(
                f"{url} has several studies: {listing(known)}",
                remedy=("name one with ", Option("study", known[0])),
            )
        name = known[0]
    if name not in known:
        raise UsageError(f"{url} has no study '{name}'. {suggest(name, known)}")
    return optuna.load_study(study_name=name, storage=storage)


def _check_file(url: str) -> None:
    """Refuse a database file that is not there; its driver would make an empty one."""
    scheme, _, rest = url.partition("://")
    if not scheme.lower().startswith("sqlite") or not rest.startswith("/"):
        return
    named = rest[1:].partition("?")[0].removeprefix("file:")
    path = Path(named)
    if named and not path.exists():
        raise UsageError(f"there is no file {path}{near_file(path) or '; check the address'}")
