"""`foretell report`: results as one file to look at and to show."""

from __future__ import annotations

from pathlib import Path

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json, echo_notes


@click.command()
@option.path_argument("models")
@option.output("File to write [default: report.html, or the format's suffix].")
@option.path(
    "--data",
    help="Table of measured runs to show beside predictions, with those that the fit kept.",
)
@click.option(
    "--at",
    multiple=True,
    metavar="COLUMN=VALUE",
    help="Value that a column keeps while another is varied; repeatable.",
)
@option.columns(
    "--by",
    "Column that tells workloads apart in the heat map [default: the category that matters most].",
)
@click.option(
    "--as",
    "--format",
    "form",
    type=click.Choice(["html", "md", "pdf"]),
    help="html: one page. md: text, and a folder of pictures. pdf: plain pages "
    "[default: the ending of the output's name, or html].",
)
@option.force
@option.json("Print what was written as JSON.")
def command(  # noqa: PLR0913 - one parameter per option
    models: Path,
    output: Path | None,
    data: Path | None,
    at: tuple[str, ...],
    by: tuple[str, ...],
    form: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the results of a fit as one file to look at.

    MODELS is an output directory of `foretell fit`, or a model file, which shows less. The page
    needs no network and no script. It shows the data, the leaderboard, scaling curves, errors by
    distance, what matters, the impact of settings, what failed, and how to make it again.
    """
    from foretell.report.settings import parse_at
    from foretell.report.write import write_report

    report = write_report(models, output, data=data, at=parse_at(at), by=by, form=form, force=force)
    if as_json:
        told = {
            "file": str(report.path),
            "bytes": report.n_bytes,
            "sections": list(report.sections),
            "missing": list(report.missing),
        }
        echo_json(told)
        return
    echo(f"{report.path}   {report.n_bytes / 1000:,.0f} kB")
    echo_notes(report.missing)
