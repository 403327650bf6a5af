"""`foretell queue predict`: response times of jobs by priority."""

from __future__ import annotations

from pathlib import Path

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json


@click.command()
@option.path_argument("classes")
@click.option(
    "--discipline",
    metavar="NAME,...",
    help="non-preemptive, resume, repeat or redraw [default: that of the file, and the first 3].",
)
@click.option("--simulate", is_flag=True, help="Put a simulation beside the formulas.")
@click.option(
    "--jobs-simulated", type=int, default=200_000, show_default=True, help="How many jobs to play."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Decides the simulation.")
@option.json("Print all figures as JSON.")
def predict(
    classes: Path,
    discipline: str | None,
    simulate: bool,
    jobs_simulated: int,
    seed: int,
    as_json: bool,
) -> None:
    """Predict waits and response times by class, for each discipline.

    Times are from arrival to end. The same file gives the same output, byte for byte.
    """
    from foretell.cli.queue._file import read_classes
    from foretell.queue.predict import predict_queue

    found = predict_queue(
        read_classes(classes),
        discipline=discipline,
        simulate=simulate,
        jobs_simulated=jobs_simulated,
        seed=seed,
    )
    if as_json:
        echo_json(found.to_json())
    else:
        echo(str(found))
