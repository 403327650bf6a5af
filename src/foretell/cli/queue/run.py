"""`foretell queue run`, `submit` and `status`: run jobs of several classes on one engine."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretell.cli import _options as option
from foretell.cli._output import INTERRUPTED, echo, echo_json, echo_unchanged
from foretell.errors import Option, UsageError
from foretell.wording import counted, printable

if TYPE_CHECKING:
    from foretell.adapters.dispatcher.dispatcher import Dispatcher
    from foretell.adapters.dispatcher.events import Event
    from foretell.adapters.dispatcher.run import Service
    from foretell.decide.queueing.queue_file import RunTable

#: What a person reads line by line; the rest is in the table, or in JSON.
_SHOWN = {
    "rejected", "paused", "preempted", "failed", "interrupted", "done", "aside", "canceled",
    "lost", "note",
}  # fmt: skip

classes_argument = option.path_argument("classes")
state_option = option.path(
    "--state", metavar="FOLDER", help="Folder of the journal [default: state under [run]]."
)
spool_option = option.path(
    "--spool", metavar="FOLDER", help="Folder that jobs come from [default: spool under [run]]."
)


@click.command()
@classes_argument
@click.option("--engine", metavar="ENGINE",
              help="What runs jobs: command or spark [default: engine under [run]].")  # fmt: skip
@state_option
@spool_option
@click.option("--until-empty", is_flag=True, help="End when no job is left.")
@click.option("--seed", type=int, default=0, show_default=True,
              help="Decides which tasks are dropped.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535),
              help="Also take jobs over HTTP, on this port; 0 takes a free one.")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@option.path(
    "--token-file",
    metavar="FILE",
    help="File with the token of clients [default: FORETELL_TOKEN, or a new one in the state].",
)
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="Name under which clients may reach the server, besides its address; repeatable.",
)
@option.quiet
@option.json("Print events as JSON, one per line.")
def run(
    classes: Path,
    until_empty: bool,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Run jobs of several classes on one engine, the highest class first.

    Jobs are files of the spool folder, requests, or what `foretell queue submit` sends. Whatever
    happens to this process, no job is lost, and none that is done runs again: start the same
    command to go on.
    """
    from foretell.adapters.dispatcher.run import run_dispatcher

    service = None if given["port"] is None else _service(given)
    options = {k: given[k] for k in ("engine", "state", "seed")}
    if given["spool"] is not None:
        options["spool"] = given["spool"]
    with _shown(quiet=quiet, as_json=as_json) as display:
        try:
            was_stopped = run_dispatcher(
                classes,
                service=service,
                until_empty=until_empty,
                tell=display.tell,
                on_ready=display.ready,
                **options,
            )
        except KeyboardInterrupt:  # before it is ready
            was_stopped = until_empty = True
    display.end()
    if was_stopped:
        echo(f"Go on with\n  {shlex.join(['foretell', *sys.argv[1:]])}", err=True)
        if until_empty:
            sys.exit(INTERRUPTED)


def _service(given: dict[str, Any]) -> Service:
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise UsageError(
            f"taking jobs over HTTP needs {error.name}, which is not installed: "
            "pip install 'foretell[serve]'. Without it, use the spool folder",
            remedy=("and leave out ", Option("port")),
        ) from None
    from foretell.adapters.dispatcher.run import Service
    from foretell.cli.serve import read_token

    names = frozenset(name.lower() for name in given["allow_host"])
    return Service(given["host"], given["port"], read_token(given["token_file"]), names)


class _Display:
    """Tells nothing until the end."""

    def __init__(self) -> None:
        self._last: Callable[[], str] | None = None
        self._runs = Path()

    def ready(self, dispatcher: Dispatcher, url: str | None) -> None:
        """Take note of the dispatcher that runs now."""
        from foretell.adapters.dispatcher.store.ledger import RUNS

        self._last = lambda: str(dispatcher.status())
        self._runs = dispatcher.folder / RUNS
        self.begin(dispatcher, url)

    def begin(self, dispatcher: Dispatcher, url: str | None) -> None:
        """Say that it runs."""

    def tell(self, event: Event) -> None:
        """Tell an event."""

    def stop(self) -> None:
        """Draw nothing more."""

    def end(self) -> None:
        """Print how the queue is."""
        if self._last is not None:
            echo(self._last())
            echo(f"{self._runs} has a row for each job that ended.", err=True)


class _Lines(_Display):
    """A line for what a person wants to know at once."""

    def begin(self, dispatcher: Dispatcher, url: str | None) -> None:
        where = "" if url is None else f" and {url}/jobs"
        n = counted(dispatcher.status().n_waiting, "job")
        echo(f"Jobs are taken from {dispatcher.spool_folder}{where}; waiting: {n}.", err=True)
        echo("Ctrl-C stops it; nothing is lost.", err=True)

    def tell(self, event: Event) -> None:
        if event.kind in _SHOWN:
            echo(str(event))


class _Json(_Display):
    """Each event as a line of JSON."""

    def begin(self, dispatcher: Dispatcher, url: str | None) -> None:
        told = {"event": "ready", "url": url, "state": str(dispatcher.folder)}
        echo_unchanged(json.dumps(told) + "\n")

    def tell(self, event: Event) -> None:
        echo_unchanged(json.dumps(event.to_json()) + "\n")

    def end(self) -> None:
        return


