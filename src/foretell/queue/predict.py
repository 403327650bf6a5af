"""Predicting a queue, for users: response times by class and discipline, beside a simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from foretell.decide.queueing.disciplines import DISCIPLINES
from foretell.decide.queueing.drop import error_at
from foretell.decide.queueing.energy import QueueEnergy
from foretell.decide.queueing.job_class import JobClass
from foretell.decide.queueing.marked.disciplines import has_formulas
from foretell.decide.queueing.predict import ClassFigures, QueueFigures, queue_figures
from foretell.decide.queueing.queue_file import Queue, read_queue
from foretell.decide.queueing.stability import OverloadError, check_work
from foretell.decide.queueing.streams import Stream
from foretell.decide.queueing.times import streams_of
from foretell.errors import Option, UsageError, suggest
from foretell.queue.play import PlayedDiscipline, play_streams
from foretell.queue.services import known_times
from foretell.simulate.batch_means import Estimate
from foretell.wording import counted, rough_percent

#: What is predicted where nothing else is asked for.
USUAL = ("non-preemptive", "resume", "repeat")
JOBS_SIMULATED = 200_000
#: Half an interval of a simulated mean, from which on more jobs are recommended.
_WIDE = 0.01


@dataclass(frozen=True, eq=False)
class DisciplinePrediction:
    """One discipline: its figures by formula, why there are none, and what a simulation came to.

    Attributes
    ----------
    figures
        The figures by formula; None where there are none for such arrivals, or the queue grows.
    refused
        Why the queue grows without limit; empty otherwise.
    played
        A simulation, where one was asked for or is needed.
    """

    name: str
    figures: QueueFigures | None
    refused: str = ""
    played: PlayedDiscipline | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values; null is infinite or not known."""
        if self.refused:
            return {"discipline": self.name, "refused": self.refused}
        figures = self.figures
        return {
            "discipline": self.name,
            "load": None if figures is None else figures.load,
            "waste": None if figures is None else figures.waste,
            "energy": _energy(None if figures is None else figures.energy),
            "classes": [] if figures is None else [_class(c) for c in figures.classes],
            "simulated": None if self.played is None else self.played.to_json(),
        }


@dataclass(frozen=True, eq=False)
class QueuePrediction:
    """Response times of all classes, under several disciplines.

    Attributes
    ----------
    streams
        The classes with their rates and times, the lowest first.
    notes
        What to know about the figures.
    """

    queue: Queue
    streams: tuple[Stream, ...]
    disciplines: tuple[DisciplinePrediction, ...]
    notes: tuple[str, ...]

    def of(self, discipline: str) -> DisciplinePrediction:
        """Return what was predicted for one discipline."""
        for found in self.disciplines:
            if found.name == discipline:
                return found
        known = [d.name for d in self.disciplines]
        raise UsageError(f"'{discipline}' was not predicted. {suggest(discipline, known)}")

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "slots": self.queue.slots,
            "classes": [
                {
                    "class": job.name, "rate_per_s": stream.rate_per_s,
                    "service_s": stream.service.mean, "service_scv": stream.service.scv,
                    "drop": job.drop, "error": error_at(job.error, job.drop),
                }
                for job, stream in zip(self.queue.classes, self.streams, strict=True)
            ],
            "disciplines": [d.to_json() for d in self.disciplines],
            "notes": list(self.notes),
        }  # fmt: skip

    def __str__(self) -> str:
        from foretell.queue.text import prediction_text

        return prediction_text(self)


def predict_queue(
    classes: Path | str | Mapping[str, Any] | Queue,
    *,
    discipline: str | Sequence[str] | None = None,
    simulate: bool = False,
    jobs_simulated: int = JOBS_SIMULATED,
    seed: int = 0,
) -> QueuePrediction:
    """Predict how long jobs of each class take on one engine, with their waits.

    Parameters
    ----------
    classes
        A class file, or a dict of its shape.
    discipline
        One or several of ``non-preemptive``, ``resume``, ``repeat``, ``redraw``; by default that of
        the file and the first three.
    simulate
        Whether a simulation is put beside the formulas.
    jobs_simulated, seed
        How many jobs are simulated, and the seed of that.

    >>> jobs = {"name": "jobs", "rate_per_s": 0.5, "service": {"mean_s": 1.0, "scv": 1.0}}
    >>> found = predict_queue({"class": [jobs]}, discipline="non-preemptive")
    >>> round(found.of("non-preemptive").figures.classes[0].mean_s, 6)
    2.0
    """
    queue = read_queue(classes)
    names = _disciplines(queue, discipline)
    if jobs_simulated < 1:
        raise UsageError(
            f"must be at least 1, not {jobs_simulated}", option=Option("jobs_simulated")
        )
    if seed < 0:
        raise UsageError(f"must be at least 0, not {seed}", option=Option("seed"))
    known = known_times(queue)
    streams = streams_of(queue, known.by_class)
    found = [_predicted(queue, streams, name) for name in names]
    found = [
        _played(d, partial(play_streams, queue, streams, d.name, jobs_simulated, seed))
        if not d.refused and (simulate or d.figures is None or _has_gaps(d)) else d
        for d in found
    ]  # fmt: skip
    if all(d.refused for d in found):
        told = [found[0].refused, *known.notes]
        raise OverloadError(". ".join(text.rstrip(".") for text in told))
    notes = [*known.notes, *_notes(queue, found)]
    return QueuePrediction(queue, tuple(streams), tuple(found), tuple(notes))


