"""`foretell learn`: measure, fit and plan in turns, until the plan is sure."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretell.cli import _options as option
from foretell.cli._output import NOTHING_USABLE, echo, echo_json
from foretell.cli._plan_options import (
    least_chance_option,
    plan_options,
    read_options,
    run_budget_option,
    runs_option,
)
from foretell.cli._progress import resumable
from foretell.spaces.quantities import write_quantity
from foretell.wording import counted, rough_percent

if TYPE_CHECKING:
    from foretell.learn.result import Learned, Round


@click.command()
@option.path_argument("sweep", metavar="SWEEP.toml")
@option.output(
    "Directory for the table of runs and the models. The same command continues there.",
    required=True,
)
@plan_options
@option.columns(
    "--target",
    "What to model [default: wall_time_s]; several for a plan that needs energy or memory.",
)
@run_budget_option
@runs_option
@least_chance_option
@option.on
@option.quiet
@option.json("Print the result as JSON.")
def command(  # noqa: PLR0913 - one parameter per option
    sweep: Path,
    output: Path,
    target: tuple[str, ...],
    budget: str | None,
    n_runs: int,
    least_chance: float,
    on: str | None,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Measure what matters for a plan, and nothing else.

    SWEEP.toml says how the job is run, and which values can be measured besides those to choose
    from. A few small runs come first; then each is the one that most improves the plan for what it
    costs. Each is made once, whatever the sweep says about repeats. A run that was started is
    finished, even if it exceeds the budget.
    """
    from foretell.learn.loop import learn_plan
    from foretell.learn.result import LearnOptions

    options = LearnOptions(
        targets=target or ("wall_time_s",),
        budget=budget,
        least_chance=least_chance,
        n_runs=n_runs,
        on=on,
        progress=None if quiet else _show,
    )
    with resumable():
        learned = learn_plan(sweep, read_options(given), output, options)
    if as_json:
        echo_json(_to_json(learned))
    else:
        echo(_text(learned))
    if learned.plan.chosen is None:
        sys.exit(NOTHING_USABLE)


def _show(found: Round) -> None:
    """Write a round in one line."""
    from foretell.decide.plan.text import settings_text

    cost = write_quantity(found.spent, found.kind, found.plan.currency)
    text = f"{counted(found.n_runs, 'run')}, {cost}"
    planned = found.plan.chosen or found.plan.closest
    if planned is not None:
        text += f" · plan {settings_text(planned.configuration, found.plan.varied)}"
    if found.chance == found.chance:  # is known
        text += f" · {rough_percent(found.chance)} chance of a change"
    for run in found.runs:
        text += f" · next {settings_text(run, run)}"
    echo(text, err=True)


def _text(learned: Learned) -> str:
    from foretell.decide.plan.text import plan_text
    from foretell.learn.result import SPENT, SURE

    last = learned.rounds[-1]
    cost = write_quantity(last.spent, learned.budget.kind, learned.plan.currency)
    why = {
        SURE: "no affordable run is likely to change the plan",
        SPENT: "the budget does not allow another run; the same command with a larger --budget "
        "continues",
    }[learned.reason]
    files = " ".join(str(path) for path in learned.models.values())
    plan = plan_text(learned.plan, option.flag)
    return (
        f"{plan}\nAfter {counted(last.n_runs, 'run')} ({cost}), {why}.\n{learned.table}   {files}"
    )


def _to_json(learned: Learned) -> dict[str, Any]:
    last = learned.rounds[-1]
    return {
        "plan": learned.plan.to_json(option.flag),
        "reason": learned.reason,
        "n_runs": last.n_runs,
        "spent": {"kind": learned.budget.kind, "amount": last.spent},
        "table": str(learned.table),
        "models": {target: str(path) for target, path in learned.models.items()},
    }
