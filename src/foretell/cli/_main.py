"""The `foretell` command: finds the verb, and turns errors into messages and exit codes."""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

import click

from foretell._version import __version__
from foretell.cli._options import flag
from foretell.cli._output import INTERRUPTED, NOTHING_USABLE, WRONG_INPUT, echo
from foretell.errors import ForetellError, NothingUsableError, suggest

#: What the verbs are for, and each verb's one-line help. A module loads only when its verb is used.
GROUPS = {
    "Measure": {
        "measure": "Run a sweep of configurations, and write a table of runs.",
    },
    "Model": {
        "fit": "Build models from a table of runs, or from a campaign file.",
        "predict": "Predict with a saved model.",
        "score": "Show how far off a model is, inside the data and beyond.",
        "report": "Write the results of a fit as one page to look at.",
        "export": "Write a model that has a formula as JSON, Python or SQL.",
        "techniques": "List the techniques and their hyperparameters.",
        "convert": "Turn an aMLLibrary campaign file into TOML.",
        "schema": "Print the JSON schema of campaign files.",
    },
    "Decide": {
        "plan": "Choose the configuration to use, under a deadline, a budget or a power cap.",
        "advise": "Propose the next run worth paying for.",
        "learn": "Measure, fit and plan in turns, until the plan is sure.",
        "cluster": "Choose the node for each task, by predicted time and energy.",
        "impact": "Tell which settings matter, and what tuning them reaches.",
        "queue": "Tell how long jobs of each priority take, and what to drop.",
        "tune": "Tell how long a hyperparameter search takes, and what would save time.",
        "corun": "Tell when jobs end that share a machine, and which to put together.",
        "tasks": "Tell how long a task graph takes before it runs, and run it.",
        "deploy": "Choose batch size, threads and replicas for serving a network.",
    },
    "Operate": {
        "serve": "Answer over HTTP, and show a page.",
        "demo": "See it work on an example dataset.",
    },
}
VERBS = {verb: text for verbs in GROUPS.values() for verb, text in verbs.items()}


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"foretell.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise click.UsageError(f"there is no verb '{args[0]}'. {suggest(args[0], VERBS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, VERBS))  # the same in all groups
        for purpose, verbs in GROUPS.items():
            with formatter.section(purpose):
                formatter.write_dl([(verb.ljust(width), text) for verb, text in verbs.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ForetellError as error:
            if ctx.params.get("debug"):
                raise
            verb = self.get_command(ctx, ctx.invoked_subcommand or "")
            echo(f"error: {error.worded(partial(flag, command=verb))}", err=True)
            sys.exit(NOTHING_USABLE if isinstance(error, NothingUsableError) else WRONG_INPUT)
        except click.UsageError as error:
            _refuse(error)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:  # which prints the help
            return super().parse_args(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            _refuse(error)


def _refuse(error: click.UsageError) -> NoReturn:
    verb = error.ctx.command_path if error.ctx else "foretell"
    echo(f"error: {error.format_message()} Try: {verb} --help", err=True)
    sys.exit(WRONG_INPUT)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="foretell")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Tell how long a job will take and how much energy it will burn, before it runs."""
