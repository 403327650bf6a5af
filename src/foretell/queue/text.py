"""A prediction of a queue for people: a table for each discipline, the highest class first."""

from __future__ import annotations

import math
from collections.abc import Sequence

from foretell.decide.queueing.job_class import JobClass
from foretell.decide.queueing.predict import ClassFigures, QueueFigures
from foretell.decide.queueing.service.job import kept_by_stage
from foretell.decide.queueing.stability import rate_text
from foretell.queue.play import PlayedDiscipline
from foretell.queue.predict import DisciplinePrediction, QueuePrediction
from foretell.simulate.batch_means import Estimate
from foretell.simulate.queue import ClassFigures as PlayedFigures
from foretell.spaces.quantities import ENERGY, POWER, duration, write_quantity
from foretell.wording import counted, number, plain, rough_percent

_HEADER = ("class", "load", "wait", "mean", "p50", "p95", "p99", "waste")


def prediction_text(found: QueuePrediction) -> str:
    """Write the classes, a table for each discipline, and notes."""
    lines = [_classes_line(found)]
    for discipline in found.disciplines:
        lines += ["", *_discipline_lines(found, discipline)]
    if found.notes:
        lines += ["", *found.notes]
    return "\n".join(lines)


def _classes_line(found: QueuePrediction) -> str:
    parts = [
        f"{plain(s.name)} {rate_text(s.rate_per_s)}, {duration(s.service.mean)} alone"
        + (" with its sprint" if job.sprint_after_s is not None else "")
        + _dropped(job)
        for job, s in zip(reversed(found.queue.classes), reversed(found.streams), strict=True)
    ]
    n = len(found.streams)
    count = "1 class" if n == 1 else f"{n} classes, the highest first"
    return f"{count}: {'; '.join(parts)}"


def _dropped(job: JobClass) -> str:
    """Say what share of the data never reaches the end; stages drop one after the other."""
    kept = [share for share in kept_by_stage(job) if share < 1]
    if not kept:
        return ""
    of = f" in {len(kept)} stages" if len(kept) > 1 else ""
    return f", {rough_percent(1 - math.prod(kept))} dropped{of}"


def _discipline_lines(found: QueuePrediction, of: DisciplinePrediction) -> list[str]:
    own = " (that of the file)" if of.name == found.queue.discipline else ""
    if of.refused:
        return [f"{of.name}{own}: {of.refused}."]
    sprints = any(job.sprint_after_s is not None for job in found.queue.classes)
    rows = _table_rows(of, sprints=sprints)
    lines = [f"{of.name}{own}{_summary(of)}", *_aligned([_header(of, sprints=sprints), *rows])]
    return [*lines, *_energy_line(of.figures), *_played_energy_line(of.played)]


def _summary(of: DisciplinePrediction) -> str:
    parts = []
    if of.figures is not None:
        parts.append(f"load {number(of.figures.load, 3)}")
        if of.figures.waste:
            parts.append(f"{rough_percent(of.figures.waste)} of the work is thrown away")
    elif of.played is not None:
        parts.append(f"load {number(of.played.queue.load, 3)}")
    if of.played is not None:
        parts.append(f"{counted(of.played.n_jobs, 'job')} simulated, seed {of.played.seed}")
    return f": {', '.join(parts)}"


def _header(of: DisciplinePrediction, *, sprints: bool) -> tuple[str, ...]:
    has_energy = of.figures is not None and of.figures.energy is not None
    has_energy = has_energy or (of.played is not None and of.played.power is not None)
    more = (("sprint of a job",) if sprints else ()) + (("energy of a job",) if has_energy else ())
    return (*_HEADER, *more)


def _table_rows(of: DisciplinePrediction, *, sprints: bool) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    n = len(of.figures.classes) if of.figures else len(of.played.classes if of.played else ())
    for k in reversed(range(n)):
        if of.figures is not None:
            rows.append(_row(of.figures, k, sprints=sprints))
        if of.played is not None:
            played = of.played.classes[k]
            label = "  simulated" if of.figures else plain(played.name)
            rows.append(_played_row(played, label, sprints=sprints))
    return rows


def _row(figures: QueueFigures, k: int, *, sprints: bool) -> tuple[str, ...]:
    c: ClassFigures = figures.classes[k]
    cells = (
        plain(c.name), number(c.load, 3),
        *(_time(t) for t in (c.wait_s, c.mean_s, c.p50_s, c.p95_s, c.p99_s)),
        rough_percent(c.waste) if c.waste else "0",
        *([_time(c.sprint_s) if c.sprint_s else "0"] if sprints else []),
    )  # fmt: skip
    if figures.energy is None:
        return cells
    return (*cells, write_quantity(figures.energy.job_j[k], ENERGY))


def _played_row(c: PlayedFigures, label: str, *, sprints: bool) -> tuple[str, ...]:
    estimates = (c.wait, c.response, c.p50, c.p95, c.p99)
    cells = (
        label, number(c.load, 3), *(_estimate(e) for e in estimates),
        rough_percent(c.waste) if c.waste else "0",
        *([_time(c.sprint_s) if c.sprint_s else "0"] if sprints else []),
    )  # fmt: skip
    return cells if math.isnan(c.job_j) else (*cells, write_quantity(c.job_j, ENERGY))


def _estimate(estimate: Estimate) -> str:
    if math.isnan(estimate.value):
        return "–"
    half = estimate.half_width
    spread = f" ±{number(half, 2)}" if math.isfinite(half) else ""
    return f"{number(estimate.value, 3)}{spread} s"


def _time(seconds: float) -> str:
    if math.isinf(seconds):
        return "∞"
    return "–" if math.isnan(seconds) else f"{number(seconds, 3)} s"


def _energy_line(figures: QueueFigures | None) -> list[str]:
    if figures is None or figures.energy is None:
        return []
    energy = figures.energy
    busy, total = (write_quantity(w, POWER) for w in (energy.busy_w, energy.total_w))
    sprints = f", {write_quantity(energy.sprint_w, POWER)} for sprints" if energy.sprint_w else ""
    dry = "" if energy.is_within_budget else ", as if the budget never ran dry"
    return [f"Power on average, modelled: {busy} for jobs{sprints}, {total} with idle time{dry}."]


def _played_energy_line(played: PlayedDiscipline | None) -> list[str]:
    if played is None or played.power is None:
        return []
    busy, sprint, total = (write_quantity(w, POWER) for w in played.power)
    sprints = f", {sprint} for sprints" if played.queue.sprinted_s else ""
    return [f"Power on average, simulated: {busy} for jobs{sprints}, {total} with idle time."]


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    full = [(*row, *[""] * (len(rows[0]) - len(row))) for row in rows]
    widths = [max(len(row[i]) for row in full) for i in range(len(full[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in full
    ]
