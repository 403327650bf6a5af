"""`foretell deploy`: how to serve a network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json, echo_unchanged
from foretell.cli._plan_options import read_axes
from foretell.errors import Option, UsageError


@click.command()
@click.argument("network", metavar="FILE.py:FUNCTION")
@click.option(
    "--input", "shape", required=True, metavar="SHAPE",
    help="The shape of one sample, without the batch: 1,28,28.",
)  # fmt: skip
@click.option(
    "--arrivals", metavar="HOW",
    help="poisson:120/s, or burst:8/50ms for 8 samples together every 50 ms.",
)  # fmt: skip
@click.option("--p99", metavar="TIME", help="99 of 100 requests must take less: 50ms.")
@click.option(
    "--scenario", metavar="NAME",
    help="single-stream or offline, which need no arrivals; with arrivals: server, multi-stream.",
)  # fmt: skip
@click.option(
    "--vary", multiple=True, metavar="WHAT=VALUES",
    help="What can be chosen: batch=1..64*2, threads=1,2, wait=0,2ms,5ms "
    "[default: batches to 64, threads to all cores].",
)  # fmt: skip
@click.option(
    "--set", "arguments", multiple=True, metavar="NAME=VALUE",
    help="An argument of the function: width=32.",
)  # fmt: skip
@click.option(
    "--dtype", default="float32", show_default=True,
    help="The type of the input; int64:1000 draws whole numbers below 1,000.",
)  # fmt: skip
@click.option(
    "--minimize", metavar="WHAT", default="p99", show_default=True,
    help="p99, mean or energy, among settings that keep the limit on the fewest cores.",
)  # fmt: skip
@click.option("--replicas", type=int, help="At most so many [default: as many as it takes].")
@click.option(
    "--overhead", metavar="TIME", help="What the server adds to each batch: 0.5ms [default: none]."
)
@click.option(
    "--pause", metavar="TIME",
    help="What a batch takes longer after the server had nothing to do: 1ms [default: measured of "
    "the network].",
)  # fmt: skip
@click.option(
    "--measure", metavar="WHICH", default="auto", show_default=True,
    help="auto: at most a quarter of the batch times, and for each number of threads no more than "
    "there are powers of two up to the largest batch, but up to three in any case; all: every one "
    "of them.",
)  # fmt: skip
@click.option(
    "--power", metavar="WATTS",
    help="The power of this machine, idle and busy: 20W,65W [default: that of its processor, "
    "where it is known].",
)  # fmt: skip
@option.path(
    "--cache", metavar="DIR", help="Where batch times are kept [default: the user's cache folder]."
)
@click.option("--no-cache", is_flag=True, help="Measure all again, and keep nothing.")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides simulations.")
@click.option(
    "--as", "form", metavar="FORM", help="Print it for triton, bentoml, ray-serve, or as json."
)
@option.output("Write a report with curves (.html, .md, .pdf).")
@option.force
@option.quiet
@option.json("Print the setting, its reasons and all others as JSON.")
def command(
    network: str,
    vary: tuple[str, ...],
    form: str | None,
    output: Path | None,
    force: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Choose batch size, batching delay, threads and replicas for serving a network.

    FUNCTION of FILE.py returns a torch.nn.Module; its weights may be random. Few batch times are
    measured, the others modelled, and latencies simulated. The exit code is 1 when no setting keeps
    the limit.
    """
    from foretell.adapters.serving_handoff import check_form, hand_off_deployment
    from foretell.deploy.choose import choose_deployment
    from foretell.deploy.text import deployment_text
    from foretell.files.directory import check_new
    from foretell.report.write import choose_form

    if form is not None:
        check_form(form)
        if as_json:
            raise UsageError(
                "the answer is printed in one form", option=Option("form", form),
                remedy=("leave out this or ", Option("as_json")),
            )  # fmt: skip
    if output is not None:  # what cannot be written is refused before the work
        check_new(output, force=force)
        choose_form(output, None)
    found = choose_deployment(
        network,
        given["shape"],
        given["arrivals"],
        p99=given["p99"],
        vary=_axes(vary),
        scenario=given["scenario"],
        arguments=_arguments(given["arguments"]),
        **_settings(given),
    )
    text = deployment_text(found, option.flag)
    if as_json:
        echo_json(found.to_json())
    elif form is not None:
        echo(text, err=True)
        echo_unchanged(hand_off_deployment(found, form))
    else:
        echo(text)
    if output is not None:
        from foretell.report.deployment import write_deployment_report

        report = write_deployment_report(found, output, force=force)
        echo(f"{report.path}   {report.n_bytes / 1000:.0f} kB", err=True)


def _tell(what: str) -> None:
    if sys.stderr.isatty():
        echo(f"measuring {what}", err=True)


def _axes(texts: tuple[str, ...]) -> dict[str, Any]:
    try:
        return read_axes(texts)
    except UsageError as error:
        raise UsageError(error.text, option=Option("vary"), remedy=error.remedy) from None


def _arguments(texts: tuple[str, ...]) -> dict[str, Any]:
    found = {}
    for name, values in read_axes(texts).items():
        if not isinstance(values, list) or len(values) != 1:
            raise UsageError("takes one value, such as width=32", option=Option("set", key=name))
        found[name] = values[0]
    return found


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    from foretell.deploy.cache import default_folder
    from foretell.spaces.quantities import read_latency

    names = ("dtype", "minimize", "replicas", "measure", "power", "seed")
    found = {name: given[name] for name in names}
    for name in ("overhead", "pause"):
        if given[name] is not None:
            try:
                found[f"{name}_s"] = read_latency(given[name])
            except UsageError as error:
                raise UsageError(error.text, option=Option(name)) from None
    cache = given["cache"] if given["cache"] is not None else default_folder()
    found["progress"] = None if given["quiet"] else _tell
    found["cache"] = None if given["no_cache"] else cache
    return found
