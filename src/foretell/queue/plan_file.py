"""A chosen plan as a class file, which `predict` and `run` take."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from foretell.decide.queueing.assess import Plan
from foretell.decide.queueing.evaluate import PLANNED
from foretell.decide.queueing.queue_file import Queue
from foretell.files.directory import write_new


def write_plan(queue: Queue, plan: Plan, path: Path, *, force: bool = False) -> None:
    """Write the class file of a queue with a plan; a file that exists is kept unless forced."""
    write_new(path, tomli_w.dumps(planned(queue, plan, path.parent)).encode(), force=force)


def planned(queue: Queue, plan: Plan, folder: Path) -> dict[str, Any]:
    """Return a class file with a plan as plain values, for a file in a folder."""
    values: dict[str, Any] = _plain(queue.model_dump(by_alias=True, exclude_unset=True))
    values["discipline"] = PLANNED
    for table, option in zip(values["class"], plan, strict=True):
        chosen = {
            "drop": option.drop or None,
            "sprint_after_s": option.sprint_after_s if option.sprints else None,
        }
        for key, value in chosen.items():
            table.pop(key, None)
            table |= {} if value is None else {key: value}
        for key in ("model", "runs"):
            if key in table:
                table[key] = _moved(table[key], queue.folder, folder)
    return values | _run_table(queue, values.get("run", {}), folder)


def _run_table(queue: Queue, given: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the table of how to run; its jobs and journal stay where they are."""
    if queue.folder.absolute() == folder.absolute():
        return {"run": given} if given else {}
    kept = {"spool": queue.run.spool, "state": queue.run.state}
    table = given | {key: _moved(path, queue.folder, folder) for key, path in kept.items()}
    settings = table.get("settings", {})
    if queue.run.engine == "spark" and isinstance(settings.get("events"), str):
        events = _moved(settings["events"], queue.folder, folder)
        table["settings"] = settings | {"events": events}
    return {"run": table}


def _moved(path: str, old: Path, new: Path) -> str:
    """Return a path of a file in one folder for a file in another."""
    if Path(path).is_absolute() or old.absolute() == new.absolute():
        return path
    return os.path.relpath(old / path, new)


def _plain(value: Any) -> Any:
    """Return a value as TOML has it: names are texts, and what is not given is left out."""
    if isinstance(value, Mapping):
        kept = {key: inner for key, inner in value.items() if inner is not None}
        if len(kept) == 1 and isinstance(lone := next(iter(kept)), int) and kept[lone] == 1:
            return lone  # a number of tasks that all jobs have
        return {str(key): _plain(inner) for key, inner in kept.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
