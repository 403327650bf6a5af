"""`foretell tasks run`: run a task graph, with its forecast beside the outcome."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretell.cli import _options as option
from foretell.cli._output import NOTHING_USABLE, echo, echo_json
from foretell.cli._plan_options import fixed_values, read_axes
from foretell.cli._progress import Display, shown_once
from foretell.cli.tasks.foresee import (
    model_option,
    overhead_option,
    runs_option,
    seed_option,
    set_option,
    vary_option,
)
from foretell.errors import ForetellError, NothingUsableError, error_lines, listing

if TYPE_CHECKING:
    from foretell.tasks.forecast.foresee import GraphForecast
    from foretell.tasks.forecast.program import Look, Program
    from foretell.tasks.graph import Graph


#: How often progress within a run is looked at.
_LOOK_S = 0.5


@dataclass
class _Progress:
    """How many runs have ended, and the graphs of the one under way."""

    n_done: int
    n_total: int
    opened: Sequence[Graph] = ()
    left_s: float | None = None

    @property
    def remark(self) -> str:
        """Say how far the run is."""
        n_tasks = sum(len(graph.tasks) for graph in self.opened)
        n_ended = sum(graph.n_ended for graph in self.opened)
        return f", in this one {n_ended:,} of {n_tasks:,} submitted tasks" if n_tasks else ""


@click.command()
@click.argument("source", metavar="SOURCE")
@model_option
@runs_option
@click.option("--workers", type=int, help="Tasks that run at a time [default: as the graph says].")
@vary_option
@set_option
@click.option("--policy", metavar="NAME", help="critical, breadth or work [default: the graph's].")
@click.option(
    "--on", metavar="WHERE", help="threads, processes or ray [default: as the graph says]."
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Runs of each setting.",
)
@overhead_option
@seed_option
@option.output("Write the trace: .csv for `foretell fit`, or .json for Perfetto.")
@click.option("--append", is_flag=True, help="Add to a trace that exists.")
@option.force
@option.quiet
@option.json("Print all figures as JSON.")
def run(source: str, output: Path | None, as_json: bool, **given: Any) -> None:
    """Run a task graph, and show its forecast beside the outcome.

    SOURCE is FILE.py:FUNCTION. It is called once for each combination of --vary; the trace has all
    tasks of all runs. The exit code is 1 when a task failed.
    """
    from foretell.tasks.forecast.program import read_program

    program = read_program(source, read_axes(given["vary"]), fixed_values(given["fix"]))
    if output is not None:
        _check_output(output, force=given["force"], append=given["append"])
    forecast = _forecaster(program, given)
    outcomes: list[dict[str, Any]] = []
    broken: list[Graph] = []  # of a run that failed, for the trace alone
    try:
        failure = _run_all(program, given, outcomes, broken, forecast)
    except (KeyboardInterrupt, SystemExit, ForetellError) as error:  # what ended is kept
        if outcomes or broken or isinstance(error, KeyboardInterrupt):
            _tell(program, outcomes, broken, output, given, as_json=as_json)
        raise
    _tell(program, outcomes, broken, output, given, as_json=as_json)
    if failure is not None:
        raise NothingUsableError(failure)
    if any(outcome["n_failed"] for outcome in outcomes):
        sys.exit(NOTHING_USABLE)


def _tell(
    program: Program, outcomes: list[dict[str, Any]], broken: list[Graph], output: Path | None,
    given: dict[str, Any], *, as_json: bool,
) -> None:  # fmt: skip
    """Write the trace of the runs, also of one that failed, and what those that ended took."""
    graphs = [graph for outcome in outcomes for graph in outcome["graphs"]] + broken
    if output is not None and graphs:
        _write(graphs, output, append=given["append"])
    shown = [{k: v for k, v in outcome.items() if k != "graphs"} for outcome in outcomes]
    notes = _notes(outcomes, program.varied)
    if as_json:
        echo_json({"runs": shown, "notes": notes})
    elif outcomes:
        from foretell.tasks.forecast.text import outcome_text

        echo(outcome_text(shown, program.varied))
        for note in notes:
            echo(note)


def _notes(outcomes: list[dict[str, Any]], varied: Sequence[str]) -> list[str]:
    """Say what to know about runs: whether workers took turns, and what a sandbox protects from."""
    from foretell.tasks.declare import PROTECTION
    from foretell.tasks.forecast.text import settings_text
    from foretell.tasks.graph import TURNS

    by_setting: dict[str, list[bool]] = {}
    for outcome in outcomes:
        own = by_setting.setdefault(settings_text(outcome["settings"], varied), [])
        own += [graph.takes_turns for graph in outcome["graphs"]]
    turns = [name for name, own in by_setting.items() if 2 * sum(own) > len(own)]
    where = f" ({listing(turns)})" if any(turns) else ""
    found = [TURNS.format(where=where)] if turns else []
    found += [note for outcome in outcomes for note in outcome.get("notes", ())]
    if any(graph.has_sandbox for outcome in outcomes for graph in outcome["graphs"]):
        found.append(PROTECTION)
    return list(dict.fromkeys(found))


def _run_all(
    program: Program, given: dict[str, Any], outcomes: list[dict[str, Any]], broken: list[Graph],
    forecast: Any,
) -> str | None:  # fmt: skip
    """Run all settings, and put down what became of each; return why a run failed, if one did."""
    from foretell.tasks.forecast.text import settings_text

    over = {name: given[name] for name in ("workers", "policy", "on")}
    runs = [s for s in program.settings for _ in range(given["repeats"])]
    with shown_once("run", attrgetter("remark"), quiet=given["quiet"]) as shown:
        for k, settings in enumerate(runs):
            progress = _Progress(k, len(runs))
            try:
                # What the program prints is not our result.
                with redirect_stdout(sys.stderr), _watched(progress, shown) as look:
                    graphs = program.run(settings, look, **over)
            except ForetellError:
                broken += [graph for graph in progress.opened if graph.tasks]
                raise
            except (Exception, BaseExceptionGroup) as error:
                if isinstance(error, BaseExceptionGroup):
                    _pass_on(error)
                broken += [graph for graph in progress.opened if graph.tasks]
                where = settings_text(settings, program.varied)
                return ": ".join(filter(None, (where, _failure(error, program))))
            outcomes.append(_outcome(settings, graphs))
            if forecast is not None:
                outcomes[-1] |= _foreseen(forecast(settings, graphs[0].workers), graphs)
            shown(_Progress(k + 1, len(runs)))
    return None


@contextmanager
def _watched(progress: _Progress, shown: Display) -> Iterator[Look]:
    """Show now and then how far a run is, from a thread beside it; not if nothing is shown."""

    def look(opened: list[Graph]) -> None:
        progress.opened = opened

    if type(shown) is Display:
        yield look
        return
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(_LOOK_S):
            shown(progress)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield look
    finally:
        is_over.set()
        thread.join()


def _pass_on(group: BaseExceptionGroup[BaseException]) -> None:
    """Raise what is to end this command: Ctrl-C, or the exit of bodies if nothing else failed."""
    for kind in (KeyboardInterrupt, SystemExit):
        found, others = group.split(kind)
        if found is None or (kind is SystemExit and others is not None):
            continue
        first: BaseException = found
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


def _failure(error: BaseException, program: Program) -> str:
    """Tell what a program raised: of errors of tasks how many, and the first with its task."""
    if not isinstance(error, BaseExceptionGroup):
        return f"{type(error).__name__}{program.place_of(error)}: {error_lines(error)[0]}"
    first = error.exceptions[0]
    place = f" {note}" if (note := next(iter(getattr(first, "__notes__", ())), "")) else ""
    return f"{error.message}; the first{place}: {type(first).__name__}: {error_lines(first)[0]}"


def _forecaster(program: Program, given: dict[str, Any]) -> Any:
    """Return a function that foresees a run; None without a model.

    What it reads is read now: an error in it must not come after a run.
    """
    if not given["model"] and given["runs"] is None:
        return None
    from foretell.cli.tasks.foresee import asked
    from foretell.tasks.forecast.foresee import check_settings, foresee, read_models

    options = asked({**given, "workers": None, "vary": (), "fix": ()})
    check_settings(overhead_s=options.get("overhead_s"), seed=options["seed"])
    options["model"], options["runs"] = read_models(options["model"], options["runs"])

    known: dict[Any, GraphForecast] = {}

    def forecast(settings: dict[str, Any], workers: int) -> GraphForecast:
        key = (tuple(settings.items()), workers)
        if key not in known:  # repeats have the forecast of the first run
            own = {**options, "fix": settings, "workers": [workers]}
            with redirect_stdout(sys.stderr):
                known[key] = foresee(program.function, **own)
        return known[key]

    return forecast


def _outcome(settings: dict[str, Any], graphs: list[Graph]) -> dict[str, Any]:
    is_here = all(graph.on == "threads" for graph in graphs)
    return {
        "settings": dict(settings),
        "workers": graphs[0].workers,
        "n_tasks": sum(len(graph.tasks) for graph in graphs),
        "n_failed": sum(graph.n_failed for graph in graphs),
        "time_s": sum(graph.time_s for graph in graphs),
        # Of bodies in other processes, what they compute is not known.
        "cpu_time_s": sum(t.cpu_s for graph in graphs for t in graph.tasks) if is_here else None,
        "graphs": graphs,
    }


def _foreseen(found: GraphForecast, graphs: list[Graph]) -> dict[str, Any]:
    from foretell.tasks.forecast.foresee import overhead_notes
    from foretell.tasks.forecast.times import nested_notes, place_notes

    cell = found.best
    tasks = [task for graph in graphs for task in graph.tasks]
    nested = nested_notes(sum(task.parent is not None for task in tasks), len(tasks))
    known = overhead_notes(found.cells, found.varied)  # of one setting, which the table shows
    notes = [note for note in found.notes if note not in known]
    notes += [*place_notes(graph.on for graph in graphs), *nested]
    return {"foreseen_s": cell.makespan_s, "lower_s": cell.lower_s, "upper_s": cell.upper_s,
            "notes": notes}  # fmt: skip


def _check_output(output: Path, *, force: bool, append: bool) -> None:
    from foretell.errors import UsageError
    from foretell.files.directory import check_new

    if output.suffix not in (".csv", ".json"):
        raise UsageError(f"{output}: a trace is a table (.csv) or a timeline (.json)")
    if not append:
        check_new(output, force=force)


def _write(graphs: list[Graph], output: Path, *, append: bool) -> None:
    from foretell.tasks.trace import bars_of, write_perfetto, write_table

    if output.suffix == ".json":
        write_perfetto(bars_of(graphs[-1]), output, "run")
    else:
        write_table(graphs, output, append=append)
    echo(f"{output}: {sum(len(g.tasks) for g in graphs):,} tasks", err=True)
