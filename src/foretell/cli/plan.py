"""`foretell plan`: the configuration to use."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretell.cli import _options as option
from foretell.cli._output import NOTHING_USABLE, echo, echo_json, echo_unchanged
from foretell.cli._plan_options import candidates_option, load_models, plan_options, read_options
from foretell.wording import counted

if TYPE_CHECKING:
    from foretell.decide.plan.answer import Plan

_FRONT = ("time", "cost", "energy")


@click.command()
@option.models_argument
@plan_options
@click.option("--budget", metavar="MONEY", help="A run must cost less: 20.")
@candidates_option
@click.option(
    "--as", "form", metavar="FORM", help="Print the plan for ray, kubernetes, spark, env or json."
)
@click.option(
    "--role",
    multiple=True,
    metavar="ROLE=COLUMN",
    help="Which column says the workers, cpus, gpus or memory_bytes, for --as.",
)
@option.output("Write the Pareto front of time, cost and energy to this CSV file.")
@option.force
@option.json("Print the plan as JSON.")
def command(
    models: tuple[Path, ...],
    candidates: Path | None,
    form: str | None,
    role: tuple[str, ...],
    output: Path | None,
    force: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Choose the configuration to use, under a deadline, a budget or a power cap.

    MODELS are directories of `foretell fit` or model files: one of a time, and others of energy or
    memory if there are any. With everything fixed, it is a prediction. The exit code is 1 when no
    configuration meets the limits.
    """
    from foretell.adapters.handoff import check_form, hand_off, read_roles
    from foretell.decide.plan.plan import make_plan
    from foretell.decide.plan.text import plan_text
    from foretell.files.directory import write_new

    roles = read_roles(role)
    if form is not None:
        check_form(form)
    plan = make_plan(load_models(models), read_options(given), candidates)
    if output is not None:
        write_new(output, plan.front.to_csv(index=False).encode(), force=force)
    text = plan_text(plan, option.flag)
    if as_json and (form is None or plan.chosen is None):
        echo_json(plan.to_json(option.flag))
    elif plan.chosen is None:
        echo(text, err=True)
    elif form is not None:
        echo(text, err=True)
        echo_unchanged(hand_off(plan, form, roles))
    else:
        echo(text)
        _echo_front(plan, output)
    if plan.chosen is None:
        sys.exit(NOTHING_USABLE)


def _echo_front(plan: Plan, output: Path | None) -> None:
    """Say where the front is: what no other configuration beats in all that is traded off."""
    assert plan.chosen is not None
    kinds = [kind for kind in _FRONT if kind in plan.chosen.estimates]
    if output is None and len(kinds) < 2:  # there is nothing to trade off
        return
    told = f"{output} holds" if output else "-o front.csv writes"
    traded = " and ".join([", ".join(kinds[:-1]), kinds[-1]]) if len(kinds) > 1 else plan.minimize
    n = counted(len(plan.front), "configuration")
    echo(f"  {told} the front, {n} that no other beats in {traded}.")