class _Table(_Lines):
    """A table that is drawn again and again, with events above it."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.live import Live

        self._dispatcher: Dispatcher | None = None
        self._live: Any = Live(
            console=Console(), refresh_per_second=4, get_renderable=self._draw, transient=True
        )

    def _draw(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        if self._dispatcher is None:
            return Text()
        status = self._dispatcher.status()
        header, *rows = status.rows()
        table = Table(box=None, pad_edge=False)
        for i, name in enumerate(header):
            table.add_column(name, justify="left" if i == 0 else "right")
        for row in rows:
            table.add_row(*map(Text, row))
        return Group(table, *map(Text, status.remarks()))

    def begin(self, dispatcher: Dispatcher, url: str | None) -> None:
        super().begin(dispatcher, url)
        self._dispatcher = dispatcher
        self._live.start()

    def tell(self, event: Event) -> None:
        from rich.text import Text

        if event.kind in _SHOWN:
            self._live.console.print(Text(printable(str(event))))

    def stop(self) -> None:
        self._live.stop()


@contextmanager
def _shown(*, quiet: bool, as_json: bool) -> Iterator[_Display]:
    kind = _Json if as_json else _Display if quiet else _Table if sys.stdout.isatty() else _Lines
    shown = kind()
    try:
        yield shown
    finally:
        shown.stop()


@click.command(context_settings={"ignore_unknown_options": True})
@classes_argument
@click.argument("command", nargs=-1, required=True)
@click.option("--class", "class_name", required=True, metavar="NAME", help="The class of the job.")
@click.option("--name", default="", metavar="NAME", help="A name of your own for the job.")
@click.option(
    "--argument",
    "arguments",
    multiple=True,
    metavar="NAME=VALUE",
    help="An argument of a function; a number, or a text. Can be repeated.",
)
@spool_option
@option.json("Print the id as JSON.")
def submit(
    classes: Path,
    command: tuple[str, ...],
    class_name: str,
    name: str,
    arguments: tuple[str, ...],
    spool: Path | None,
    as_json: bool,
) -> None:
    """Submit a job: a command, or for Spark a function as file.py:function.

    It is put into the spool folder. If no dispatcher runs, it waits there.
    """
    from foretell.adapters.dispatcher.spool import write_job
    from foretell.cli.queue._file import read_classes

    queue = read_classes(classes)
    queue.named(class_name)
    job: dict[str, Any] = {"class": class_name, "run": _what(command, queue.run)}
    job |= {"name": name} if name else {}
    job |= {"arguments": dict(map(_argument, arguments))} if arguments else {}
    folder = queue.folder / queue.run.spool if spool is None else spool
    job_id = write_job(folder, job)
    if as_json:
        echo_json({"id": job_id})
    else:
        echo(job_id)


def _what(command: tuple[str, ...], run: RunTable) -> str | list[str]:
    """Return what a job runs; refuse what the engine of the class file cannot run."""
    is_function = len(command) == 1 and ".py:" in command[0]
    is_named = "engine" in run.model_fields_set  # otherwise `queue run --engine` names it
    if is_named and is_function != (run.engine == "spark"):
        given, wanted = ("a function", "a program") if is_function else (
            "a program", "a function, as file.py:function")  # fmt: skip
        raise UsageError(
            f"'{shlex.join(command)}' is {given}, and the engine of the class file, "
            f"'{run.engine}', runs {wanted}; submit one, or change engine under [run]"
        )
    return command[0] if is_function else list(command)


def _argument(text: str) -> tuple[str, Any]:
    name, joint, value = text.partition("=")
    if not name or not joint:
        raise UsageError("must be NAME=VALUE", option=Option("argument", text))
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


@click.command()
@classes_argument
@state_option
@spool_option
@click.option("--url", help="Ask a dispatcher over HTTP instead; FORETELL_TOKEN has its token.")
@option.output("Write the table of runs here, as CSV.")
@option.force
@option.json("Print it as JSON.")
def status(
    classes: Path,
    state: Path | None,
    spool: Path | None,
    url: str | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Show what waits, runs and is done, by class.

    It reads the folders of the state and of jobs, and disturbs no dispatcher that works on it.
    """
    from foretell.adapters.dispatcher.client import ask_status
    from foretell.adapters.dispatcher.status import read_status
    from foretell.adapters.dispatcher.store.ledger import RUNS
    from foretell.decide.queueing.queue_file import read_queue
    from foretell.files.directory import write_new

    queue = read_queue(classes)
    folder = queue.folder / queue.run.state if state is None else state
    if url is not None:
        found = ask_status(url, os.environ.get("FORETELL_TOKEN"))
    else:
        jobs = queue.folder / queue.run.spool if spool is None else spool
        found = read_status(queue, folder, jobs)
    if as_json:
        echo_json(found.to_json())
    else:
        echo(str(found))
    if output is not None:
        try:
            content = (folder / RUNS).read_bytes()
        except OSError:
            raise UsageError(f"{folder} has no table of runs yet: no job ended") from None
        write_new(output, content, force=force)
        echo(f"{output} written.", err=True)
