"""`foretell demo`: from measured runs to a prediction, a plan and a report, on our data."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from importlib.resources import as_file, files
from pathlib import Path

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json
from foretell.errors import StorageError

#: How many cores to use for 32 MiB of text, ready within 12 s.
_VARY = ("threads=1,2",)
_FIX = ("content=text", "size_mib=32", "level=6")
_DEADLINE = "12s"


@click.command()
@option.output("Directory for the results.", default=Path("demo-output"), show_default=True)
@option.jobs
@option.json("Print where the results are as JSON, and the rest to stderr.")
@click.pass_context
def command(ctx: click.Context, output: Path, jobs: int | None, as_json: bool) -> None:
    """See it work: how long will xz take to compress a file, and how is it best run?

    The dataset holds measured runs of xz at several sizes, levels and thread counts.
    """
    page = output / "report.html"
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        _show(ctx, output, page, jobs)
    if as_json:
        echo_json({"models": str(output), "report": str(page)})


def _show(ctx: click.Context, output: Path, page: Path, jobs: int | None) -> None:
    from foretell.cli.fit import command as fit
    from foretell.cli.plan import command as plan
    from foretell.cli.predict import command as predict
    from foretell.cli.report import command as report

    with as_file(files("foretell") / "demo") as data:
        runs, new, prices = (
            data / name for name in ("runs.csv", "new_measured.csv", "prices.toml")
        )
        echo(f"$ foretell fit {_shown(runs)} --target time_s -o {output}")
        try:
            ctx.invoke(fit, source=runs, target=("time_s",), output=output, jobs=jobs)
        except StorageError as error:
            raise StorageError(f"{error} For the demo: foretell demo -o ANOTHER") from None
        echo(f"\n$ foretell predict {output} {_shown(new)}")
        ctx.invoke(predict, model=output, data=new)
        words = [*(f"--vary {v}" for v in _VARY), *(f"--fix {f}" for f in _FIX)]
        options = f"{' '.join(words)} --deadline {_DEADLINE} --prices {_shown(prices)}"
        echo(f"\n$ foretell plan {output} {options}")
        ctx.invoke(plan, models=(output,), vary=_VARY, fix=_FIX, deadline=_DEADLINE, prices=prices)
    echo(f"\n$ foretell report {output} -o {page}")
    ctx.invoke(report, models=output, output=page, force=True)


def _shown(path: Path) -> str:
    """Write a path as the user would type it from here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
