"""`foretell learn`: measure, fit and plan in turns, until the plan is sure."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretell.cli._plan_options import plan_options, read_options
from foretell.spaces.quantities import write_quantity

if TYPE_CHECKING:
    from foretell.learn import Learned, Round

_NO_PLAN = 1


@click.command()
@click.argument("sweep", metavar="SWEEP.toml", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Directory for the table of runs and the models. The same command continues there.",
)
@plan_options
@click.option(
    "--target",
    multiple=True,
    metavar="COLUMN",
    help="What to model [default: wall_time_s]; several for a plan that needs energy or memory.",
)
@click.option(
    "--budget",
    metavar="AMOUNT",
    help="What all runs may take together: 30m, 500kJ, or 20 in money with --prices. A run that "
    "was started is finished.",
)
@click.option("-k", "--runs", "n_runs", type=int, default=1, help="Runs between fits [default: 1].")
@click.option(
    "--least-chance",
    type=float,
    metavar="SHARE",
    help="Stop when no run changes the plan more probably [default: 0.05].",
)
@click.option("--on", metavar="WHERE", help="'ray', or the address of a Ray cluster.")
@click.option("-q", "--quiet", is_flag=True, help="No rounds, only the plan.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(  # noqa: PLR0913 - one parameter per option
    sweep: Path,
    output: Path,
    target: tuple[str, ...],
    budget: str | None,
    n_runs: int,
    least_chance: float | None,
    on: str | None,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Measure what matters for a plan, and nothing else.

    SWEEP.toml says how the job is run, and which values can be measured besides those to choose
    from. A few small runs come first; then each is the one that most improves the plan for what it
    costs. Each is made once, whatever the sweep says of repeats.
    """
    from foretell.decide.advise.options import LEAST_CHANCE
    from foretell.learn import LearnOptions, learn_plan

    options = LearnOptions(
        targets=target or ("wall_time_s",),
        budget=budget,
        least_chance=LEAST_CHANCE if least_chance is None else least_chance,
        n_runs=n_runs,
        on=on,
        progress=None if quiet else _show,
    )
    try:
        learned = learn_plan(sweep, read_options(given), output, options)
    except KeyboardInterrupt:
        again = shlex.join(["foretell", *sys.argv[1:]])
        click.echo(f"\ninterrupted. What is measured is kept; continue with\n  {again}", err=True)
        raise
    click.echo(json.dumps(_to_json(learned)) if as_json else _text(learned))
    if learned.plan.chosen is None:
        sys.exit(_NO_PLAN)


def _show(found: Round) -> None:
    """Write a round in one line."""
    from foretell.decide.plan.text import percent

    cost = write_quantity(found.spent, found.kind, found.plan.currency)
    text = f"{found.n_runs} runs, {cost}"
    planned = found.plan.chosen or found.plan.closest
    if planned is not None:
        text += f" · plan {_settings(planned.configuration, found.plan.varied)}"
    if found.chance == found.chance:  # is known
        text += f" · may change with {percent(found.chance)}"
    for run in found.runs:
        text += f" · next {_settings(run, list(run))}"
    click.echo(text, err=True)


def _settings(configuration: Mapping[str, Any], names: Sequence[str]) -> str:
    from foretell.decide.plan.text import number_text

    return ", ".join(f"{name}={number_text(configuration[name])}" for name in names)


def _text(learned: Learned) -> str:
    last = learned.rounds[-1]
    cost = write_quantity(last.spent, learned.budget.kind, learned.plan.currency)
    why = {
        "sure": "no affordable run can change the plan any more",
        "spent": "the budget has no room for another run; the same command with a larger --budget "
        "goes on",
    }[learned.reason]
    files = " ".join(str(path) for path in learned.models.values())
    return f"{learned!r}\nAfter {last.n_runs} runs ({cost}), {why}.\n{learned.table}   {files}"


def _to_json(learned: Learned) -> dict[str, Any]:
    last = learned.rounds[-1]
    return {
        "plan": learned.plan.to_json(),
        "reason": learned.reason,
        "n_runs": last.n_runs,
        "spent": {"kind": learned.budget.kind, "amount": last.spent},
        "table": str(learned.table),
        "models": {target: str(path) for target, path in learned.models.items()},
    }
