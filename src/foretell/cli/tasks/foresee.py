"""`foretell tasks foresee`: the makespan of a task graph before it runs."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json
from foretell.cli._plan_options import fixed_values, read_axes

vary_option = click.option(
    "--vary", multiple=True, metavar="NAME=VALUES",
    help="Arguments of FUNCTION to choose: block=64..1024*2 (a range without steps doubles).",
)  # fmt: skip
set_option = click.option(
    "--set", "fix", multiple=True, metavar="NAME=VALUE", help="An argument of FUNCTION: n=4096."
)
model_option = click.option(
    "--model", multiple=True, metavar="[LABEL=]PATH",
    help="Model of the times of tasks, fitted on a trace; or one for each label.",
)  # fmt: skip
runs_option = click.option(
    "--runs", type=click.Path(path_type=Path), metavar="TRACE",
    help="Trace that the model was fitted on: corrects predictions to the mean times in this "
    "trace.",
)  # fmt: skip
overhead_option = click.option(
    "--overhead", metavar="TIME",
    help="What the runtime takes for a task: 10us [default: measured with 2,000 empty ones].",
)  # fmt: skip
seed_option = click.option(
    "--seed", type=int, default=0, show_default=True, help="Decides simulations."
)


@click.command()
@click.argument("source", metavar="SOURCE")
@model_option
@runs_option
@click.option(
    "--workers", metavar="COUNTS",
    help="Numbers of workers to look at: 1..16, or 1,2,4 [default: to the cores of this machine].",
)  # fmt: skip
@vary_option
@set_option
@click.option("--policy", metavar="NAME", help="critical, breadth or work [default: the graph's].")
@overhead_option
@seed_option
@option.output("Write a timeline: a report (.html, .md, .pdf), or .json for Perfetto.")
@option.force
@option.json("Print all figures as JSON.")
def foresee(source: str, output: Path | None, force: bool, as_json: bool, **given: Any) -> None:
    """Tell how long a task graph takes, before it runs.

    SOURCE is FILE.py:FUNCTION, which is called to build its graph without running bodies of tasks,
    or the trace of a run (.csv). The answer names the best settings, the fewest workers that are
    worth it, and what bounds the time.
    """
    from foretell.tasks.forecast.foresee import foresee as foresee_graph

    if output is not None:
        check_output(output, force=force)
    with redirect_stdout(sys.stderr):  # what the program prints is not our result
        found = foresee_graph(source, **asked(given))
    if as_json:
        echo_json(found.to_json())
    else:
        echo(str(found))
    if output is not None:
        write(found, output, force=force)


def asked(given: dict[str, Any]) -> dict[str, Any]:
    """Read the options that describe a forecast."""
    from foretell.errors import Option, UsageError
    from foretell.spaces.quantities import TIME, read_quantity

    found: dict[str, Any] = {
        "model": list(given["model"]) or None,
        "vary": read_axes(given["vary"]),
        "fix": fixed_values(given["fix"]),
        "runs": given["runs"],
        "policy": given["policy"],
        "seed": given["seed"],
    }
    if given["workers"] is not None:
        found["workers"] = read_axes([f"workers={given['workers']}"])["workers"]
    if given["overhead"] is not None:
        try:
            found["overhead_s"] = read_quantity(given["overhead"], TIME)
        except UsageError as error:
            raise UsageError(error.text, option=Option("overhead")) from None
    return found


def check_output(output: Path, *, force: bool) -> None:
    """Refuse what cannot be written before the work."""
    from foretell.files.directory import check_new
    from foretell.report.write import choose_form

    check_new(output, force=force)
    if output.suffix != ".json":
        choose_form(output, None)


def write(found: Any, output: Path, *, force: bool) -> None:
    """Write a forecast as a report, or its timeline."""
    if output.suffix == ".json":
        from foretell.tasks.trace import write_perfetto

        write_perfetto(found.bars, output, "foreseen")
        echo(f"{output}: open it with ui.perfetto.dev", err=True)
        return
    from foretell.report.tasks import write_tasks_report

    report = write_tasks_report(found, output, force=force)
    echo(f"{report.path}   {report.n_bytes / 1000:.0f} kB", err=True)
