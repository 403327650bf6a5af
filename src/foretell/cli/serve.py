"""`foretell serve`: predictions and plans over HTTP, and a page."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_unchanged
from foretell.errors import Option, UsageError, listing
from foretell.files.content import read_content
from foretell.wording import counted

_MOST_TOKEN_BYTES = 10_000
_POSITIVE = click.FloatRange(min=0, min_open=True)


@click.command()
@option.path_argument("models")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@option.path(
    "--token-file",
    help="File with the token that clients must send [default: FORETELL_TOKEN, if set].",
)
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="Name under which clients may reach the server, besides its address; repeatable.",
)
@click.option("--read-only", is_flag=True, help="Fit no models.")
@click.option("-j", "--workers", type=click.IntRange(min=1),
              help="Processes that predict [default: all cores].")  # fmt: skip
@click.option("--max-body", type=_POSITIVE, default=20, show_default=True, metavar="MB",
              help="Size of the largest request.")  # fmt: skip
@click.option("--max-rows", type=click.IntRange(min=1), default=100_000, show_default=True,
              metavar="N", help="Rows predicted at once.")  # fmt: skip
@click.option("--time-limit", type=_POSITIVE, default=30, show_default=True, metavar="S",
              help="Time to read a request, and time to answer it.")  # fmt: skip
@click.option("--fit-time-limit", type=_POSITIVE, default=600, show_default=True, metavar="S",
              help="Time for one fit.")  # fmt: skip
@option.json("Print the address as JSON.")
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
    with a name. Models may be added, changed and removed while the server runs.
    """
    from foretell.executors.cores import n_cores

    try:
        from foretell.adapters.http.models.app import make_app
        from foretell.adapters.http.models.settings import Limits, Settings
        from foretell.adapters.http.models.store import ModelStore
        from foretell.adapters.http.server.run import listen, run_server, token_required, url_of
        from foretell.adapters.http.server.settings import Access, RequestLimits
    except ModuleNotFoundError as error:
        raise UsageError(
            f"serving needs {error.name}, which is not installed: pip install 'foretell[serve]'"
        ) from None

    settings = Settings(
        models,
        Access(read_token(token_file), frozenset(name.lower() for name in allow_host)),
        RequestLimits(max_body_bytes=int(max_body * 1e6), request_s=time_limit),
        Limits(
            n_workers=n_cores() if workers is None else workers,
            max_rows=max_rows,
            fit_s=fit_time_limit,
        ),
        read_only,
    )
    has_token = settings.access.token is not None
    opened = listen(host, port, refusal=None if has_token else token_required(host))
    url = url_of(opened)

    def on_ready() -> None:
        names = ModelStore(models).names()
        if as_json:
            told = {"url": url, "needs_token": has_token, "models": names}
            echo_unchanged(json.dumps(told) + "\n")  # in one line, for who reads a line
        else:
            count = counted(len(names), "model")
            which = f"{count} ({listing(names)})" if names else "no model yet"
            echo(f"{models} is served at {url}: {which}   ·  the interface: {url}/docs")
            echo("Ctrl-C stops it.", err=True)

    with opened:
        run_server(make_app(settings), settings.requests, opened, on_ready)


def read_token(file: Path | None) -> str | None:
    """Return the token in a file, or else in the environment; None if there is none."""
    if file is None:
        return os.environ.get("FORETELL_TOKEN") or None
    try:
        return read_content(file, _MOST_TOKEN_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(
            f"the file cannot be read: {reason}", option=Option("token_file", str(file))
        ) from None
