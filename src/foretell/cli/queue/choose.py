"""`foretell queue choose`: what to drop and when to sprint."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from foretell.cli import _options as option
from foretell.cli._output import NOTHING_USABLE, echo, echo_json


@click.command()
@option.path_argument("classes")
@click.option(
    "--run-length",
    type=int,
    default=1_000,
    show_default=True,
    help="Limits should hold in nine of ten runs of this many jobs.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Decides simulations.")
@option.path("--plan", metavar="FILE", help="Write the class file with the plan in it (.toml).")
@option.output("Write a report with curves (.html, .md, .pdf).")
@option.force
@option.json("Print the plan, its reasons and all others as JSON.")
def choose(
    classes: Path,
    run_length: int,
    seed: int,
    plan: Path | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Choose how much to drop of each class, and after how long it sprints.

    The plan keeps the limits of the class file (max_error, mean_s, p95_s). The exit code is 1 when
    no plan does.
    """
    from foretell.cli.queue._file import read_classes
    from foretell.files.directory import check_new
    from foretell.queue.choose import choose_drops
    from foretell.report.write import choose_form

    if plan is not None:
        check_new(plan, force=force)
    if output is not None:  # what cannot be written is refused before the work
        check_new(output, force=force)
        choose_form(output, None)
    found = choose_drops(read_classes(classes), run_length=run_length, seed=seed)
    if as_json:
        echo_json(found.to_json())
    else:
        echo(str(found))
    if plan is not None and found.chosen is not None:
        from foretell.queue.plan_file import write_plan

        write_plan(found.queue, found.chosen.options, plan, force=force)
        echo(f"{plan} written.", err=True)
    elif plan is not None:
        echo(f"no plan keeps all limits; {plan} was not written", err=True)
    if output is not None:
        from foretell.report.queueing import write_queue_report

        report = write_queue_report(found, output, force=force)
        echo(f"{report.path}   {report.n_bytes / 1000:.0f} kB", err=True)
    if found.chosen is None:
        sys.exit(NOTHING_USABLE)
