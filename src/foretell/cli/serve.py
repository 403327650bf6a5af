"""`foretell serve`: predictions and plans over HTTP, and a page."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from foretell.errors import UsageError, listing


@click.command()
@click.argument("models", type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to listen on; 0 takes one that is free.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="File with the token that clients must send [default: FORETELL_TOKEN, if set].",
)
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="Name under which clients may reach the server, besides its address; repeatable.",
)
@click.option("--read-only", is_flag=True, help="Fit no models.")
@click.option("-j", "--workers", type=int, help="Processes that predict [default: all cores].")
@click.option("--max-body", type=float, default=20, show_default=True, metavar="MB",
              help="Size of the largest request.")  # fmt: skip
@click.option("--max-rows", type=int, default=100_000, show_default=True, metavar="N",
              help="Rows predicted at once.")  # fmt: skip
@click.option("--time-limit", type=float, default=30, show_default=True, metavar="S",
              help="Time to read a request, and time to answer it.")  # fmt: skip
@click.option("--fit-time-limit", type=float, default=600, show_default=True, metavar="S",
              help="Time for one fit.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the address as JSON.")
def command(  # noqa: PLR0913 - one parameter per option
    models: Path,
    host: str,
    port: int,
    token_file: Path | None,
    allow_host: tuple[str, ...],
    read_only: bool,
    workers: int | None,
    max_body: float,
    max_rows: int,
    time_limit: float,
    fit_time_limit: float,
    as_json: bool,
) -> None:
    """Answer over HTTP, and show a page, for the models in a directory.

    MODELS is a directory. Each output of `foretell fit` in it, and each model file, is a model
    with a name. What is added, changed or removed there is noticed.
    """
    from foretell.executors.threads import n_cores

    try:
        from foretell.adapters.http.server import listen, run_server, url_of
        from foretell.adapters.http.settings import Limits, Settings
        from foretell.adapters.http.shelf import Shelf
    except ModuleNotFoundError as error:
        raise UsageError(
            f"serving needs {error.name}, which is not installed: pip install 'foretell[serve]'"
        ) from None

    settings = Settings(
        models,
        _token(token_file),
        frozenset(name.lower() for name in allow_host),
        read_only,
        Limits(
            n_workers=n_cores() if workers is None else workers,
            most_body_bytes=int(max_body * 1e6),
            most_rows=max_rows,
            request_s=time_limit,
            fit_s=fit_time_limit,
        ),
    )
    opened = listen(host, port, has_token=settings.token is not None)
    url = url_of(opened)

    def tell() -> None:
        names = Shelf(models).names()
        if as_json:
            told = {"url": url, "needs_token": settings.token is not None, "models": names}
            click.echo(json.dumps(told))
        else:
            many = "1 model" if len(names) == 1 else f"{len(names)} models"
            which = f"{many} ({listing(names)})" if names else "no model yet"
            click.echo(f"{models} is served at {url}: {which}   ·  the interface: {url}/docs")
            click.echo("Ctrl-C ends it.", err=True)

    with opened:
        run_server(settings, opened, tell)


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get("FORETELL_TOKEN") or None
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"the token file {file} cannot be read: {reason}") from None
