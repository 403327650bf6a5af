"""Forecasts of task graphs for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from foretell.decide.deployment.wording import time_text
from foretell.wording import counted, rough_percent

if TYPE_CHECKING:
    from foretell.tasks.forecast.foresee import Cell, GraphForecast

_MOST_COLUMNS, _MOST_ROWS = 6, 12


def settings_text(settings: Mapping[str, Any], varied: Sequence[str]) -> str:
    """Write the settings that differ from cell to cell, or from run to run."""
    return ", ".join(f"{name}={settings[name]}" for name in varied)


def headline(found: GraphForecast) -> str:
    """Say what to use, and how long it takes."""
    cell = found.best
    place = ", ".join(filter(None, (settings_text(cell.settings, found.varied),
                                    counted(cell.workers, "worker"))))  # fmt: skip
    text = f"{place[0].upper() + place[1:] if not found.varied else place}: "
    text += time_text(cell.makespan_s)
    if cell.lower_s is not None and cell.upper_s is not None:
        text += f" ({between(cell.lower_s, cell.upper_s)})"
    return f"{text}."


def limits_line(found: GraphForecast) -> str:
    """Say what bounds it, and where more workers stop helping."""
    cell = found.best
    told = (
        f"{counted(cell.n_tasks, 'task')}, {time_text(cell.work_s)} of work; critical path "
        f"{time_text(cell.critical_path_s)}"
    )
    if found.helps_to is not None:
        return f"{told}: beyond {counted(found.helps_to, 'worker')} < 3 % gain."
    most = max(c.workers for c in found.cells)
    return f"{told}." if most == 1 else f"{told}; up to {most} workers, each helps."


def source_line(found: GraphForecast) -> str:
    """Say what was simulated from what."""
    return (
        f"Simulated from {found.source} task times, policy {found.policy}, overhead "
        f"{time_text(found.overhead_s)} per task."
    )


def table_rows(found: GraphForecast) -> list[tuple[str, ...]]:
    """Return a header and one row per setting: makespans by number of workers."""
    counts = sorted({cell.workers for cell in found.cells})
    if len(counts) > _MOST_COLUMNS:
        kept = [2**k for k in range(13)]
        some = [c for c in counts if c in kept or c == found.best.workers or c == counts[-1]]
        counts = some[-_MOST_COLUMNS:] if len(some) > _MOST_COLUMNS else some
    by_setting: dict[str, dict[int, Cell]] = {}
    for cell in found.cells:
        by_setting.setdefault(settings_text(cell.settings, found.varied), {})[cell.workers] = cell
    rows = [("", "tasks", "path", "overhead", *(counted(c, "worker") for c in counts))]
    for name, cells in list(by_setting.items())[:_MOST_ROWS]:
        first = cells[counts[0]]
        times = []
        for c in counts:
            mark = " *" if cells[c] is found.best else "  "
            times.append(time_text(cells[c].makespan_s) + mark)
        rows.append((name, f"{first.n_tasks:,}", time_text(first.critical_path_s),
                     rough_percent(first.overhead), *times))  # fmt: skip
    return rows


def forecast_text(found: GraphForecast) -> str:
    """Write the whole answer."""
    lines = [headline(found), limits_line(found)]
    if len(found.cells) > 1:
        lines += aligned(table_rows(found))
    return "\n".join([*lines, *found.notes, source_line(found)])


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Align the first column left and the others right."""
    widths = [max(len(row[i].rstrip()) for row in rows) for i in range(len(rows[0]))]
    found = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [c.rstrip(" ").rjust(w) if not c.endswith("  ") else c.strip().rjust(w - 2) + "  "
                  for c, w in zip(row[1:], widths[1:], strict=True)]  # fmt: skip
        found.append("  " + "  ".join(cells).rstrip())
    return found


def outcome_text(runs: Sequence[Mapping[str, Any]], varied: Sequence[str]) -> str:
    """Write what runs took, beside what was foreseen of them."""
    is_foreseen = any("foreseen_s" in run for run in runs)
    words = ("", "tasks", "workers", "computing", "took")
    rows = [(*words, *(("foreseen", "off") if is_foreseen else ()))]
    groups: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for run in runs:
        name = settings_text(run["settings"], varied)
        groups.setdefault((name, run["workers"]), []).append(run)
    for (name, workers), own in groups.items():
        run, took = own[0], median(run["time_s"] for run in own)
        repeats = f" (median of {len(own)})" if len(own) > 1 else ""
        work = [run["cpu_time_s"] for run in own]  # None where it was in other processes
        computing = "–" if None in work else time_text(median(work))
        row = [name, f"{run['n_tasks']:,}", str(workers), computing]
        row.append(f"{time_text(took)}{repeats}")
        if "foreseen_s" in run:
            low, high = run.get("lower_s"), run.get("upper_s")
            interval = "" if low is None or high is None else f" ({between(low, high)})"
            row.append(f"{time_text(run['foreseen_s'])}{interval}")
            row.append(f"{100 * (run['foreseen_s'] / took - 1):+.0f} %")
        elif is_foreseen:  # a forecast failed
            row += ["", ""]
        rows.append(tuple(row))
    failed = sum(run["n_failed"] for run in runs)
    end = [f"{counted(failed, 'task')} failed or did not run."] if failed else []
    return "\n".join([*aligned(rows), *end])


def between(low_s: float, high_s: float) -> str:
    """Write an interval of times, with the unit once where it is the same."""
    low, high = time_text(low_s), time_text(high_s)
    return f"{low.split()[0] if low.split()[1:] == high.split()[1:] else low}–{high}"