def _disciplines(queue: Queue, given: str | Sequence[str] | None) -> list[str]:
    """List the disciplines to predict, that of the file first."""
    if given is None:
        return list(dict.fromkeys([queue.discipline, *USUAL]))
    names = given.split(",") if isinstance(given, str) else list(given)
    for name in names:
        if name not in DISCIPLINES.names():
            raise UsageError(
                f"unknown discipline '{name}'. {suggest(name, DISCIPLINES.names())}",
                option=Option("discipline"),
            )
    return list(dict.fromkeys(names))


def _predicted(queue: Queue, streams: Sequence[Stream], name: str) -> DisciplinePrediction:
    matrices = queue.arrivals.matrices()
    try:
        if matrices and not has_formulas(name, streams, matrices):
            check_work(name, streams)
            return DisciplinePrediction(name, None)
        figures = queue_figures(name, streams, queue.sprint, matrices)
    except OverloadError as error:
        return DisciplinePrediction(name, None, str(error))
    return DisciplinePrediction(name, figures)


def _played(
    found: DisciplinePrediction, play: Callable[[], PlayedDiscipline]
) -> DisciplinePrediction:
    """Simulate a discipline; without formulas, that is what shows whether the queue has an end."""
    played = play()
    if found.figures is None and played.queue.is_growing:
        return replace(
            found,
            refused=f"with the discipline {found.name}, the queue grew to the end of a simulation "
            f"of {counted(played.n_jobs, 'job')}: with the work that is thrown away, the engine "
            "cannot keep up; lower rates, drop tasks, or use another discipline",
        )
    return replace(found, played=played)


def _has_gaps(found: DisciplinePrediction) -> bool:
    return found.figures is not None and any(c.response is None for c in found.figures.classes)


def _notes(queue: Queue, found: Sequence[DisciplinePrediction]) -> list[str]:
    """Say what was assumed, and where figures have limits."""
    notes = []
    assumed = [_assumed(c) for c in queue.classes if c.assumes_scv]
    if assumed:
        notes.append(
            f"How tasks of {' and '.join(assumed)} vary is not given; 22 % (an SCV of 0.05) is "
            "assumed."
        )
    any_constant = any(c.service is not None and not c.service.scv for c in queue.classes)
    for d in found:
        if any_constant and (names := _blurred(d)):
            notes.append(
                f"{d.name}: times of {' and '.join(names)} have jumps; their quantiles are blurred "
                "by 0.4 %."
            )
        if _has_gaps(d):
            notes.append(f"{d.name}: times have jumps; quantiles are those of the simulation.")
        if d.figures is not None:
            notes += _limits(d.figures)
        elif d.played is not None:
            notes += _only_played(d.name, d.played)
        notes += _unplayed(d)
    return notes


def _blurred(found: DisciplinePrediction) -> list[str]:
    """Name the classes whose distribution of response times has jumps."""
    classes = () if found.figures is None else found.figures.classes
    return [c.name for c in classes if c.response is not None and c.response.is_blurred]


def _assumed(job: JobClass) -> str:
    """Name a class, and those of its tasks whose variation is not given, if others have one."""
    if isinstance(job.stages, list):
        missing = [i for i, stage in enumerate(job.stages, start=1) if stage.scv is None]
        if len(missing) == len(job.stages):
            return job.name
        return f"{job.name} (stage {' and '.join(map(str, missing))})"
    if job.map_scv is not None:
        return f"{job.name} (reduce tasks)"
    return f"{job.name} (map tasks)" if job.reduce_scv is not None else job.name


def _unplayed(found: DisciplinePrediction) -> list[str]:
    if found.played is None:
        return []
    names = [c.name for c in found.played.classes if not c.n_jobs]
    return [
        f"{found.name}: no job of {name} is among the "
        f"{counted(found.played.n_jobs, 'job')} simulated, or only among the first, which do not "
        "count; simulate more."
        for name in names
    ]


def _only_played(name: str, played: PlayedDiscipline) -> list[str]:
    """Say that all figures are simulated, and which classes need more jobs for a sure mean."""
    told = f"{name}: no formulas are known for these arrivals; figures are simulated."
    wide = [
        f"that of {c.name} {_known_to(c.response)}"
        for c in played.classes
        if c.n_jobs and not c.response.half_width <= _WIDE * c.response.value
    ]
    if wide:
        told += f" Means are known to 1 % only with more jobs: {', '.join(wide)}."
    return [told]


def _known_to(mean: Estimate) -> str:
    if math.isnan(mean.half_width):
        return "with no interval"
    return f"to ±{rough_percent(mean.half_width / mean.value)}"


def _limits(figures: QueueFigures) -> list[str]:
    notes = [
        f"{figures.discipline}: {c.name} has no finite mean: its longest jobs are interrupted "
        "again and again."
        for c in figures.classes
        if math.isinf(c.mean_s)
    ]
    energy = figures.energy
    if energy is not None and not energy.is_within_budget:
        notes.append(
            f"{figures.discipline}: sprints take {energy.sprint_w:.3g} W above base, and the "
            f"budget refills {energy.refill_w:.3g} W. It runs dry, which formulas do not see; "
            "a simulation does."
        )
    return notes


def _class(figures: ClassFigures) -> dict[str, Any]:
    names = ("load", "wait_s", "mean_s", "p50_s", "p95_s", "p99_s", "waste", "sprint_s")
    values = {name: getattr(figures, name) for name in names}
    return {
        "class": figures.name,
        **{name: v if math.isfinite(v) else None for name, v in values.items()},
    }


def _energy(energy: QueueEnergy | None) -> dict[str, Any] | None:
    if energy is None:
        return None
    return {
        "label": "modelled", "job_j": list(energy.job_j), "busy_w": energy.busy_w,
        "total_w": energy.total_w, "sprint_w": energy.sprint_w,
    }  # fmt: skip
