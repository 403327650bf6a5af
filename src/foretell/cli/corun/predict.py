"""`foretell corun predict`: when jobs end that share a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json, echo_notes
from foretell.errors import Option, UsageError


@click.command()
@option.path_argument("profiles", nargs=-1, required=True)
@click.option(
    "--start", multiple=True, metavar="JOB=TIME",
    help="A job that starts later: b=+30s; a job is called as its file [default: all at once].",
)  # fmt: skip
@click.option(
    "--running", multiple=True, metavar="JOB=SHARE",
    help="A job that runs already, and the share of its work that is done: a=40%.",
)  # fmt: skip
@click.option(
    "--pin", metavar="LAYOUT",
    help="packed: all jobs on few cores; spread: each on cores of its own.",
)  # fmt: skip
@click.option(
    "--one-session", is_flag=True,
    help="One shell starts all jobs: CPU time is then shared by thread, and not by job.",
)  # fmt: skip
@option.path("--machine", help="What was measured of the machine [default: that of this user].")
@option.path("--model", help="What `foretell corun fit` learned [default: nothing].")
@option.output("Write the timeline (.svg), or a report with it (.html, .md, .pdf).")
@option.force
@option.json("Print all figures as JSON.")
def predict(
    profiles: tuple[Path, ...],
    start: tuple[str, ...],
    running: tuple[str, ...],
    output: Path | None,
    force: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Predict when jobs end that run together, from PROFILES of each alone."""
    from foretell.corun.predict import predict_together
    from foretell.files.directory import check_new

    if output is not None:
        from foretell.report.corun import check_form

        check_new(output, force=force)
        check_form(output)
    found = predict_together(
        profiles,
        starts=_by_job(start, "start"),
        running=_by_job(running, "running"),
        pin=given["pin"],
        one_session=given["one_session"],
        machine=given["machine"],
        model=given["model"],
    )
    if as_json:
        echo_json(found.to_json())
    else:
        echo(str(found))
        echo_notes(found.notes)
    if output is not None:
        from foretell.report.corun import write_together

        n_bytes = write_together(found, output, force=force)
        echo(f"{output}   {n_bytes / 1000:.0f} kB", err=True)


def _by_job(texts: tuple[str, ...], name: str) -> dict[str, str]:
    found = {}
    for text in texts:
        job, _, value = text.rpartition("=")  # names of files may have more of them
        if not job or not value:
            raise UsageError(
                f"'{text}' must name a job and a value, such as b=30s", option=Option(name)
            )
        found[job] = value
    return found
